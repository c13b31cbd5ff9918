"""Sessions: the trees of uploaded images, by an id that nobody can guess, within a budget of bytes; and what handlers share."""

import secrets
import time
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from torch import Tensor

from pixtree.app.limits import Intake, Limits, RefusedError
from pixtree.app.uploads import Pixels, decoded, jpeg
from pixtree.app.wire import fine_tree, packed
from pixtree.app.workers import Lately, Workers, address_of
from pixtree.tasks.segment import hierarchy
from pixtree.trees.hierarchy import Hierarchy

router = APIRouter()
SCENE = 6 << 20  # bytes: colours and graph of 4,000 regions
SECRET_BYTES = 18  # of an id, 24 characters
MUCH = 0.5  # of what the greediest address has, from which on an address loses sessions as well


@dataclass(frozen=True, eq=False)
class Session:
    """One image (H, W, 3) and its tree."""

    pixels: Pixels
    tree: Hierarchy

    def borrowed(self) -> Hierarchy:
        """The tree for one request: attributes that it computes, several times its own size, are freed with this copy."""
        return replace(self.tree)

    @property
    def bytes(self) -> int:
        """Memory that the image and the tree take."""
        tensors = [value for value in vars(self.tree).values() if isinstance(value, Tensor)]
        scene = SCENE + 4 * self.tree.leaves  # of `pixtree.select`, which keeps it as long as the tree lives
        return self.pixels.nbytes + sum(tensor.nbytes for tensor in tensors) + scene


class Sessions:
    """Sessions in the order of their last use. Above the budget, addresses that have and lately sent much lose their oldest ones.

    What they sent lately counts too, since many addresses that each send one image after another have few at any time, and yet
    would leave those of others no time to be used. Only the thread of the server's event loop may call this.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._weights: dict[str, int] = {}
        self._owners: dict[str, str] = {}
        self._sent = Lately()  # bytes of sessions

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, session: Session, owner: str = "") -> str:
        """Keep a session of an address and return its id."""
        name = secrets.token_urlsafe(SECRET_BYTES)
        self._kept[name], self._owners[name] = session, owner
        self._sent.add(owner, session.bytes, time.monotonic())
        self.weigh(name)
        return name

    def weigh(self, name: str) -> None:
        """Measure a session again, if it is still kept, and drop others until all fit; the last one used always stays."""
        if name not in self._kept:
            return
        weight = self._kept[name].bytes
        self.bytes += weight - self._weights.get(name, 0)
        self._weights[name] = weight
        while self.bytes > self.most_bytes and len(self._kept) > 1:
            self._drop(self._victim())

    def _victim(self) -> str:
        """The least recently used session of the addresses with many bytes, those that they sent lately included."""
        *older, _ = self._kept
        total = defaultdict(float, self._sent.all(time.monotonic()))
        for name, weight in self._weights.items():
            total[self._owners[name]] += weight
        most = max(total[self._owners[name]] for name in older)
        return next(name for name in older if total[self._owners[name]] >= MUCH * most)

    def _drop(self, name: str) -> None:
        del self._kept[name], self._owners[name]
        self.bytes -= self._weights.pop(name)

    def get(self, name: str) -> Session:
        """The session of an id."""
        if name not in self._kept:
            raise RefusedError(410, "the server keeps few images at a time and no longer has this one; send it again")
        self._kept.move_to_end(name)
        return self._kept[name]


@dataclass(frozen=True, eq=False)
class Service:
    """What the handlers of one server share. `model` is a `pixtree.app.demo_model.DemoModel`, or None."""

    limits: Limits
    sessions: Sessions
    intake: Intake
    workers: Workers
    model: Any = None

    @classmethod
    def within(cls, limits: Limits, model: Any = None) -> "Service":
        """A new service without sessions."""
        return cls(limits, Sessions(limits.session_bytes), Intake(limits), Workers(limits), model)


def _service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


Shared: TypeAlias = Annotated[Service, Depends(_service_of)]  # the service of the server that a request came to


def binary(content: bytes, **headers: str) -> Response:
    """An answer in the binary form of `packed`."""
    return Response(content, media_type="application/octet-stream", headers=headers)


def attachment(content: bytes, file: str, kind: str) -> Response:
    """An answer that the browser saves as a file of this name and media type."""
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{file}"'})


@router.post("/api/trees")
async def upload(request: Request, service: Shared) -> Response:
    """Grow the tree of an image file and keep it; the answer's header x-pixtree-id is its id."""
    async with service.intake.body(request, service.limits.upload_bytes) as content:
        session, answer = await service.workers.run(request, grown, content, service.limits)
    return binary(answer, **{"x-pixtree-id": service.sessions.add(session, address_of(request))})


def grown(content: bytes, limits: Limits) -> tuple[Session, bytes]:
    """The session of an image file, and the answer that lets the page draw every cut of it."""
    pixels = decoded(content, limits)
    tree = hierarchy(pixels)
    arrays = fine_tree(tree, pixels, limits.regions)
    merged = np.cumsum(np.bincount(tree.level.numpy()[tree.leaves :], minlength=tree.levels + 1))
    levels = (tree.leaves - merged).tolist()  # regions at every level
    header = {"height": pixels.shape[0], "width": pixels.shape[1], "levels": levels, "regions": len(arrays["parent"]) // 2 + 1}
    return Session(pixels, replace(tree)), packed(header, arrays, jpeg(pixels))  # a copy without computed attributes
