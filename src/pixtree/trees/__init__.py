"""From features to regions: the tree, its cuts and the partitions they give; no weights, no gradient."""

from typing import TYPE_CHECKING

from pixtree.lazy import lazy_names

if TYPE_CHECKING:
    from pixtree.trees.options import TreeOptions

# Public names and the modules that define them, loaded on first use: modules of this package import each other.
_HOMES = {
    "TreeOptions": "options",
}

__all__ = [
    "TreeOptions",
]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
