"""Sessions: the trees of the pictures that were sent, by an id that nobody can guess, within a budget of bytes."""

import secrets
from collections import OrderedDict
from dataclasses import dataclass, fields, replace

from torch import Tensor

from pixtree.app.pictures import Picture
from pixtree.app.refusals import RefusedError
from pixtree.trees.hierarchy import Hierarchy

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
        values = (getattr(self.tree, field.name) for field in fields(self.tree))
        return self.picture.nbytes + sum(value.nbytes for value in values if isinstance(value, Tensor))


class Sessions:
    """Sessions in the order of their last use; the oldest are forgotten where all together exceed the budget.

    Only the thread of the server's event loop may call this.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0
        self._kept: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, session: Session) -> str:
        """Keep a session; its id."""
        name = secrets.token_urlsafe(SECRET_BYTES)
        self._kept[name] = session
        self.bytes += session.bytes
        while self.bytes > self.most_bytes and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self.bytes -= oldest.bytes
        return name

    def get(self, name: str) -> Session:
        """The session of an id."""
        if name not in self._kept:
            raise RefusedError(410, "the server keeps few pictures at a time and no longer has this one; send it again")
        self._kept.move_to_end(name)
        return self._kept[name]
