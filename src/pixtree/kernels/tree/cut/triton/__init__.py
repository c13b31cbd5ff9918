"""Cuts of the trees of a batch in Triton: which nodes are opened, and the labels of what remains, without a read by the host."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.tree.attributes.definition import parents_of
from pixtree.kernels.tree.build.triton.grouping import settled
from pixtree.kernels.tree.cut.triton.choosing import best_above, cheapest_nodes
from pixtree.kernels.tree.cut.triton.scales import scales
from pixtree.runtime.launch import filled, launch, unset


def cut_labels(parent: Tensor, opened: Tensor) -> Tensor:
    """Regions of the leaves under a cut, (M,) int32, numbered by first leaf; `opened` (M−1,) marks the split inner nodes."""
    return labels_of_cuts(parent[None], opened[None])[0]


def labels_of_cuts(parent: Tensor, opened: Tensor) -> Tensor:
    """The same of a batch: parent (B, 2M−1), opened (B, M−1), labels (B, M)."""
    images, nodes = parent.shape
    leaves, lanes = (nodes + 1) // 2, parent.numel()
    pointer, first = unset(lanes, torch.int32, parent), filled(lanes, leaves, torch.int32, parent)
    launch(point_to_regions, lanes, parent.contiguous(), opened.contiguous().view(torch.uint8), pointer, lanes, leaves)
    region = settled(pointer, filled(images, nodes, torch.int32, parent), nodes)
    pixels = images * leaves
    is_first, labels = unset(pixels, torch.int32, parent), unset(pixels, torch.int32, parent)
    launch(find_first_leaves, pixels, region, first, pixels, leaves)
    launch(mark_first_leaves, pixels, region, first, is_first, pixels, leaves)
    number = is_first.view(images, leaves).cumsum(1, dtype=torch.int32)
    launch(number_leaves, pixels, region, first, number, labels, pixels, leaves)
    return labels.view(images, leaves)


def select_largest(scale: Tensor, count: int) -> Tensor:
    """The `count` entries of largest (scale, index) of each row (…, n), bool."""
    if count == 0:
        return torch.zeros_like(scale, dtype=torch.bool)
    threshold = torch.kthvalue(scale, scale.shape[-1] - (count - 1), dim=-1, keepdim=True).values
    chosen, ties = scale > threshold, scale == threshold
    missing = count - chosen.sum(-1, keepdim=True)
    return chosen | (ties & (ties.flip(-1).cumsum(-1).flip(-1) <= missing))


def persistence(gain: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The scale λ of every inner node, (M−1,) float64, never larger than its parent's."""
    return scales(parents_of(left, right)[None], left[None], right[None], gain[None])[0]


def open_largest(gain: Tensor, left: Tensor, right: Tensor, count: int) -> Tensor:
    """The `count` inner nodes of largest (λ, id), (M−1,) bool: those that the nested cut with count + 1 regions opens."""
    return select_largest(persistence(gain, left, right), count)


def cheapest_cut(cost: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The opened nodes (M−1,) bool of the cut whose nodes have the least total cost (2M−1,) float64, and the total."""
    opened, best = cheapest_nodes(cost[None], parents_of(left, right)[None], left[None], right[None])
    return opened[0], best[0, -1]


def best_ancestors(score: Tensor, parent: Tensor) -> Tensor:
    """For each leaf the node above it (itself included) of least score, (M,) int64; ties keep the larger node."""
    return best_above(score[None], parent[None])[0].to(torch.int64)


@triton.jit
def point_to_regions(parent, opened, pointer, lanes, leaves, BLOCK: tl.constexpr):
    """pointer = the parent of a node, or itself where that is split."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    nodes = 2 * leaves - 1
    image = (lane // nodes).to(tl.int64)
    node = (lane - image * nodes).to(tl.int32)
    above = tl.load(parent + lane, mask=there, other=-1)
    split = tl.load(opened + image * (leaves - 1) + above - leaves, mask=there & (above >= 0), other=1)
    tl.store(pointer + lane, tl.where(split != 0, node, above), mask=there)


@triton.jit
def find_first_leaves(region, first, lanes, leaves, BLOCK: tl.constexpr):
    """first[region] = its least leaf."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    nodes = (lane // leaves).to(tl.int64) * (2 * leaves - 1)
    leaf = (lane - lane // leaves * leaves).to(tl.int32)
    top = nodes + tl.load(region + nodes + leaf, mask=there, other=0)
    less = there & (leaf < tl.load(first + top, mask=there, other=0))  # most lanes see a smaller one, and need no atomic
    tl.atomic_min(first + top, leaf, mask=less, sem="relaxed")


@triton.jit
def mark_first_leaves(region, first, is_first, lanes, leaves, BLOCK: tl.constexpr):
    """is_first = 1 at the least leaf of a region."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    nodes = (lane // leaves).to(tl.int64) * (2 * leaves - 1)
    leaf = (lane - lane // leaves * leaves).to(tl.int32)
    top = nodes + tl.load(region + nodes + leaf, mask=there, other=0)
    tl.store(is_first + lane, (tl.load(first + top, mask=there, other=-1) == leaf).to(tl.int32), mask=there)


@triton.jit
def number_leaves(region, first, number, labels, lanes, leaves, BLOCK: tl.constexpr):
    """labels = the number of a leaf's region."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // leaves).to(tl.int64)
    nodes = image * (2 * leaves - 1)
    top = nodes + tl.load(region + nodes + lane - image * leaves, mask=there, other=0)
    least = tl.load(first + top, mask=there, other=0)
    tl.store(labels + lane, tl.load(number + image * leaves + least, mask=there, other=1) - 1, mask=there)
