"""Serving: uvicorn within limits that it does not have itself, from the command line."""

import asyncio
import socket
import threading
import webbrowser

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from pixtree.app.protection import LARGEST_HEAD

MOST_CONNECTIONS = 512
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")


class PatientProtocol(H11Protocol):
    """HTTP whose patience ends: a connection that has not sent the head of a request in time is closed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a head."""
        super().connection_made(transport)
        seconds = self.app_state["header_seconds"]
        self.loop.call_later(seconds, self._close_if_silent)

    def _close_if_silent(self) -> None:
        is_silent = vars(self)["cycle"] is None  # set by the first request
        if is_silent and not self.transport.is_closing():
            self.transport.close()


def hosts_for(host: str) -> tuple[str, ...]:
    """The names under which a server at this address may be asked for; none, which means any, where it listens everywhere."""
    return () if host in EVERYWHERE else (*LOCAL, host)


def server_of(app: FastAPI, host: str, port: int, *, quiet: bool = True) -> uvicorn.Server:
    """A server that is not running yet."""
    config = uvicorn.Config(
        app,
        host,
        port,
        http=PatientProtocol,
        ws="none",
        log_level="warning" if quiet else "info",
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says what to do; port 0 takes any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)  # who connects before the server runs waits for it
    except OSError as error:
        listener.close()
        raise OSError(f"a server needs a free address, {host}:{port} is not ({error.strerror}); choose another --port") from None
    return listener


def serve(app: FastAPI, listener: socket.socket, host: str, address: str, *, open_browser: bool) -> None:
    """Serve until interrupted."""
    if open_browser:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    server_of(app, host, listener.getsockname()[1]).run(sockets=[listener])
