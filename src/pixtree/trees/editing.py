"""Editing: regions of a partition merged and split by hand, each step a new partition."""

import operator
from collections.abc import Iterable

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.cuts import Exactly, cut_labels
from pixtree.trees.partition import Partition
from pixtree.trees.structure import TreeStructure


def merged_regions(partition: Partition, labels: Iterable[int]) -> Partition:
    """The partition of one image in which the regions of those labels are one region; they must be connected."""
    regions = _of_one_image(partition)
    wanted = sorted({_checked_label(partition, label) for label in labels})
    if not wanted:
        raise ValueError("a merge needs the labels of regions, got none; pass at least two labels that touch")
    joined = torch.where(torch.isin(regions, torch.tensor(wanted, device=regions.device)), wanted[0], regions)
    merged = kernels_for(device=joined.device).connected_pieces(joined)
    pieces = int(merged.max()) - int(regions.max()) + len(wanted)
    if pieces > 1:
        raise ValueError(
            f"regions to merge must be connected, got labels {wanted} in {pieces} pieces; add the regions between them"
        )
    return Partition(merged[None], partition.tree)


def split_region(partition: Partition, label: int, tokens: int) -> Partition:
    """The partition of one image in which one region is split into `tokens` regions, along the partition's tree."""
    regions, number, count = _of_one_image(partition), _checked_label(partition, label), Exactly(tokens).count
    if partition.tree is None:
        raise ValueError(
            "a region splits along the tree that it was cut from, got a partition without one; "
            "cut it from pixtree.hierarchy(image), or pass Partition(partition.labels, tree)"
        )
    region = regions == number
    if int(region.sum()) < count:
        raise ValueError(
            f"a region splits into at most one region per pixel, got tokens={count} for {int(region.sum())} pixels; ask for fewer"
        )
    parts = _parts(partition.tree, region.to(partition.tree.parent.device), count).to(regions.device)
    split = torch.where(region, parts + int(regions.max()) + 1, regions)
    return Partition(kernels_for(device=split.device).connected_pieces(split)[None], partition.tree)


def _parts(tree: TreeStructure, region: Tensor, count: int) -> Tensor:
    """Labels (H, W) of `count` parts of a region (H, W) bool; all other pixels have labels that mean nothing."""
    node = _smallest_node(tree, region)
    under = _under(tree, node)
    if torch.equal(under[: tree.leaves], region[tree.inside]):
        return _nested(tree, node, under, count)
    features = tree.over_pixels(tree.features, 0.0).flatten(1)
    own = hierarchy_of_planes(features, tree.shape, tree.rule, mask=region, coordinates=tree.coordinates, backend=tree.backend)
    return cut_labels(own, Exactly(count))


def _smallest_node(tree: TreeStructure, region: Tensor) -> int:
    """The smallest node with as many pixels as the region, above its first pixel: the region itself, if it is a node."""
    node, size = int(torch.nonzero(region[tree.inside])[0]), int(region.sum())
    while int(tree.size[node]) < size:
        node = int(tree.parent[node])
    return node


def _under(tree: TreeStructure, node: int) -> Tensor:
    """Whether each node of the tree is that node or lies under it, (2M−1,) bool."""
    under = torch.zeros(2 * tree.leaves - 1, dtype=torch.bool, device=tree.parent.device)
    found = torch.tensor([node], device=under.device)
    while found.numel():
        under[found] = True
        inner = found[found >= tree.leaves] - tree.leaves
        found = torch.cat((tree.left[inner], tree.right[inner])).to(torch.int64)
    return under


def _nested(tree: TreeStructure, node: int, under: Tensor, count: int) -> Tensor:
    """The labels of a cut with `count` regions under a node, those that nested cuts reach first."""
    rank = torch.where(under[tree.leaves :], tree.rank, tree.leaves)
    opened = torch.zeros_like(rank, dtype=torch.bool)
    opened[torch.topk(rank, count - 1, largest=False).indices] = True
    while (node := int(tree.parent[node])) >= 0:
        opened[node - tree.leaves] = True
    return tree.over_pixels(tree.kernels.cut_labels(tree.parent, opened), -1)


def _of_one_image(partition: Partition) -> Tensor:
    if len(partition) != 1:
        raise ValueError(
            f"regions of one image are edited at a time, got a partition of {len(partition)} images; pass partition[i]"
        )
    return partition.labels[0]


def _checked_label(partition: Partition, label: int) -> int:
    number, count = operator.index(label), int(partition.counts[0])
    if not 0 <= number < count:
        raise ValueError(f"the labels of this partition are 0 to {count - 1}, got {number}; take one from partition.labels")
    return number
