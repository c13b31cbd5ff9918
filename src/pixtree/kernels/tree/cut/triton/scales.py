"""The order of nested cuts in Triton: a heap per subtree of the nodes in it that are not pooled yet, from the leaves upwards."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.tree.attributes.triton import arrive, lowest
from pixtree.kernels.tree.build.triton.grouping import settled
from pixtree.runtime.launch import WARP, filled, launch, unset


def scales(parent: Tensor, left: Tensor, right: Tensor, gain: Tensor) -> Tensor:
    """The scale λ of every inner node, (B, M−1) float64: `scale_set` of the definition, disjoint subtrees side by side."""
    images, inner = gain.shape
    scale, total = (unset(images * inner, torch.float64, gain) for _ in range(2))
    count, spine, heap_left, heap_right = (unset(images * inner, torch.int32, gain) for _ in range(4))
    lanes, waiting = images * inner, filled(images * inner, 0, torch.int32, gain)
    launch(
        price_upwards, lanes, parent, left, right, gain, waiting, scale, total, count, heap_left, heap_right, spine,
        lanes, inner + 1, block=WARP,
    )  # fmt: skip
    pointer = unset(images * inner, torch.int32, gain)
    launch(point_to_pools, spine.numel(), parent, spine, pointer, spine.numel(), inner)
    pool = settled(pointer, filled(images, inner, torch.int32, spine), inner)
    return scale.view(images, inner).gather(1, pool.view(images, inner).to(torch.int64))


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
def price_upwards(
    parent, left, right, gain, waiting, scale, total, count, heap_left, heap_right, spine, lanes, leaves, BLOCK: tl.constexpr
):  # fmt: skip
    """The scale of every inner node once those of its children are known. A lane reads what it, or who came first, has written."""
    node, first, second, going, nodes_at, inner_at = lowest(left, right, lanes, leaves, BLOCK)
    at = inner_at + leaves
    while tl.max(going.to(tl.int32), 0) > 0:
        k = node - leaves
        heap = join_heaps(first - leaves, second - leaves, going, at, scale, heap_left, heap_right, spine)
        sum_ = tl.load(gain + at + k, mask=going, other=0.0).to(tl.float64)
        splits = tl.full([BLOCK], 1, tl.int32)
        value = sum_
        top = tl.load(scale + at + heap, mask=going & (heap >= 0), other=0.0)
        pooling = going & (heap >= 0) & (value < top)
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
        tl.store(scale + at + k, value, mask=going)
        tl.store(total + at + k, sum_, mask=going)
        tl.store(count + at + k, splits, mask=going)
        tl.store(heap_left + at + k, heap, mask=going)
        tl.store(heap_right + at + k, tl.full([BLOCK], -1, tl.int32), mask=going)
        tl.store(spine + at + k, tl.full([BLOCK], 1, tl.int32), mask=going)
        node, first, second, going = arrive(parent, left, right, waiting, nodes_at, inner_at, node, going, leaves)
