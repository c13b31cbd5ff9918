"""The compiled backend: numba on the CPU, equal to the reference bit for bit."""

from pixtree.kernels.compiled.attributes import boxes, joins, moments, sizes, sum_upwards, volumes
from pixtree.kernels.compiled.coarsening import cluster_labels
from pixtree.kernels.compiled.colour import lab, lightness
from pixtree.kernels.compiled.cutting import best_ancestors, cheapest_cut, cut_labels, open_largest, persistence, relax
from pixtree.kernels.compiled.merging import build
from pixtree.kernels.compiled.pruning import exact_cut
from pixtree.kernels.compiled.regions import all_within, connected_pieces

__all__ = [
    "all_within",
    "best_ancestors",
    "boxes",
    "build",
    "cheapest_cut",
    "cluster_labels",
    "connected_pieces",
    "cut_labels",
    "exact_cut",
    "joins",
    "lab",
    "lightness",
    "moments",
    "open_largest",
    "persistence",
    "relax",
    "sizes",
    "sum_upwards",
    "volumes",
]
