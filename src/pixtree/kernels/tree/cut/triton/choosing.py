"""Cuts that costs of nodes choose, in Triton: a dynamic programme from the leaves upwards, and the least on the way to the root."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.tree.attributes.triton import arrive, lowest
from pixtree.kernels.tree.build.triton.grouping import settled
from pixtree.runtime.launch import RUN, WARP, filled, launch, unset

_RUN = tl.constexpr(RUN)


def cheapest_nodes(cost: Tensor, parent: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The opened nodes (B, M−1) bool of the cuts of least total cost, and the least cost under every node, (B, 2M−1) float64."""
    images, nodes = cost.shape
    leaves = (nodes + 1) // 2
    best, lanes = cost.clone(), left.numel()
    split, waiting = filled(images * nodes, 0, torch.uint8, cost), filled(lanes, 0, torch.int32, cost)
    launch(choose_upwards, lanes, best, split, parent, left, right, waiting, lanes, leaves, block=WARP)
    pointer = unset(images * nodes, torch.int32, cost)
    launch(point_to_closed, pointer.numel(), parent, split, pointer, pointer.numel(), nodes)
    top = settled(pointer, filled(images, nodes, torch.int32, cost), nodes).view(images, nodes)[:, leaves:]
    # What no closed node is above leads to the root, which then is split as well.
    return split.view(images, nodes).gather(1, top.to(torch.int64)).to(torch.bool), best


def best_above(score: Tensor, parent: Tensor) -> Tensor:
    """For each leaf the node above it (itself included) of least score, (B, M) int32; ties keep the larger node."""
    images, nodes = score.shape
    leaves, lanes = (nodes + 1) // 2, images * nodes
    above, best = (unset(lanes, torch.int32, score) for _ in range(2))
    launch(climb_runs, lanes, score, parent, above, best, lanes, nodes)
    reach = RUN
    while reach < nodes:
        further, better = torch.empty_like(above), torch.empty_like(best)
        launch(climb_further, lanes, score, above, best, further, better, lanes, nodes)
        above, best, reach = further, better, reach * RUN
    return best.view(images, nodes)[:, :leaves]


@triton.jit
def choose_upwards(best, split, parent, left, right, waiting, lanes, leaves, BLOCK: tl.constexpr):
    """best(v) = min(cost(v), best(left) + best(right)), which replaces cost(v); split where the children are cheaper."""
    node, a, b, going, at, inner = lowest(left, right, lanes, leaves, BLOCK)
    while tl.max(going.to(tl.int32), 0) > 0:
        below = tl.load(best + at + a, mask=going, other=0.0) + tl.load(best + at + b, mask=going, other=0.0)
        # NaN, which wins no comparison, is always split
        opened = going & ((tl.load(best + at + node, mask=going, other=0.0) <= below) == 0)
        tl.store(best + at + node, below, mask=opened)
        tl.store(split + at + node, opened.to(tl.uint8), mask=going)
        node, a, b, going = arrive(parent, left, right, waiting, at, inner, node, going, leaves)


@triton.jit
def point_to_closed(parent, split, pointer, lanes, nodes, BLOCK: tl.constexpr):
    """pointer = the parent of a split node; all others, and the root, point to themselves."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    node = (lane - lane // nodes * nodes).to(tl.int32)
    above = tl.load(parent + lane, mask=there, other=-1)
    on = there & (above >= 0) & (tl.load(split + lane, mask=there, other=0) != 0)
    tl.store(pointer + lane, tl.where(on, above, node), mask=there)


@triton.jit
def climb_runs(score, parent, above, best, lanes, nodes, BLOCK: tl.constexpr):
    """The node of least score within `RUN` steps upwards, and where they lead: −1 if nothing further up can be better.

    A node whose score is NaN ends the way: what lies above it cannot win, as in the definition.
    """
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    at = (lane // nodes).to(tl.int64) * nodes
    chosen = (lane - at).to(tl.int32)
    least = tl.load(score + lane, mask=there, other=0.0)
    node = tl.where(least == least, tl.load(parent + lane, mask=there, other=-1), -1)
    steps = tl.zeros_like(chosen)
    going = there & (node >= 0)
    while tl.max(going.to(tl.int32), 0) > 0:
        value = tl.load(score + at + node, mask=going, other=0.0)
        better = going & (value <= least)
        chosen, least = tl.where(better, node, chosen), tl.where(better, value, least)
        further = tl.where(value == value, tl.load(parent + at + node, mask=going, other=-1), -1)
        node = tl.where(going, further, node)
        steps += 1
        going = going & (node >= 0) & (steps < _RUN)
    tl.store(best + lane, chosen, mask=there)
    tl.store(above + lane, node, mask=there)


@triton.jit
def climb_further(score, above, best, further, better, lanes, nodes, BLOCK: tl.constexpr):
    """The same over `RUN` times as many steps, from the results of runs."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    at = (lane // nodes).to(tl.int64) * nodes
    chosen, node = tl.load(best + lane, mask=there, other=0), tl.load(above + lane, mask=there, other=-1)
    least = tl.load(score + at + chosen, mask=there, other=0.0)
    steps = tl.full([BLOCK], 1, tl.int32)
    going = there & (node >= 0)
    while tl.max(going.to(tl.int32), 0) > 0:
        one = tl.load(best + at + node, mask=going, other=0)
        value = tl.load(score + at + one, mask=going, other=0.0)
        less = going & (value <= least)
        chosen, least = tl.where(less, one, chosen), tl.where(less, value, least)
        node = tl.where(going, tl.load(above + at + node, mask=going, other=-1), node)
        steps += 1
        going = going & (node >= 0) & (steps < _RUN)
    tl.store(better + lane, chosen, mask=there)
    tl.store(further + lane, node, mask=there)
