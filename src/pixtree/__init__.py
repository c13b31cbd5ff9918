"""pixtree: an image becomes a tree of regions once; everything else is a cut of that tree."""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from pixtree.lazy import lazy_names, when_loaded

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

# Public names and the modules that define them, imported on first use.
_HOMES = {
    "coarsen": "models.coarsening.coarsen",
    "retrofit": "models.retrofit",
    "salient": "tasks.salient",
    "hierarchy": "tasks.segment",
    "segment": "tasks.segment",
    "segment_tiles": "tasks.segment_tiles",
    "select": "tasks.select",
    "snap": "tasks.snap",
    "vectorize": "tasks.vectorize",
    "Tokenizer": "tokenizer.tokenizer",
    "Criterion": "trees.criteria",
    "AtMost": "trees.cuts",
    "Exactly": "trees.cuts",
    "Level": "trees.cuts",
    "Hierarchy": "trees.hierarchy",
    "Partition": "trees.partition",
    "Partitioner": "trees.partition",
    "Cosine": "trees.options",
    "Gaussian": "trees.options",
    "Likelihood": "trees.options",
    "Tanimoto": "trees.options",
    "Ward": "trees.options",
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

__getattr__, __dir__ = lazy_names(__name__, _HOMES, "__version__")

# The kernels register torch.ops.pixtree.*, which exported models need. Torch takes a second to load, so they wait for it.
when_loaded("torch", lambda: import_module("pixtree.kernels"))
