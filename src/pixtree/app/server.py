"""The server: routes of all rooms, errors in one sentence, and uvicorn within limits that it does not have itself."""

import asyncio
import socket
import threading
import webbrowser
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from pixtree.app import drawing_room, page, regions_room, select_room, sessions, tokens_room
from pixtree.app.connections import BoundedProtocol
from pixtree.app.limits import LARGEST_HEAD, Limits, Protection, RefusedError, invalid
from pixtree.app.sessions import Service, grown
from pixtree.files import png

MODULES = (page, sessions, regions_room, select_room, drawing_room, tokens_room)  # with routes
BACKLOG = 512  # clients that connect before the server runs wait for it
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")


def create_app(limits: Limits | None = None, *, model: Any = None, hosts: Sequence[str] = ()) -> FastAPI:
    """The web app. model: a `pixtree.app.demo_model.DemoModel`. hosts: names under which browsers may ask; none means any."""
    service = Service.within(limits or Limits(), model)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Limits]]:
        warming = asyncio.create_task(service.workers.run(None, warm_up, service.limits))
        yield {"limits": service.limits}  # which connections see before any request
        service.workers.close()
        warming.cancel()

    app = FastAPI(title="pixtree", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.service = service
    app.add_middleware(Protection, hosts=tuple(hosts))
    for module in MODULES:
        app.include_router(module.router)
    for kind in (RefusedError, ValueError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _answer)
    return app


def warm_up(limits: Limits) -> None:
    """Load the kernels, or compile them once per machine, by growing a small tree."""
    grown(png(np.eye(64, dtype=np.uint8) * 255), limits)


async def _answer(_: Request, fault: Exception) -> JSONResponse:
    """Any error as a status and one sentence; errors of the library help the user, others reveal nothing."""
    match fault:
        case RefusedError():
            refusal = fault
        case RequestValidationError():
            first = fault.errors()[0]
            refusal = invalid(first["loc"][1:], first["msg"])
        case HTTPException():
            refusal = RefusedError(fault.status_code, f"this server has no such page ({fault.detail}); go to its start page")
        case ValueError():
            refusal = RefusedError(422, " ".join(str(fault).split()))
        case MemoryError():
            refusal = RefusedError(503, "the server has too little memory for this image; send a smaller one")
        case _:
            refusal = RefusedError(500, "the server made a mistake, which its terminal shows; try something else")
    return refusal.response()


def hosts_for(host: str) -> tuple[str, ...]:
    """The names that a server at this address answers to; none, which means any, if it listens everywhere."""
    return () if host in EVERYWHERE else (*LOCAL, host)


def server_of(app: FastAPI, host: str, port: int, *, quiet: bool = True) -> uvicorn.Server:
    """A server that is not running yet."""
    config = uvicorn.Config(
        app,
        host,
        port,
        http=BoundedProtocol,
        ws="none",
        log_level="warning" if quiet else "info",
        server_header=False,
        proxy_headers=False,  # limits apply to the address that is connected, whatever it says of itself
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def listening(host: str, port: int) -> socket.socket:
    """A listening socket, or an error with a remedy; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise OSError(f"a server needs a free address, {host}:{port} is not ({error.strerror}); choose another --port") from None
    return listener


def serve(app: FastAPI, listener: socket.socket, host: str, address: str, *, open_browser: bool) -> None:
    """Serve until interrupted."""
    if open_browser:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    server_of(app, host, listener.getsockname()[1]).run(sockets=[listener])
