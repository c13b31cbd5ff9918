"""Cuts of a tree in numba."""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels import sequential
from pixtree.kernels.compiled.jit import kernel

scale_set = kernel(sequential.scale_set)
relax_in_place = kernel(sequential.relax)


@kernel
def number_regions(parent, opened, region, label, labels):
    """labels of the leaves; region and label are scratch, one entry per node."""
    leaves = labels.size
    for node in range(parent.size - 1, -1, -1):
        above = parent[node]
        inherited = np.int32(-1) if above < 0 else region[above]
        if inherited < 0 and (node < leaves or not opened[node - leaves]):
            inherited = np.int32(node)
        region[node] = inherited
        label[node] = -1
    count = 0
    for leaf in range(leaves):
        top = region[leaf]
        if label[top] < 0:
            label[top] = count
            count += 1
        labels[leaf] = label[top]


@kernel
def choose_cheapest(best, left, right, opened):
    """Dynamic programming upwards, then keep only splits below splits; best holds the costs on entry."""
    leaves = left.size + 1
    for k in range(left.size):
        below = best[left[k]] + best[right[k]]
        opened[k] = not best[leaves + k] <= below  # so that NaN, which wins no comparison, is always split
        if opened[k]:
            best[leaves + k] = below
    for k in range(left.size - 1, -1, -1):
        if not opened[k]:
            for child in (left[k] - leaves, right[k] - leaves):
                if child >= 0:
                    opened[child] = False


@kernel
def inherit_best(score, parent, best):
    """best[node] = the node of least score on the way up, the larger at ties."""
    for node in range(parent.size - 1, -1, -1):
        best[node] = node
        above = parent[node]
        if above >= 0 and score[best[above]] <= score[node]:
            best[node] = best[above]


def cut_labels(parent: Tensor, opened: Tensor) -> Tensor:
    """Regions of the leaves under a cut, (M,) int32, numbered by first leaf; `opened` (M−1,) marks the split inner nodes."""
    labels = np.empty(opened.numel() + 1, np.int32)
    region, label = np.empty(parent.numel(), np.int32), np.empty(parent.numel(), np.int32)
    number_regions(parent.numpy(), opened.contiguous().numpy(), region, label, labels)
    return torch.from_numpy(labels)


def cheapest_cut(cost: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The cut whose nodes have the least total cost: the opened nodes (M−1,) bool and the total; see the reference."""
    best, opened = cost.clone(), torch.zeros(left.numel(), dtype=torch.bool)
    choose_cheapest(best.numpy(), left.numpy(), right.numpy(), opened.numpy())
    return opened, best[-1]


def best_ancestors(score: Tensor, parent: Tensor) -> Tensor:
    """For each leaf the node above it (itself included) of least score, (M,) int64; ties keep the larger node."""
    best = torch.empty(parent.numel(), dtype=torch.int64)
    inherit_best(score.numpy(), parent.numpy(), best.numpy())
    return best[: (parent.numel() + 1) // 2]


def persistence(gain: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The scale λ of every inner node, (M−1,) float64: see `sequential.scale_set`."""
    inner = gain.numel()
    total, scale = gain.to(torch.float64).numpy(), np.empty(inner, np.float64)
    count, heap_rank = np.ones(inner, np.int32), np.ones(inner, np.int32)
    heap_left, heap_right = np.full(inner, -1, np.int32), np.full(inner, -1, np.int32)
    pooled, stack = np.zeros(inner, np.bool_), np.empty(128, np.int32)
    scale_set(left.numpy(), right.numpy(), total, scale, count, heap_left, heap_right, heap_rank, pooled, stack)
    return torch.from_numpy(scale)


def relax(labels: Tensor, features: Tensor, sweeps: int, smoothness: float) -> Tensor:
    """Labels (H, W) int32 after boundary polishing: see `sequential.relax`; features are planes (C, H, W) float32."""
    polished = labels.clone()
    sums = sequential.region_sums(labels, features)
    relax_in_place(polished.numpy(), features.contiguous().numpy(), *sums, sweeps, smoothness)
    return polished
