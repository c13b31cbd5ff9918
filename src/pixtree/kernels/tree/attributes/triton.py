"""Attributes of tree nodes in Triton: one launch per attribute, from the leaves to the root.

A lane begins at every node whose children are leaves. Of two lanes that reach a node, the second goes on with it: it finds both
children finished, because whoever came first has counted itself after its last store. Which of the two that is changes nothing.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.tree.attributes import definition
from pixtree.kernels.tree.attributes.definition import parents_of
from pixtree.kernels.tree.build.triton.leaves import Leaves, leaves_of
from pixtree.kernels.tree.build.triton.picking import neighbour
from pixtree.runtime.launch import WARP, filled, launch


@triton.jit
def lowest(left, right, lanes, leaves, BLOCK: tl.constexpr):
    """The inner node of every lane, its children, whether both are leaves, and where its image's nodes and inner nodes begin."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = (lane // (leaves - 1)).to(tl.int64)
    a = tl.load(left + lane, mask=lane < lanes, other=leaves)
    b = tl.load(right + lane, mask=lane < lanes, other=leaves)
    node = (lane - image * (leaves - 1)).to(tl.int32) + leaves
    return node, a, b, (a < leaves) & (b < leaves), image * (2 * leaves - 1), image * (leaves - 1) - leaves


@triton.jit
def arrive(parent, left, right, waiting, at, inner, node, going, leaves):
    """The parents of finished nodes, their children, and which parents have both children now. Leaves need not be waited for."""
    above = tl.load(parent + at + node, mask=going, other=-1)
    going = going & (above >= 0)
    a = tl.load(left + inner + above, mask=going, other=0)
    b = tl.load(right + inner + above, mask=going, other=0)
    met = going & (a >= leaves) & (b >= leaves)
    before = tl.atomic_add(waiting + inner + above, 1, mask=met, sem="acq_rel")
    return above, a, b, going & ((met == 0) | (before == 1))


@triton.jit
def leaf_of(lanes, leaves, BLOCK: tl.constexpr):
    """The leaf of every lane, whether it is there, and where the nodes of its image begin."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = (lane // leaves).to(tl.int64)
    return (lane - image * leaves).to(tl.int32), lane < lanes, image * (2 * leaves - 1)


@triton.jit
def add_upwards(total, parent, left, right, waiting, lanes, leaves, BLOCK: tl.constexpr):
    """total[node] += total[left] + total[right], in whole numbers."""
    node, a, b, going, at, inner = lowest(left, right, lanes, leaves, BLOCK)
    while tl.max(going.to(tl.int32), 0) > 0:
        below = tl.load(total + at + a, mask=going, other=0) + tl.load(total + at + b, mask=going, other=0)
        tl.store(total + at + node, tl.load(total + at + node, mask=going, other=0) + below, mask=going)
        node, a, b, going = arrive(parent, left, right, waiting, at, inner, node, going, leaves)


@triton.jit
def merge_upwards(mean, deviation, size, parent, left, right, waiting, lanes, leaves, C: tl.constexpr, BLOCK: tl.constexpr):
    """Means and squared deviations (B, 2M−1, C) in Chan's form."""
    node, first, second, going, at, inner = lowest(left, right, lanes, leaves, BLOCK)
    while tl.max(going.to(tl.int32), 0) > 0:
        a, b = at + first, at + second
        na = tl.load(size + a, mask=going, other=1).to(tl.float32)
        nb = tl.load(size + b, mask=going, other=1).to(tl.float32)
        both = na + nb
        spread, share = tl.div_rn(na * nb, both), tl.div_rn(nb, both)
        for c in range(C):
            ma, mb = tl.load(mean + a * C + c, mask=going, other=0.0), tl.load(mean + b * C + c, mask=going, other=0.0)
            da = tl.load(deviation + a * C + c, mask=going, other=0.0)
            db = tl.load(deviation + b * C + c, mask=going, other=0.0)
            step = mb - ma
            tl.store(mean + (at + node) * C + c, ma + share * step, mask=going)
            tl.store(deviation + (at + node) * C + c, (da + db) + spread * step * step, mask=going)
        node, first, second, going = arrive(parent, left, right, waiting, at, inner, node, going, leaves)


@triton.jit
def meet(parent, at, a, b, going):
    """The node at which two nodes first belong together: the smaller of the two climbs until they meet."""
    going = going & (a != b)
    while tl.max(going.to(tl.int32), 0) > 0:
        low = tl.minimum(a, b)
        b = tl.where(going, tl.maximum(a, b), b)
        a = tl.where(going, tl.load(parent + at + low, mask=going, other=0), a)
        going = going & (a != b)
    return a


@triton.jit
def meet_pairs(parent, first, second, meeting, lanes, BLOCK: tl.constexpr):
    """meeting = the node at which pairs of nodes first belong together."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    a, b = tl.load(first + lane, mask=there, other=0).to(tl.int32), tl.load(second + lane, mask=there, other=0).to(tl.int32)
    tl.store(meeting + lane, meet(parent, tl.zeros_like(lane), a, b, there).to(tl.int64), mask=there)


@triton.jit
def count_inner_edges(parent, near, own, lanes, M, H, W, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Add every pixel edge to the node that joins its ends."""
    p, there, at = leaf_of(lanes, M, BLOCK)
    for k in tl.static_range(2, 4):
        q = neighbour(near, p, there, M, H, W, k, MASKED)
        joint = meet(parent, at, p, tl.where(q >= 0, q, p), q >= 0)
        tl.atomic_add(own + at + joint, 1, mask=q >= 0, sem="relaxed")


def add_children(total: Tensor, parent: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Whole numbers (B, 2M−1) with those of all descendants added, in place."""
    lanes, waiting = left.numel(), filled(left.numel(), 0, torch.int32, total)
    launch(add_upwards, lanes, total, parent, left, right, waiting, lanes, left.shape[1] + 1, block=WARP)
    return total


def sizes_of_trees(parent: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Leaves under every node of a batch of trees, (B, 2M−1) int32."""
    total = torch.zeros_like(parent)
    total[:, : left.shape[1] + 1] = 1
    return add_children(total, parent, left, right)


def moments_of_trees(
    features: Tensor, size: Tensor, parent: Tensor, left: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Mean and sum of squared deviations of every node, (B, 2M−1, C) float32 each; features are planes (B, C, M)."""
    images, channels, leaves = features.shape
    deviation = features.new_zeros((images, 2 * leaves - 1, channels))
    mean, waiting = torch.zeros_like(deviation), torch.zeros_like(left)
    mean[:, :leaves] = features.transpose(1, 2)
    lanes = left.numel()
    launch(
        merge_upwards, lanes, mean, deviation, size, parent, left, right, waiting, lanes, leaves, C=channels, block=WARP
    )  # fmt: skip
    return mean, deviation


def volumes_of_trees(parent: Tensor, left: Tensor, right: Tensor, leaves: Leaves) -> Tensor:
    """Pixel edges inside every node, (B, 2M−1) int32."""
    own, lanes = torch.zeros_like(parent), len(parent) * leaves.pixels
    near, masked = (parent, False) if leaves.near is None else (leaves.near, True)
    launch(count_inner_edges, lanes, parent, near, own, lanes, leaves.pixels, *leaves.shape, MASKED=masked)
    return add_children(own, parent, left, right)


def sum_upwards(values: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add to each node's own integer value those of all its descendants, (2M−1,)."""
    if values.dtype.is_floating_point:
        return definition.sum_upwards(values, left, right)
    return add_children(values.clone()[None], parents_of(left, right)[None], left[None], right[None])[0]


def sizes(left: Tensor, right: Tensor) -> Tensor:
    """Number of leaves under every node, (2M−1,) int32."""
    return sizes_of_trees(parents_of(left, right)[None], left[None], right[None])[0]


def moments(features: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations of every node, (2M−1, C) float32 each; features are planes (C, M)."""
    trees = parents_of(left, right)[None], left[None], right[None]
    mean, deviation = moments_of_trees(features[None], sizes_of_trees(*trees), *trees)
    return mean[0], deviation[0]


def volumes(parent: Tensor, left: Tensor, right: Tensor, inside: Tensor) -> Tensor:
    """Number of pixel edges inside every node, (2M−1,) int32; inside is the mask (H, W)."""
    return volumes_of_trees(parent[None], left[None], right[None], leaves_of(inside))[0]


def joins(parent: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The node at which two nodes first belong together, for pairs, int64."""
    meeting = torch.empty_like(first, dtype=torch.int64)
    launch(meet_pairs, first.numel(), parent, first.contiguous(), second.contiguous(), meeting, first.numel())
    return meeting
