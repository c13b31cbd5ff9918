"""Strangers: bombs, wrong files, huge heads, slow clients and floods are refused in one sentence, and the server lives on."""

import io
import socket
import struct
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fastapi import Request
from PIL import Image
from running import HOST, in_a_loop, png, request, running, sentence, upload

from pixtree.app.limits import POLICY, Intake, Limits, RefusedError

SMALL = png(np.arange(48, dtype=np.uint8).reshape(4, 4, 3))


@pytest.fixture(scope="module")
def port():
    with running(Limits(upload_bytes=200_000, upload_pixels=1_000_000, header_seconds=1, upload_seconds=1, regions=50)) as found:
        upload(found, SMALL)
        yield found


@pytest.fixture(autouse=True)
def still_alive(port):
    yield
    assert upload(port, SMALL)[0] == 200


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def bomb(side, kind=b"IDAT", content=b""):
    """A PNG that announces side × side pixels in a few bytes."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(kind, content) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


def jpeg(**options):
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)).save(stream, "JPEG", **options)
    return stream.getvalue()


REFUSED = {
    "a bomb of 900 megapixels": (bomb(30_000), 413),
    "a bomb of 10 megapixels": (bomb(3_200), 413),
    "a compressed text of 100 MB": (bomb(64, b"zTXt", b"a\0\0" + zlib.compress(bytes(100_000_000))), 422),
    "text": (b"hello, world", 415),
    "HTML": (b"<html><script>alert(1)</script></html>", 415),
    "SVG": (b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>', 415),
    "TIFF": (b"II*\0" + bytes(100), 415),
    "EPS": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415),
    "a truncated JPEG": (jpeg()[:700], 422),
    "a truncated PNG": (SMALL[:50], 422),
    "a GIF of nothing": (b"GIF89a" + bytes(10), 422),
    "a file of 250 kB": (bytes(250_000), 413),
    "nothing": (b"", 422),
}


@pytest.mark.parametrize("what", REFUSED)
def test_files_that_are_no_photos_are_refused_in_one_sentence(port, what):
    content, expected = REFUSED[what]
    status, _, body = upload(port, content)
    words = sentence(body)
    assert status in (expected, 415), words
    assert "; " in words
    assert "\n" not in words
    assert len(words) < 200


def test_metadata_of_any_size_and_sense_does_no_harm(port):
    assert upload(port, jpeg(exif=b"Exif\0\0" + bytes(range(256)) * 40))[0] == 200
    assert upload(port, jpeg(icc_profile=bytes(60_000)))[0] == 200


PATHS = [
    *("/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py", "/static//etc/passwd", "/static/"),
    *("/examples/../x", "/examples/data", "/examples/%2e%2e%2fserver", "/api/trees/..%2f..%2fetc/cut?tokens=3"),
    *("/docs", "/openapi.json"),
]


@pytest.mark.parametrize("path", PATHS)
def test_no_path_reaches_the_file_system(port, path):
    status, _, body = request(port, "GET", path)
    assert status in (404, 410)
    assert "; " in sentence(body)


def test_a_name_that_is_not_ours_and_other_pages_get_nothing(port):
    status, _, body = request(port, "GET", "/", headers={"host": "evil.example"})
    assert (status, "another name" in sentence(body)) == (421, True)
    status, _, body = request(port, "POST", "/api/trees", SMALL, {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"})
    assert (status, "its own page" in sentence(body)) == (403, True)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "https://127.0.0.1", "nonsense", ""])
@pytest.mark.parametrize("path", ["/api/trees", "/api/trees/x/select", "/nowhere"])
def test_a_post_from_a_foreign_origin_is_refused(port, origin, path):
    status, _, body = request(port, "POST", path, SMALL, {"origin": origin})
    assert status == 403
    assert "its own page" in sentence(body)


def test_a_post_of_the_own_page_or_without_an_origin_is_answered(port):
    for headers in ({"origin": f"http://{HOST}:{port}"}, {"origin": f"http://LOCALHOST:{port}", "host": f"localhost:{port}"}, {}):
        assert request(port, "POST", "/api/trees", SMALL, headers)[0] == 200


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/api/about", "/nowhere", "/api/trees/x/cut?tokens=5"])
def test_every_answer_has_a_strict_policy(port, path):
    headers = request(port, "GET", path)[1]
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["server"] is None


def talk(port, content, wait=10.0):
    """The bytes that come back until the server closes, and the seconds that this takes."""
    start = time.monotonic()
    with socket.create_connection((HOST, port), timeout=wait) as line:
        line.sendall(content)
        found = b""
        try:
            while piece := line.recv(65536):
                found += piece
        except ConnectionError:
            pass
    return found, time.monotonic() - start


def test_huge_heads_are_refused(port):
    found, _ = talk(port, b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 100_000 + b"\r\n\r\n")
    assert found.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400"))  # in one piece, or in several
    found, _ = talk(port, b"\x16\x03\x01 what is this\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 400")


def test_a_head_that_never_ends_is_not_waited_for(port):
    found, seconds = talk(port, b"GET / HTTP/1.1\r\nhost: localhost\r\nx: y")
    assert (found, 0.5 < seconds < 5) == (b"", True)
    found, seconds = talk(port, b"")
    assert (found, 0.5 < seconds < 5) == (b"", True)


def test_a_body_that_never_comes_is_not_waited_for(port):
    found, seconds = talk(port, b"POST /api/trees HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\nabc")
    assert found.startswith(b"HTTP/1.1 408")
    assert b"must arrive in 1 seconds" in found
    assert seconds < 5


def test_a_body_of_unknown_length_is_refused(port):
    found, _ = talk(
        port, b"POST /api/trees HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    )
    assert found.startswith(b"HTTP/1.1 411")


POST = b"POST /api/trees HTTP/1.1\r\nhost: localhost\r\n"
CONFLICTS = {
    "both": POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
    "both, the other way round": POST + b"Transfer-Encoding: Chunked\r\nContent-Length: 5\r\n\r\n",
    "two lengths": POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\n",
    "HTTP/1.0": POST.replace(b"1.1", b"1.0") + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
    "a body of a GET": b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000000\r\n\r\n",
}


@pytest.mark.parametrize("what", CONFLICTS)
def test_conflicting_lengths_are_refused_before_any_of_the_body_is_read(port, what):
    pushed = 0
    with socket.create_connection((HOST, port), timeout=10) as line:
        line.sendall(CONFLICTS[what])
        try:
            while pushed < 1 << 26:  # 64 MB, of 0.2 that are allowed
                line.sendall(b"10000\r\n" + bytes(0x10000) + b"\r\n")
                pushed += 0x10000
        except ConnectionError:
            pass
    assert pushed < 1 << 24  # what the kernel's buffers take
    assert talk(port, CONFLICTS[what])[0].startswith(b"HTTP/1.1 400")


def test_bytes_are_counted_whatever_the_headers_say():
    async def received():
        return pieces.pop() if pieces else {"type": "http.request", "body": b"", "more_body": False}

    async def read():
        scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-length", b"10")]}
        async with Intake(Limits()).body(Request(scope, received), 100) as content:
            return content

    pieces = [{"type": "http.request", "body": bytes(8), "more_body": True} for _ in range(1000)]
    with pytest.raises(RefusedError, match="announced 10 bytes") as refusal:
        in_a_loop(read())
    assert (refusal.value.status, len(pieces)) == (400, 998)


def test_clients_that_leave_halfway_are_forgotten(port):
    for _ in range(20):
        with socket.create_connection((HOST, port)) as line:
            line.sendall(b"POST /api/trees HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\nabc")
    assert upload(port, SMALL)[0] == 200


def test_slow_clients_do_not_keep_others_out(port):
    slow = [threading.Thread(target=talk, args=(port, b"GET / HTTP/1.1\r\nhost: loc")) for _ in range(50)]
    for thread in slow:
        thread.start()
    start = time.monotonic()
    assert upload(port, SMALL)[0] == 200
    assert time.monotonic() - start < 5
    for thread in slow:
        thread.join(10)


def test_a_flood_is_answered_or_refused_but_never_breaks():
    content = png(np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8))
    with running(Limits(waiting=4, regions=50)) as port:
        upload(port, SMALL)
        with ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(lambda _: upload(port, content), range(120)))
        statuses = {status for status, _, _ in answers}
        assert statuses <= {200, 503}
        assert all("try again" in sentence(body) for status, _, body in answers if status == 503)
        assert sum(status == 200 for status, _, _ in answers) >= 4
        assert upload(port, content)[0] == 200


def test_files_that_wait_are_bounded_in_bytes():
    with running(Limits(intake_bytes=30_000, upload_seconds=3)) as port:
        head = b"POST /api/trees HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 20000\r\n\r\n"
        with socket.create_connection((HOST, port)) as line:
            line.sendall(head)
            time.sleep(0.3)
            assert upload(port, SMALL)[0] == 200  # bytes that are announced but not sent keep nobody out
            line.sendall(bytes(19_000))
            time.sleep(0.3)
            found, _ = talk(port, head + bytes(20_000))
            assert found.startswith(b"HTTP/1.1 503")
        time.sleep(0.3)
        assert upload(port, SMALL)[0] == 200
