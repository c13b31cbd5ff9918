"""Boundary polishing: pixels at a border move to the neighbouring region that fits them best."""

from torch import Tensor

from pixtree.kernels import Kernels
from pixtree.trees.partition import Partition
from pixtree.trees.structure import TreeStructure

SWEEPS = 4
SMOOTHNESS = 0.2  # what one more neighbour of the same region is worth, as a log-likelihood


def relax_boundaries(
    partition: Partition, tree: TreeStructure, *, sweeps: int = SWEEPS, smoothness: float = SMOOTHNESS
) -> Partition:
    """The partition with polished boundaries: same count, every region still 4-connected; no longer a cut of the tree."""
    height, width = tree.shape
    channels = tree.features.shape[0]
    features = tree.features.new_zeros((channels, height, width))
    if tree.mask is None:
        features = tree.features.view(channels, height, width)
    else:
        features[:, tree.mask] = tree.features
    labels = relaxed(partition.labels[0], features, tree.kernels, tree.rule.floor, sweeps=sweeps, smoothness=smoothness)
    return Partition(labels[None], tree)


def relaxed(
    labels: Tensor, features: Tensor, kernels: Kernels, floor: float, *, sweeps: int = SWEEPS, smoothness: float = SMOOTHNESS
) -> Tensor:
    """Labels (H, W) int32 with polished boundaries, from planes (C, H, W); `floor` is the variance φ of a flat region."""
    moved = kernels.relax(labels, features, sweeps, smoothness, floor)
    # A moved first pixel changes the order of the regions, so they are numbered anew.
    return kernels.connected_pieces(moved)
