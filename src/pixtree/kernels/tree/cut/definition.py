"""Cuts of a tree: which nodes are opened, and the regions that remain.

The loops of `scale_set` are sequential by nature and written once: Python interprets them here, and `compiled` compiles them.
"""

from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.image.pieces.definition import number_by_first, settle
from pixtree.kernels.tree.attributes.definition import inner_by_depth, parents_of

Nodes = Sequence[Any]

# One record per inner node, so that a visit costs one cache line; the definition uses a list of dictionaries with the same keys.
HEAP_NODE = np.dtype(
    [("scale", "f8"), ("total", "f8"), ("left", "i4"), ("right", "i4"), ("spine", "i4"), ("count", "i4")], align=True
)
SPINE_LIMIT = 64  # the right spine of a leftist heap of r nodes is at most log2(r + 1) long


def cut_labels(parent: Tensor, opened: Tensor) -> Tensor:
    """Regions of the leaves under a cut, (M,) int32, numbered by first leaf; `opened` (M−1,) marks the inner nodes that are split.

    The opened nodes form an upper set: the parent of an opened node is opened.
    """
    leaves = opened.numel() + 1
    node = torch.arange(parent.numel(), device=parent.device)
    up = torch.where(parent < 0, node, parent.to(torch.int64))
    is_opened = torch.cat((torch.zeros(leaves, dtype=torch.bool, device=parent.device), opened))
    region = settle(torch.where(is_opened[up], node, up))[:leaves]
    leaf = torch.arange(leaves, device=parent.device)
    first = torch.full((parent.numel(),), leaves, device=parent.device).scatter_reduce(0, region, leaf, "amin")
    return number_by_first(first[region])[0].to(torch.int32)


def cheapest_cut(cost: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The cut whose nodes have the least total cost: best(v) = min(cost(v), best(left) + best(right)).

    Returns the opened nodes (M−1,) bool and the total. cost is (2M−1,) float64; a node of cost NaN is never a region; ties keep the
    larger region.
    """
    leaves = left.numel() + 1
    best = cost.clone()
    split = torch.zeros(leaves - 1, dtype=torch.bool, device=cost.device)
    parent = parents_of(left, right)
    for group in inner_by_depth(parent, leaves, upwards=True):
        below = best[left[group - leaves].to(torch.int64)] + best[right[group - leaves].to(torch.int64)]
        # Written so that NaN, which wins no comparison, is always split.
        split[group - leaves] = ~(best[group] <= below)
        best[group] = torch.where(split[group - leaves], below, best[group])
    return upper_set(parent, split), best[-1]


def upper_set(parent: Tensor, split: Tensor) -> Tensor:
    """The nodes of `split` (M−1,) whose ancestors are all in it."""
    leaves = split.numel() + 1
    opened = split.clone()
    for group in inner_by_depth(parent, leaves, upwards=False):
        above = parent[group].to(torch.int64)
        opened[group - leaves] &= torch.where(above < 0, True, opened[(above - leaves).clamp_min(0)])
    return opened


def best_ancestors(score: Tensor, parent: Tensor) -> Tensor:
    """For each leaf the node above it (itself included) of least score, (M,) int64; ties keep the larger node."""
    leaves = (parent.numel() + 1) // 2
    best = torch.arange(parent.numel(), device=parent.device)
    for group in inner_by_depth(parent, leaves, upwards=False):
        best[group] = _better(score, best, group, parent)
    return _better(score, best, torch.arange(leaves, device=parent.device), parent)


def _better(score: Tensor, best: Tensor, node: Tensor, parent: Tensor) -> Tensor:
    above = parent[node].to(torch.int64)
    inherited = torch.where(above < 0, node, best[above])
    return torch.where(score[inherited] <= score[node], inherited, node)


def persistence(gain: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The scale λ of every inner node, (M−1,) float64, never larger than its parent's: `scale_set` on the host."""
    nodes = [dict.fromkeys(HEAP_NODE.names or (), 0) for _ in range(gain.numel())]
    scale_set(left.tolist(), right.tolist(), gain.tolist(), nodes, [0] * SPINE_LIMIT)
    return torch.tensor([node["scale"] for node in nodes], dtype=torch.float64, device=gain.device)


def join_heaps(a: int, b: int, nodes: Nodes, stack: MutableSequence[int]) -> int:
    """Root of two leftist heaps joined, largest (scale, id) on top; a negative root is the empty heap. O(log n)."""
    height = 0
    while a >= 0 and b >= 0:
        if nodes[a]["scale"] < nodes[b]["scale"] or (nodes[a]["scale"] == nodes[b]["scale"] and a < b):
            a, b = b, a
        stack[height] = a
        height += 1
        a = nodes[a]["right"]
    root = a if a >= 0 else b
    while height > 0:
        height -= 1
        node = stack[height]
        other = nodes[node]["left"]
        other_spine = nodes[other]["spine"] if other >= 0 else 0
        root_spine = nodes[root]["spine"] if root >= 0 else 0
        if other_spine < root_spine:
            nodes[node]["left"], nodes[node]["right"] = root, other
            nodes[node]["spine"] = other_spine + 1
        else:
            nodes[node]["right"] = root
            nodes[node]["spine"] = root_spine + 1
        root = node
    return root


def scale_set(left: Sequence[int], right: Sequence[int], gain: Sequence[float], nodes: Nodes, stack: MutableSequence[int]) -> None:
    """Fill the field `scale` with the price λ per region at which the optimal cut closes each inner node (CART's weakest link).

    Nodes come in creation order. A node starts with its own gain; while that is below the largest scale inside its subtree, that
    inner node is pooled into it and the scale becomes the mean gain of all pooled splits. The rest on the heaps is monotone, so
    opening nodes by decreasing (scale, id) opens parents first and gives the least energy at every vertex of its convex hull.
    """
    inner = len(gain)
    leaves = inner + 1
    for k in range(inner):
        heap = join_heaps(left[k] - leaves, right[k] - leaves, nodes, stack)
        total, count = float(gain[k]), 1
        scale = total
        while heap >= 0 and scale < nodes[heap]["scale"]:
            total += nodes[heap]["total"]
            count += nodes[heap]["count"]
            scale = total / count
            nodes[heap]["spine"] = 0  # pooled
            heap = join_heaps(nodes[heap]["left"], nodes[heap]["right"], nodes, stack)
        nodes[k]["scale"], nodes[k]["total"], nodes[k]["count"] = scale, total, count
        nodes[k]["left"], nodes[k]["right"], nodes[k]["spine"] = heap, -1, 1
    for k in range(inner - 1, -1, -1):
        for inside in (left[k] - leaves, right[k] - leaves):
            if inside >= 0 and nodes[inside]["spine"] == 0:
                nodes[inside]["scale"] = nodes[k]["scale"]


def select_largest(scale: Tensor, count: int) -> Tensor:
    """The `count` entries of largest (scale, index), bool."""
    if count == 0:
        return torch.zeros_like(scale, dtype=torch.bool)
    threshold = torch.kthvalue(scale, scale.numel() - (count - 1)).values
    chosen = scale > threshold
    ties = torch.nonzero(scale == threshold).flatten()
    chosen[ties[ties.numel() - (count - int(chosen.sum())) :]] = True
    return chosen


def open_largest(gain: Tensor, left: Tensor, right: Tensor, count: int) -> Tensor:
    """The `count` inner nodes of largest (λ, id), (M−1,) bool: those that the nested cut with count + 1 regions opens."""
    return select_largest(persistence(gain, left, right), count)
