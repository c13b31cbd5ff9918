"""Intake: bodies of requests, read within limits of size and time, and of memory for all of them together."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.requests import ClientDisconnect

from pixtree.app.limits import MEBIBYTE, Limits
from pixtree.app.refusals import RefusedError, busy


class Intake:
    """Bodies that are being received, or that wait for their tree."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._held = limits, 0

    @asynccontextmanager
    async def body(self, request: Request, most: int) -> AsyncIterator[bytes]:
        """The body of a request of at most so many bytes; its memory counts until the block ends."""
        length = _length(request, most)
        if self._held + length > self._limits.intake_bytes:
            raise busy()
        self._held += length
        try:
            yield await self._read(request)
        finally:
            self._held -= length

    async def _read(self, request: Request) -> bytes:
        try:
            async with asyncio.timeout(self._limits.upload_seconds):
                return b"".join([chunk async for chunk in request.stream()])
        except TimeoutError:
            seconds = f"{self._limits.upload_seconds:g}"
            raise RefusedError(408, f"a picture must arrive in {seconds} seconds, this one did not; send a smaller one") from None
        except ClientDisconnect:
            raise RefusedError(400, "the connection ended before the picture did; send it again") from None


def _length(request: Request, most: int) -> int:
    """The announced length, which the protocol holds the client to."""
    text = request.headers.get("content-length", "")
    if not text.isdecimal():
        raise RefusedError(411, "a request must announce the length of its body, this one does not; send Content-Length")
    if int(text) > most:
        size, limit = int(text) / MEBIBYTE, most / MEBIBYTE
        raise RefusedError(413, f"a file may have at most {limit:g} MB, this one has {size:.1f}; make it smaller first")
    if int(text) == 0:
        raise RefusedError(422, "a request needs a body, this one is empty; choose another file")
    return int(text)
