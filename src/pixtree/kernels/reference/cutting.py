"""Cuts of a tree: which nodes are opened, and the regions that remain."""

import torch
from torch import Tensor

from pixtree.kernels import polishing, sequential
from pixtree.kernels.reference.attributes import inner_by_depth, parents_of
from pixtree.kernels.reference.pieces import number_by_first, settle


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
    """The scale λ of every inner node, (M−1,) float64, never larger than its parent's: see `sequential.scale_set`.

    Sequential by nature, so the reference is an interpreted loop on the host.
    """
    nodes = [dict.fromkeys(sequential.HEAP_NODE.names or (), 0) for _ in range(gain.numel())]
    sequential.scale_set(left.tolist(), right.tolist(), gain.tolist(), nodes, [0] * sequential.SPINE_LIMIT)
    return torch.tensor([node["scale"] for node in nodes], dtype=torch.float64, device=gain.device)


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


def relax(labels: Tensor, features: Tensor, sweeps: int, smoothness: float, floor: float) -> Tensor:
    """Labels (H, W) int32 after boundary polishing: see `polishing.relax`; features are planes (C, H, W) float32.

    Sequential by nature, so the reference is an interpreted loop on the host.
    """
    polished = labels.cpu().numpy().copy()
    state = polishing.empty_state(int(labels.max()) + 1, features.shape[0])
    polishing.relax(polished, features.cpu().numpy(), *state, sweeps, smoothness, floor)
    return torch.from_numpy(polished).to(labels.device)
