"""pixtree: an image becomes a tree of regions once; everything else is a cut of that tree."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pixtree.kernels.operators as _operators  # noqa: F401  registers torch.ops.pixtree.*, on which exported models stand

if TYPE_CHECKING:
    from pixtree.models.coarsening.coarsen import coarsen
    from pixtree.models.retrofit import retrofit
    from pixtree.tasks.salient import salient
    from pixtree.tasks.segment import hierarchy, segment
    from pixtree.tasks.segment_tiles import segment_tiles
    from pixtree.tasks.select import select
    from pixtree.tasks.snap import snap
    from pixtree.tasks.vectorize import vectorize
    from pixtree.tokenizer.tokenizer import Tokenizer
    from pixtree.trees.criteria import Criterion
    from pixtree.trees.cuts import AtMost, Exactly, Level
    from pixtree.trees.hierarchy import Hierarchy
    from pixtree.trees.options import Cosine, Gaussian, Likelihood, Tanimoto, Ward
    from pixtree.trees.partition import Partition, Partitioner

__version__ = version("pixtree")

# Public names and where they live: loaded when first asked for, so that `import pixtree` costs nothing.
_HOMES = {
    "coarsen": "pixtree.models.coarsening.coarsen",
    "retrofit": "pixtree.models.retrofit",
    "salient": "pixtree.tasks.salient",
    "hierarchy": "pixtree.tasks.segment",
    "segment": "pixtree.tasks.segment",
    "segment_tiles": "pixtree.tasks.segment_tiles",
    "select": "pixtree.tasks.select",
    "snap": "pixtree.tasks.snap",
    "vectorize": "pixtree.tasks.vectorize",
    "Tokenizer": "pixtree.tokenizer.tokenizer",
    "Criterion": "pixtree.trees.criteria",
    "AtMost": "pixtree.trees.cuts",
    "Exactly": "pixtree.trees.cuts",
    "Level": "pixtree.trees.cuts",
    "Hierarchy": "pixtree.trees.hierarchy",
    "Partition": "pixtree.trees.partition",
    "Partitioner": "pixtree.trees.partition",
    "Cosine": "pixtree.trees.options",
    "Gaussian": "pixtree.trees.options",
    "Likelihood": "pixtree.trees.options",
    "Tanimoto": "pixtree.trees.options",
    "Ward": "pixtree.trees.options",
}

__all__ = [
    "AtMost",
    "Cosine",
    "Criterion",
    "Exactly",
    "Gaussian",
    "Hierarchy",
    "Level",
    "Likelihood",
    "Partition",
    "Partitioner",
    "Tanimoto",
    "Tokenizer",
    "Ward",
    "coarsen",
    "hierarchy",
    "retrofit",
    "salient",
    "segment",
    "segment_tiles",
    "select",
    "snap",
    "vectorize",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"pixtree has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
