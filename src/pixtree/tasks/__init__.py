"""Tasks: one file per verb of a user, from an image or its tree to labels, masks, drawings or likenesses.

The verbs themselves are names of `pixtree`; names that only some users need are here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pixtree.tasks.correspond import correspondence, correspondence_picture
    from pixtree.tasks.token_graph import Affinity
    from pixtree.tasks.vectorize import rendered

# Loaded when first asked for: correspondences need timm, which most tasks do without.
_HOMES = {
    "Affinity": "token_graph",
    "correspondence": "correspond",
    "correspondence_picture": "correspond",
    "rendered": "vectorize",
}

__all__ = ["Affinity", "correspondence", "correspondence_picture", "rendered"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pixtree.tasks has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"pixtree.tasks.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
