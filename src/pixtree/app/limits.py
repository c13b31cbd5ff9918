"""Limits of the server, refused requests, bounded bodies, and isolating headers."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MEBIBYTE = 1 << 20
LARGEST_HEAD = 16_384  # bytes of a request's first line and headers
UNREAD = (400, 403, 408, 411, 413, 431, 503)  # statuses of requests whose body is not read, or not completely
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE = ("GET", "HEAD", "OPTIONS")  # methods that change nothing and need no body
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Limits:
    """All limits of one server.

    side: images are reduced to this many pixels on their longer side. regions: of the finest cut that the page can draw.
    upload_bytes, upload_pixels: of one file. intake_bytes: of all files that are being received or wait for their tree.
    session_bytes: of all trees that are kept; the least recently used ones are dropped first.
    waiting: requests for computations that may wait or run at once. json_bytes: of a request that is not a file.
    connections, address_connections: of all clients, and of one address.
    header_seconds, upload_seconds, answer_seconds, download_seconds: for the head of a request, for its body, for the computation,
    and for the client to read the answer. drawing_seconds: for the computation of a drawing.
    """

    side: int = 1024
    regions: int = 4096
    upload_bytes: int = 32 * MEBIBYTE
    upload_pixels: int = 50_000_000
    intake_bytes: int = 256 * MEBIBYTE
    session_bytes: int = 512 * MEBIBYTE
    waiting: int = 64
    json_bytes: int = MEBIBYTE
    connections: int = 512
    address_connections: int = 64
    header_seconds: float = 10.0
    upload_seconds: float = 30.0
    answer_seconds: float = 60.0
    download_seconds: float = 60.0
    drawing_seconds: float = 30.0


class Form(BaseModel):
    """The parameters of a request; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


class RefusedError(Exception):
    """A refused request: the HTTP status, and the sentence that the page shows (what was expected, what came, what to do)."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence

    def response(self) -> JSONResponse:
        """The answer as JSON: {"error": sentence}."""
        headers = {"connection": "close"} if self.status in UNREAD else None
        return JSONResponse({"error": self.sentence}, self.status, headers)


def busy() -> RefusedError:
    """The refusal of a server at its limits."""
    return RefusedError(503, "the server has too much to do at the moment; try again in a few seconds")


def invalid(place: Sequence[Any], message: str) -> RefusedError:
    """The refusal of a wrong parameter. place: its path in the request."""
    return RefusedError(422, f"the request is not valid: {'.'.join(str(part) for part in place)}: {message}; correct it")


class Intake:
    """Request bodies that are being received or wait for their tree, within limits of size, time and total memory."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._held = limits, 0

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """The body of a request of at most `most` bytes; its memory counts until the block ends.

        What has arrived counts, not what is announced: clients that announce much and send nothing must not keep others out.
        """
        length = _length(request, most)
        if self._held + length > self._limits.intake_bytes:
            raise busy()
        content = bytearray()
        try:
            await self._read(request, length, content)
            yield bytes(content)
        finally:
            self._held -= len(content)

    async def _read(self, request: Request, length: int, content: bytearray) -> None:
        """Append the body to `content`, and count it: memory must not depend on how well the protocol checks the headers."""
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                async for chunk in request.stream():
                    if len(content) + len(chunk) > length:
                        raise RefusedError(400, f"this body announced {length} bytes and has more; correct its Content-Length")
                    if self._held + len(chunk) > self._limits.intake_bytes:
                        raise busy()
                    content += chunk
                    self._held += len(chunk)
        except TimeoutError:
            seconds = f"{self._limits.upload_seconds:g}"
            raise RefusedError(408, f"an image must arrive in {seconds} seconds, this one did not; send a smaller one") from None
        except ClientDisconnect:
            raise RefusedError(400, "the connection ended before the image did; send it again") from None


def _length(request: Request, most: int) -> int:
    """The announced length."""
    text = request.headers.get("content-length", "")
    if not text.isdecimal():
        raise RefusedError(411, "a request must announce the length of its body, this one does not; send Content-Length")
    if int(text) > most:
        size, limit = int(text) / MEBIBYTE, most / MEBIBYTE
        raise RefusedError(413, f"a file may have at most {limit:g} MB, this one has {size:.1f}; make it smaller first")
    if int(text) == 0:
        raise RefusedError(422, "a request needs a body, this one is empty; choose another file")
    return int(text)


class Protection:
    """ASGI middleware: it adds the headers to every answer, and refuses foreign host names and requests of other web pages.

    The host name is checked because a stranger's domain may resolve to this machine, and its pages would then have our origin.
    """

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...] = ()) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        address = len(scope.get("raw_path", b"")) + len(scope["query_string"])
        refusal = _framing_refusal(scope["method"], headers) or self._refusal(scope["method"], headers, address)
        answer = self.app if refusal is None else refusal.response()
        await answer(scope, receive, guarded)

    def _refusal(self, method: str, headers: Headers, address: int) -> RefusedError | None:
        """Why a request with these headers, and an address of this many bytes, is refused, if it is."""
        size = address + sum(len(name) + len(value) for name, value in headers.raw)
        if size > LARGEST_HEAD:  # h11 limits only heads that arrive in pieces
            return RefusedError(431, f"the head of a request may have {LARGEST_HEAD} bytes, this one has {size}; send less")
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.hosts and name.strip("[]") not in self.hosts:
            return RefusedError(421, f"this server answers to {', '.join(self.hosts)}, not to another name; correct the address")
        is_embedded = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        is_foreign = is_embedded and headers.get("sec-fetch-mode") != "navigate"
        if is_foreign or (method not in SAFE and not _is_own_origin(headers)):
            return RefusedError(403, "this server answers its own page only; open its address in a browser")
        return None


def _is_own_origin(headers: Headers) -> bool:
    """Whether the page that sent a request came from this server; programs, unlike browsers, name no origin."""
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower() != ""


def _framing_refusal(method: str, headers: Headers) -> RefusedError | None:
    """Why a request does not make clear where its body ends, if it does not.

    h11 lets `transfer-encoding` override `content-length`, so a body could be far longer than it announced.
    """
    if "transfer-encoding" in headers and "content-length" in headers:
        return RefusedError(400, "a request has one length, this one has Content-Length and Transfer-Encoding; send the first only")
    if "transfer-encoding" in headers:
        return RefusedError(411, "a request must announce the length of its body, this one does not; send Content-Length")
    if method in SAFE and headers.get("content-length", "0") != "0":
        return RefusedError(400, f"a {method} request has no body, this one announces one; leave it out")
    return None
