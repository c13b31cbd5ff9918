"""Connections: HTTP with a deadline for every phase, and no more connections per address than its share."""

import asyncio
import json
from collections import Counter
from ipaddress import IPv6Address, ip_address
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from pixtree.app.limits import HEADERS, Limits

PREFIX = 64  # bits of an IPv6 address that one user has
SENTENCE = "an address may hold a few connections at a time, this one holds too many; close some or try again in a few seconds"


def neighbourhood(host: str) -> str:
    """The address that limits apply to: all of an IPv4 address, and the part of an IPv6 address that its user cannot change."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # a Unix socket
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    return str(address.ipv4_mapped or IPv6Address(int(address) >> (128 - PREFIX) << (128 - PREFIX)))


def refusal() -> bytes:
    """The answer to a connection that is one too many."""
    body = json.dumps({"error": SENTENCE}).encode()
    headers = HEADERS | {"content-type": "application/json", "content-length": str(len(body)), "connection": "close"}
    lines = ["HTTP/1.1 503 Service Unavailable", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class BoundedProtocol(H11Protocol):
    """HTTP within limits that uvicorn does not have.

    Uvicorn closes an idle connection after five seconds, but one byte stops that clock, and it waits for ever until an answer is
    read. Here the head of a request must be complete in time after the connection or the previous answer, an answer must be sent
    in the time that its upload, computation and download may take together, and the client must then read it in time.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, or refuse the connection."""
        super().connection_made(transport)
        self.limits: Limits = self.app_state["limits"]
        self.address = neighbourhood(self.client[0] if self.client else "")
        self.is_busy = self.is_dropped = False
        self._deadline = self.loop.call_later(self.limits.header_seconds, self.drop)
        if not self._has_room():
            transport.write(refusal())
            transport.close()
            self.is_dropped = True

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._deadline.cancel()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle what has arrived; a complete head starts the clock of its answer."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self.is_busy = True
            self._expect(self.limits.upload_seconds + self.limits.answer_seconds + self.limits.download_seconds)

    def on_response_complete(self) -> None:
        """Wait for the next head, or until the answer has been read; the rest of a body that nobody read is included in this."""
        self.is_busy = False
        is_read = self.transport.get_write_buffer_size() == 0
        self._expect(self.limits.header_seconds if is_read else self.limits.download_seconds)
        super().on_response_complete()

    def drop(self) -> None:
        """Close the connection without waiting for anything that the client has not read."""
        self.is_dropped = True
        self.transport.abort()

    def _expect(self, seconds: float) -> None:
        self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self.drop)

    def _has_room(self) -> bool:
        """Whether this connection may stay; a full server drops one that waits for a head, of the address that holds the most."""
        present = [other for other in cast(set[BoundedProtocol], self.connections) if not other.is_dropped]
        held = Counter(other.address for other in present)
        if held[self.address] > self.limits.address_connections:
            return False
        if len(present) > self.limits.connections:
            idle = [other for other in present if not other.is_busy and other is not self]
            if not idle:
                return False
            max(idle, key=lambda other: held[other.address]).drop()
        return True
