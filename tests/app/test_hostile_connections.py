"""Connections that wait, trickle, never read or come in hundreds: each ends in time, and others are answered meanwhile."""

import http.client
import socket
import time
from contextlib import ExitStack, closing, suppress

import pytest
from running import HOST, request, running

from pixtree.app.connections import neighbourhood
from pixtree.app.limits import Limits

PAGE = b"GET /api/about HTTP/1.1\r\nhost: localhost\r\n\r\n"
STRANGERS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


@pytest.fixture(scope="module")
def port():
    limits = Limits(header_seconds=1, upload_seconds=1, answer_seconds=1, download_seconds=1, connections=24, address_connections=8)
    with running(limits) as found:
        yield found


def connected(port, source):
    return socket.create_connection((HOST, port), timeout=10, source_address=(source, 0))


def end_of(line, step=b"", wait=10.0):
    """Seconds until the server closes a connection, to which a byte of `step` is sent every tenth of a second."""
    start = time.monotonic()
    line.settimeout(0.1)
    for place in range(int(wait * 10)):
        try:
            if step:
                line.sendall(step[place % len(step) :][:1])
            if not line.recv(65536):
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - start


@pytest.mark.parametrize(("first", "step"), [(PAGE + b"G", b""), (PAGE, b"GET / HTTP/1.1\r\nx: " + b"y" * 200), (b"", b"G")])
def test_every_head_has_a_deadline_however_its_bytes_come(port, first, step):
    with connected(port, STRANGERS[0]) as line:
        line.sendall(first)
        assert 0.5 < end_of(line, step) < 4


def test_a_kept_connection_serves_one_request_after_another(port):
    with closing(http.client.HTTPConnection(HOST, port, timeout=10)) as line:
        line.connect()
        kept = line.sock
        for _ in range(4):
            time.sleep(0.6)  # less than a head may take, and more than one deadline in all
            line.request("GET", "/api/about")
            answer = line.getresponse()
            assert (answer.status, len(answer.read()) > 0, line.sock) == (200, True, kept)


def test_connections_of_one_address_do_not_keep_others_out(port):
    with ExitStack() as stack:
        lines = [stack.enter_context(connected(port, STRANGERS[0])) for _ in range(30)]
        for line in lines:
            with suppress(ConnectionError):
                line.sendall(PAGE + b"G")
        assert request(port, "GET", "/api/about", seconds=5)[0] == 200
        refused = sum(first_line(line).startswith(b"HTTP/1.1 503") or first_line(line) == b"" for line in lines)
    assert refused >= 22


def first_line(line):
    """The start of an answer, which stays readable."""
    try:
        return line.recv(20, socket.MSG_PEEK)
    except (ConnectionError, TimeoutError):
        return b""


def test_a_full_server_makes_room_for_newcomers(port):
    with ExitStack() as stack:
        for stranger in STRANGERS:
            for _ in range(8):
                stack.enter_context(connected(port, stranger)).sendall(b"G")
        time.sleep(0.2)
        start = time.monotonic()
        assert request(port, "GET", "/api/about", seconds=5)[0] == 200
        assert time.monotonic() - start < 0.7  # before the deadline of the others


def test_answers_that_nobody_reads_are_not_kept(port):
    wanted = b"GET /static/main.js HTTP/1.1\r\nhost: localhost\r\n\r\n"
    size = int(request(port, "GET", "/static/main.js")[1]["content-length"])
    count = (16 << 20) // size  # more than the buffers of the kernel hold
    with connected(port, STRANGERS[0]) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(0.2)
        with suppress(TimeoutError):
            line.sendall(wanted * count)
        time.sleep(4)  # more than all deadlines together
        line.settimeout(5)
        received = 0
        try:
            while piece := line.recv(1 << 20):
                received += len(piece)
        except ConnectionError:
            pass
    assert received < 12 << 20


def test_an_address_is_the_part_that_its_user_cannot_change():
    assert neighbourhood("10.0.0.7") == "10.0.0.7"
    assert neighbourhood("::ffff:10.0.0.7") == "10.0.0.7"
    assert neighbourhood("2001:db8:1:2:3::4") == neighbourhood("2001:db8:1:2:ffff::") != neighbourhood("2001:db8:1:3::")
    assert neighbourhood("fe80::1%eth0") == neighbourhood("fe80::2")
    assert neighbourhood("") == ""
