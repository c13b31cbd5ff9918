"""A server of the web app on loopback, in a thread of the test, and requests to it."""

import asyncio
import http.client
import io
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
from PIL import Image

from pixtree.app.limits import Limits
from pixtree.app.server import create_app, hosts_for, listening, server_of, warm_up

HOST = "127.0.0.1"


@contextmanager
def running(limits=None, model=None):
    """The port of a server, which ends with the block. Its kernels are warm: compiling may take longer than an answer may."""
    warm_up(Limits())
    listener = listening(HOST, 0)
    app = create_app(limits, model=model, hosts=hosts_for(HOST))
    server = server_of(app, HOST, listener.getsockname()[1])
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(20)
        listener.close()


def request(port, method, path, body=None, headers=None, seconds=120):
    """Status, headers and body of an answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def upload(port, content):
    """Status, id and body of the answer to a picture."""
    status, headers, body = request(port, "POST", "/api/trees", content)
    return status, headers.get("x-pixtree-id"), body


def in_a_loop(coroutine):
    """Run a coroutine in a thread of its own: the browser of other tests keeps a loop running in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result()


def sentence(body):
    """The error that an answer tells."""
    return json.loads(body)["error"]


def png(pixels, **options):
    """An array as the bytes of a PNG file."""
    stream = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).save(stream, "PNG", **options)
    return stream.getvalue()
