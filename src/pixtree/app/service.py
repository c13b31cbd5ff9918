"""Service: what the handlers of one server share."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fastapi import Request

from pixtree.app.fine_tree import fine_tree
from pixtree.app.intake import Intake
from pixtree.app.limits import Limits
from pixtree.app.pictures import decoded, jpeg
from pixtree.app.sessions import Session, Sessions
from pixtree.app.wire import packed
from pixtree.app.workers import Workers
from pixtree.tasks.segment import hierarchy


@dataclass(frozen=True, eq=False)
class Service:
    """Limits, sessions, and those who receive and compute. `model` is a `pixtree.app.model.Model`, or None."""

    limits: Limits
    sessions: Sessions
    intake: Intake
    workers: Workers
    model: Any = None

    @classmethod
    def within(cls, limits: Limits, model: Any = None) -> "Service":
        """A service with empty hands."""
        return cls(limits, Sessions(limits.session_bytes), Intake(limits), Workers(limits), model)


def service_of(request: Request) -> Service:
    """The service of the server that a request came to; FastAPI hands it to handlers."""
    service: Service = request.app.state.service
    return service


def grown(content: bytes, limits: Limits) -> tuple[Session, bytes]:
    """The session of an image file, and the answer that lets the page draw every cut of it."""
    picture = decoded(content, limits)
    tree = hierarchy(picture)
    arrays = fine_tree(tree, picture, limits.regions)
    merged = np.cumsum(np.bincount(tree.level.numpy()[tree.leaves :], minlength=tree.levels + 1))
    levels = (tree.leaves - merged).tolist()  # regions at every level
    header = {"height": picture.shape[0], "width": picture.shape[1], "levels": levels, "regions": len(arrays["parent"]) // 2 + 1}
    return Session(picture, replace(tree)), packed(header, arrays, jpeg(picture))  # a copy without computed attributes
