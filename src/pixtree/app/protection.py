"""Protection: headers that keep the page to itself, and no answers to requests of other web pages."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pixtree.app.refusals import RefusedError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
LARGEST_HEAD = 16_384  # bytes of a request's first line and headers
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


class Protection:
    """ASGI middleware: every answer gets the headers; a name that is not ours, or a page of another origin, gets a refusal.

    The name is checked because a stranger's domain may resolve to this machine, and its pages would then be of our origin.
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

        refusal = self._refusal(Headers(scope=scope), len(scope.get("raw_path", b"")) + len(scope["query_string"]))
        answer = self.app if refusal is None else refusal.response()
        await answer(scope, receive, guarded)

    def _refusal(self, headers: Headers, address: int) -> RefusedError | None:
        """Why a request with these headers, and an address of so many bytes, gets no answer."""
        size = address + sum(len(name) + len(value) for name, value in headers.raw)
        if size > LARGEST_HEAD:  # h11 limits only heads that come in pieces
            return RefusedError(431, f"the head of a request may have {LARGEST_HEAD} bytes, this one has {size}; send less")
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if self.hosts and name.strip("[]") not in self.hosts:
            return RefusedError(421, f"this server answers to {', '.join(self.hosts)}, not to another name; correct the address")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and headers.get("sec-fetch-mode") != "navigate":
            return RefusedError(403, "this server answers its own page only; open its address in a browser")
        return None
