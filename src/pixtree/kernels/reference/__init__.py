"""The reference backend: plain torch operations on any device, the definition of truth."""

from pixtree.kernels.reference.attributes import boxes, joins, moments, sizes, sum_upwards, volumes
from pixtree.kernels.reference.coarsening import cluster_labels
from pixtree.kernels.reference.colour import lab, lightness
from pixtree.kernels.reference.cutting import best_ancestors, cheapest_cut, cut_labels, exact_cut, open_largest, persistence, relax
from pixtree.kernels.reference.merging import build
from pixtree.kernels.reference.regions import all_within, connected_pieces

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
