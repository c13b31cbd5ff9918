"""Sessions: the trees of the pictures that were sent, by an id that nobody can guess, within a budget of bytes."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, replace

from torch import Tensor

from pixtree.app.pictures import Picture
from pixtree.app.refusals import RefusedError
from pixtree.trees.hierarchy import Hierarchy

SCENE = 6 << 20  # bytes: colours and graph of 4,000 regions
SECRET_BYTES = 18  # of an id, 24 characters


@dataclass(frozen=True, eq=False)
class Session:
    """One picture (H, W, 3) and its tree."""

    picture: Picture
    tree: Hierarchy

    def borrowed(self) -> Hierarchy:
        """The tree for one request: attributes that it computes, several times its own size, vanish with this copy."""
        return replace(self.tree)

    @property
    def bytes(self) -> int:
        """Memory that the picture and the tree take."""
        tensors = [value for value in vars(self.tree).values() if isinstance(value, Tensor)]
        scene = SCENE + 4 * self.tree.leaves  # of `pixtree.select`, which keeps it as long as the tree lives
        return self.picture.nbytes + sum(tensor.nbytes for tensor in tensors) + scene


class Sessions:
    """Sessions in the order of their last use; the oldest are forgotten where all together exceed the budget.

    Only the thread of the server's event loop may call this.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._weights: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, session: Session) -> str:
        """Keep a session; its id."""
        name = secrets.token_urlsafe(SECRET_BYTES)
        self._kept[name] = session
        self.weigh(name)
        return name

    def weigh(self, name: str) -> None:
        """Measure a session again, if it is still kept, and forget the oldest until all fit; the newest always stays."""
        if name not in self._kept:
            return
        weight = self._kept[name].bytes
        self.bytes += weight - self._weights.get(name, 0)
        self._weights[name] = weight
        while self.bytes > self.most_bytes and len(self._kept) > 1:
            oldest, _ = self._kept.popitem(last=False)
            self.bytes -= self._weights.pop(oldest)

    def get(self, name: str) -> Session:
        """The session of an id."""
        if name not in self._kept:
            raise RefusedError(410, "the server keeps few pictures at a time and no longer has this one; send it again")
        self._kept.move_to_end(name)
        return self._kept[name]
