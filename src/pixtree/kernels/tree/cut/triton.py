"""Cuts of the trees of a batch in Triton: the order of the nested cut round by round, and labels, without a read by the host."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.tree.build.triton import Forest
from pixtree.kernels.tree.build.triton.grouping import lanes_of, settled
from pixtree.runtime.launch import WARP, filled, launch, unset


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


def scales(forest: Forest) -> Tensor:
    """The scale λ of every inner node, (B, M−1) float64: `scale_set` of the definition, all components of a round side by side."""
    images, inner = forest.gain.shape
    scale, total = (filled(images * inner, 0.0, torch.float64, forest.gain) for _ in range(2))
    count, spine = (filled(images * inner, 0, torch.int32, forest.gain) for _ in range(2))
    heap_left, heap_right = (filled(images * inner, -1, torch.int32, forest.gain) for _ in range(2))
    for one in forest.rounds:
        lanes = one.members.numel()
        launch(
            scale_round, lanes, forest.left, forest.right, forest.gain, one.members, one.end, one.groups, one.made,
            scale, total, count, heap_left, heap_right, spine, lanes, inner, one.room[1], block=WARP,
        )  # fmt: skip
    pointer = torch.empty_like(spine)
    launch(point_to_pools, spine.numel(), forest.parent, spine, pointer, spine.numel(), inner)
    pool = settled(pointer, filled(images, inner, torch.int32, spine), inner)
    return scale.view(images, inner).gather(1, pool.view(images, inner).to(torch.int64))


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


@triton.jit
def point_to_pools(parent, spine, pointer, lanes, inner, BLOCK: tl.constexpr):
    """pointer = the inner node that a node was pooled into, or itself."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // inner).to(tl.int64)
    node = (lane - image * inner).to(tl.int32)
    pooled = there & (tl.load(spine + lane, mask=there, other=1) == 0)
    above = tl.load(parent + image * (2 * inner + 1) + inner + 1 + node, mask=pooled, other=0)
    tl.store(pointer + lane, tl.where(pooled, above - (inner + 1), node), mask=there)


@triton.jit
def join_heaps(a, b, on, at, scale, heap_left, heap_right, spine):
    """`join_heaps` of the definition in every lane; pointers that are turned around on the way down take the place of its stack."""
    above = tl.full(a.shape, -1, tl.int32)
    going = on & (a >= 0) & (b >= 0)
    while tl.max(going.to(tl.int32), 0) > 0:
        scale_a = tl.load(scale + at + a, mask=going, other=0.0)
        scale_b = tl.load(scale + at + b, mask=going, other=0.0)
        swap = (scale_a < scale_b) | ((scale_a == scale_b) & (a < b))
        top, rest = tl.where(swap, b, a), tl.where(swap, a, b)
        below = tl.load(heap_right + at + top, mask=going, other=-1)
        tl.store(heap_right + at + top, above, mask=going)
        above = tl.where(going, top, above)
        a = tl.where(going, below, a)
        b = tl.where(going, rest, b)
        going = going & (a >= 0) & (b >= 0)
    root = tl.where(a >= 0, a, b)
    up = on & (above >= 0)
    while tl.max(up.to(tl.int32), 0) > 0:
        further = tl.load(heap_right + at + above, mask=up, other=-1)
        other = tl.load(heap_left + at + above, mask=up, other=-1)
        other_spine = tl.load(spine + at + other, mask=up & (other >= 0), other=0)
        root_spine = tl.load(spine + at + root, mask=up & (root >= 0), other=0)
        flip = other_spine < root_spine
        tl.store(heap_left + at + above, tl.where(flip, root, other), mask=up)
        tl.store(heap_right + at + above, tl.where(flip, other, root), mask=up)
        tl.store(spine + at + above, tl.where(flip, other_spine, root_spine) + 1, mask=up)
        root = tl.where(up, above, root)
        above = tl.where(up, further, above)
        up = up & (above >= 0)
    return root


@triton.jit
def scale_round(
    left, right, gain, members, end, groups, made, scale, total, count, heap_left, heap_right, spine,
    lanes, inner, M, BLOCK: tl.constexpr,
):  # fmt: skip
    """The nodes of one round: one lane per component, whose nodes follow each other. A lane reads what it wrote before."""
    lane, image, g, there = lanes_of(lanes, groups, M, BLOCK)
    at = image.to(tl.int64) * inner
    k = tl.load(members + lane, mask=there, other=0)
    node = tl.load(made + image, mask=there, other=0) + tl.load(end + lane, mask=there, other=0) - k - g
    for i in range(1, tl.max(k, 0)):
        on = i < k
        a = tl.load(left + at + node, mask=on, other=0) - (inner + 1)
        b = tl.load(right + at + node, mask=on, other=0) - (inner + 1)
        heap = join_heaps(a, b, on, at, scale, heap_left, heap_right, spine)
        sum_ = tl.load(gain + at + node, mask=on, other=0.0).to(tl.float64)
        splits = tl.full([BLOCK], 1, tl.int32)
        value = sum_
        top = tl.load(scale + at + heap, mask=on & (heap >= 0), other=0.0)
        pooling = on & (heap >= 0) & (value < top)
        while tl.max(pooling.to(tl.int32), 0) > 0:
            sum_ = tl.where(pooling, sum_ + tl.load(total + at + heap, mask=pooling, other=0.0), sum_)
            splits = tl.where(pooling, splits + tl.load(count + at + heap, mask=pooling, other=0), splits)
            value = tl.where(pooling, sum_ / splits.to(tl.float64), value)
            tl.store(spine + at + heap, tl.zeros([BLOCK], tl.int32), mask=pooling)
            x = tl.load(heap_left + at + heap, mask=pooling, other=-1)
            y = tl.load(heap_right + at + heap, mask=pooling, other=-1)
            heap = tl.where(pooling, join_heaps(x, y, pooling, at, scale, heap_left, heap_right, spine), heap)
            top = tl.load(scale + at + heap, mask=pooling & (heap >= 0), other=0.0)
            pooling = pooling & (heap >= 0) & (value < top)
        tl.store(scale + at + node, value, mask=on)
        tl.store(total + at + node, sum_, mask=on)
        tl.store(count + at + node, splits, mask=on)
        tl.store(heap_left + at + node, heap, mask=on)
        tl.store(heap_right + at + node, tl.full([BLOCK], -1, tl.int32), mask=on)
        tl.store(spine + at + node, tl.full([BLOCK], 1, tl.int32), mask=on)
        node = tl.where(on, node + 1, node)
