"""The heavy functions on arrays, by idea: one name, one definition, and where speed needs it a faster body next to it.

An idea is a folder: `definition.py` in plain torch, for any device, is the truth; `compiled.py` (or a folder `compiled`) has the
functions that numba computes faster on the CPU, under the same names. `kernels_for(backend, device)` chooses who runs, by name; a
function that a backend does not have runs as it is defined. Another backend is one more file in each idea's folder.
"""

from importlib import import_module
from types import ModuleType

import torch
from torch.utils._python_dispatch import _disable_current_modes

from pixtree.kernels.image.blocks import definition as _blocks
from pixtree.kernels.image.colour import definition as _colour
from pixtree.kernels.image.pieces import definition as _pieces
from pixtree.kernels.image.planes import definition as _planes
from pixtree.kernels.image.polish import definition as _polish
from pixtree.kernels.tokens.aggregate import definition as _aggregate
from pixtree.kernels.tokens.cluster import definition as _cluster
from pixtree.kernels.tokens.encode import definition as _encode
from pixtree.kernels.tokens.merge import definition as _merge
from pixtree.kernels.tokens.positions import definition as _positions
from pixtree.kernels.tokens.sample import definition as _sample
from pixtree.kernels.tokens.segments import definition as _segments
from pixtree.kernels.tree.attributes import definition as _attributes
from pixtree.kernels.tree.build import definition as _build
from pixtree.kernels.tree.choice import definition as _choice
from pixtree.kernels.tree.criterion import definition as _criterion
from pixtree.kernels.tree.cut import definition as _cut
from pixtree.kernels.tree.pixelwise import definition as _pixelwise
from pixtree.kernels.tree.prune import definition as _prune
from pixtree.kernels.tree.zones import definition as _zones
from pixtree.runtime.backend import backend_for

__all__ = ["Kernels", "kernels_for"]


class Kernels:
    """Every function under its one name, here by its definition; a backend is a subclass that has some of them otherwise."""

    # image
    colours = staticmethod(_planes.colours)
    coordinates = staticmethod(_planes.coordinates)
    distance_planes = staticmethod(_planes.distance_planes)
    all_within = staticmethod(_planes.all_within)
    lab = staticmethod(_colour.lab)
    lightness = staticmethod(_colour.lightness)
    whole_bytes = staticmethod(_colour.whole_bytes)
    denormalised = staticmethod(_colour.denormalised)
    move_blocks = staticmethod(_blocks.move_blocks)
    connected_pieces = staticmethod(_pieces.connected_pieces)
    relax = staticmethod(_polish.relax)
    # tree
    build = staticmethod(_build.build)
    build_on_regions = staticmethod(_build.build_on_regions)
    pixel_edges = staticmethod(_build.pixel_edges)
    boxes = staticmethod(_attributes.boxes)
    joins = staticmethod(_attributes.joins)
    moments = staticmethod(_attributes.moments)
    sizes = staticmethod(_attributes.sizes)
    sum_upwards = staticmethod(_attributes.sum_upwards)
    volumes = staticmethod(_attributes.volumes)
    tree_levels = staticmethod(_attributes.tree_levels)
    misfits = staticmethod(_criterion.misfits)
    scores = staticmethod(_criterion.scores)
    best_ancestors = staticmethod(_cut.best_ancestors)
    cheapest_cut = staticmethod(_cut.cheapest_cut)
    cut_labels = staticmethod(_cut.cut_labels)
    open_largest = staticmethod(_cut.open_largest)
    persistence = staticmethod(_cut.persistence)
    select_largest = staticmethod(_cut.select_largest)
    exact_cut = staticmethod(_prune.exact_cut)
    cut_batch = _prune.cut_batch  # a method, since it calls other functions of the backend
    choose_batch = _choice.choose_batch  # likewise
    pixelwise_cut = staticmethod(_pixelwise.pixelwise_cut)
    flat_zones = staticmethod(_zones.flat_zones)
    equal_components = staticmethod(_zones.equal_components)
    blends = staticmethod(_zones.blends)
    # tokens
    encode = staticmethod(_encode.encode)
    aggregate = staticmethod(_aggregate.aggregate)
    sample = staticmethod(_sample.sample)
    paint = staticmethod(_segments.paint)
    region_boxes = staticmethod(_segments.region_boxes)
    region_means = staticmethod(_segments.region_means)
    region_minima = staticmethod(_segments.region_minima)
    region_sizes = staticmethod(_segments.region_sizes)
    region_sums = staticmethod(_segments.region_sums)
    cell_counts = staticmethod(_positions.cell_counts)
    embed_cells = staticmethod(_positions.embed_cells)
    joint_histogram = staticmethod(_positions.joint_histogram)
    cluster_labels = staticmethod(_cluster.cluster_labels)
    ward_labels = staticmethod(_cluster.ward_labels)
    merge_tokens = staticmethod(_merge.merge_tokens)


NAMES = tuple(name for name in vars(Kernels) if not name.startswith("_"))
_found: dict[str, Kernels] = {}


def kernels_for(backend: str = "auto", device: torch.device | None = None) -> Kernels:
    """The kernels of a backend for tensors on `device` (the CPU if None): "auto" is compiled on the CPU and torch elsewhere."""
    file = backend_for(backend, device).file
    _find(file)
    return _found[file]


def _find(file: str) -> None:
    """Find the functions that modules of that name have in the folders of their ideas; all others are the definitions.

    Once, and late: numba takes a second to load.
    """
    if file in _found:
        return
    faster = {}
    with _disable_current_modes():  # modules make tables; a model that is being exported would make them of fake tensors
        for name in NAMES:
            definition = getattr(Kernels, name)
            function = getattr(_module_next_to(definition.__module__, file), name, definition)
            if function is not definition:
                faster[name] = staticmethod(function) if isinstance(vars(Kernels)[name], staticmethod) else function
    _found[file] = type(f"Kernels[{file}]", (Kernels,), faster)()


# Compilers call it instead of tracing its imports: torch.compiler.assume_constant_result sets this, but loads torch's compiler.
_find._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _module_next_to(definition: str, file: str) -> ModuleType | None:
    """The module of that name in the folder of a definition, if there is one."""
    name = f"{definition.rpartition('.')[0]}.{file}"
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != name:  # the module is there, and lacks a library
            raise
        return None


# Last, since it needs the functions above. It registers the operators, and whoever imports pixtree and torch expects them.
import pixtree.kernels.operators  # noqa: E402, F401
