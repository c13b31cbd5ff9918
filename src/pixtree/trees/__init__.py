"""From features to regions: the tree, its cuts and the partitions they give; no weights, no gradient."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pixtree.trees.options import TreeOptions

# Public names and the modules that define them, loaded on first use: modules of this package import each other.
_HOMES = {
    "TreeOptions": "options",
}

__all__ = [
    "TreeOptions",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pixtree.trees has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"pixtree.trees.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return list(__all__)
