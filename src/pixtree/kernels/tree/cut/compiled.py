"""Cuts of a tree in numba."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.arithmetic.compiled import bits_of, from_bits
from pixtree.kernels.tree.cut import definition
from pixtree.kernels.tree.cut.definition import HEAP_NODE, SPINE_LIMIT
from pixtree.runtime.jit import kernel, shared
from pixtree.runtime.threads import scratch

FEW = 2**16  # values that are sorted faster than counted

shared(definition.join_heaps)
scale_set = kernel(definition.scale_set)


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
    region, label = scratch("tree", 2 * parent.numel())[: 2 * parent.numel()].view(np.int32).reshape(2, -1)
    number_regions(parent.numpy(), opened.contiguous().numpy(), region, label, labels)
    return torch.from_numpy(labels)


def cheapest_cut(cost: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """The cut whose nodes have the least total cost: the opened nodes (M−1,) bool and the total; see the definition."""
    best, opened = cost.clone(), torch.zeros(left.numel(), dtype=torch.bool)
    choose_cheapest(best.numpy(), left.numpy(), right.numpy(), opened.numpy())
    return opened, best[-1]


def best_ancestors(score: Tensor, parent: Tensor) -> Tensor:
    """For each leaf the node above it (itself included) of least score, (M,) int64; ties keep the larger node."""
    best = torch.empty(parent.numel(), dtype=torch.int64)
    inherit_best(score.numpy(), parent.numpy(), best.numpy())
    return best[: (parent.numel() + 1) // 2]


def persistence(gain: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The scale λ of every inner node, (M−1,) float64: see `scale_set` of the definition."""
    words = gain.numel() * HEAP_NODE.itemsize // 4
    nodes = scratch("heaps", words)[:words].view(HEAP_NODE)
    scale_set(left.numpy(), right.numpy(), gain.numpy(), nodes, np.empty(SPINE_LIMIT, np.int64))
    return torch.from_numpy(nodes["scale"].copy())


def select_largest(scale: Tensor, count: int) -> Tensor:
    """The `count` entries of largest (scale, index), bool. Numpy finds the threshold ten times faster than torch."""
    values = scale.numpy()
    chosen = np.zeros(values.size, np.bool_)
    if count > 0:
        threshold = np.partition(values, values.size - count)[values.size - count]
        chosen = values > threshold
        ties = np.flatnonzero(values == threshold)
        chosen[ties[ties.size - (count - np.count_nonzero(chosen)) :]] = True
    return torch.from_numpy(chosen)


def kth_largest(values: Any, k: int) -> Any:
    """The k-th largest (k ≥ 1) of float32 values ≥ 0."""
    if values.size < FEW:
        return np.partition(values, values.size - k)[values.size - k]
    return kth_by_bits(values, k)


@kernel
def kth_by_bits(values, k):
    """The same by a histogram of the upper half of the bits, then one of the lower: worth it for many values only."""
    upper, lower = np.zeros(65536, np.int32), np.zeros(65536, np.int32)
    for i in range(values.size):
        upper[np.uint32(bits_of(values[i])) >> np.uint32(16)] += 1
    high = 65535
    while k > upper[high]:
        k -= upper[high]
        high -= 1
    for i in range(values.size):
        bits = np.uint32(bits_of(values[i]))
        if bits >> np.uint32(16) == high:
            lower[bits & np.uint32(65535)] += 1
    low = 65535
    while k > lower[low]:
        k -= lower[low]
        low -= 1
    return from_bits(np.int32((high << 16) | low))


@kernel
def keep_large(gain, left, right, threshold, number, kept, new_left, new_right, new_gain):
    """Renumber the nodes whose subtree holds a gain ≥ threshold as a tree of their own; returns their count.

    number: scratch, (M−1,). kept: which nodes they are. Children that are left out become leaves (0).
    """
    leaves, count = gain.size + 1, 0
    for k in range(gain.size):
        a, b = left[k] - leaves, right[k] - leaves
        number_a = number[a] if a >= 0 else np.int32(-1)
        number_b = number[b] if b >= 0 else np.int32(-1)
        if gain[k] >= threshold or number_a >= 0 or number_b >= 0:
            number[k] = count
            kept[count], new_left[count], new_right[count], new_gain[count] = k, number_a, number_b, gain[k]
            count += 1
        else:
            number[k] = -1
    for i in range(count):
        new_left[i] += count + 1 if new_left[i] >= 0 else 1
        new_right[i] += count + 1 if new_right[i] >= 0 else 1
    return count


def open_largest(gain: Tensor, left: Tensor, right: Tensor, count: int) -> Tensor:
    """The `count` inner nodes of largest (λ, id), (M−1,) bool: those that the nested cut with count + 1 regions opens."""
    return largest_scales(gain, left, right, [count])[0][0]


def largest_scales(gain: Tensor, left: Tensor, right: Tensor, counts: Sequence[int]) -> tuple[list[Tensor], float]:
    """`open_largest` of counts, the largest first, and the smallest λ of that (∞ of none), without λ of nodes that stay closed.

    If every gain in a subtree is below τ, so is every λ in it; and a node that pools a λ below τ ends below τ itself. So nodes
    whose subtree has no gain ≥ τ change no λ ≥ τ: they are left out, and if count nodes of λ ≥ τ remain, the result is exact.
    """
    inner, count = gain.numel(), counts[0]
    gains, children = gain.numpy(), (left.numpy(), right.numpy())
    opened = [torch.zeros(inner, dtype=torch.bool) for _ in counts]
    if count == 0:
        return opened, math.inf
    words = scratch("cut", 5 * inner)
    number, kept, new_left, new_right = (words[i * inner : (i + 1) * inner].view(np.int32) for i in range(4))
    new_gain = words[4 * inner : 5 * inner].view(np.float32)
    guess = 4 * count
    while True:
        threshold = kth_largest(gains, guess) if guess < inner else np.float32(0)
        size = keep_large(gains, *children, threshold, number, kept, new_left, new_right, new_gain)
        fields = (torch.from_numpy(field[:size]) for field in (new_gain, new_left, new_right))
        scale = persistence(*fields)
        if int((scale >= float(threshold)).sum()) >= count:
            chosen = [select_largest(scale, fewer) for fewer in counts]
            for cut, nodes in zip(opened, chosen, strict=True):
                cut[torch.from_numpy(kept[:size])[nodes].to(torch.int64)] = True
            return opened, float(scale[chosen[0]].min())
        guess *= 4
