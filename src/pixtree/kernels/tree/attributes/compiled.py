"""Attributes of tree nodes, and levels, in numba: parents come after children, so one pass is enough for each attribute."""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.tree import Tree
from pixtree.kernels.tree.zones.compiled import vertex_numbers
from pixtree.runtime.jit import kernel

_f4 = np.float32


@kernel
def add_children(total, left, right):
    """total[node] += total[left] + total[right], upwards."""
    leaves = left.size + 1
    for k in range(left.size):
        total[leaves + k] += total[left[k]] + total[right[k]]


@kernel
def merge_moments(mean, deviation, size, left, right):
    """Means and squared deviations upwards, in Chan's form and the definition's order of operations."""
    leaves, channels = left.size + 1, mean.shape[1]
    for k in range(left.size):
        a, b, node = left[k], right[k], leaves + k
        size_a, size_b = _f4(size[a]), _f4(size[b])
        both = size_a + size_b
        spread, share = size_a * size_b / both, size_b / both
        for c in range(channels):
            step = mean[b, c] - mean[a, c]
            mean[node, c] = mean[a, c] + share * step
            deviation[node, c] = (deviation[a, c] + deviation[b, c]) + spread * step * step


@kernel
def merge_boxes(box, left, right):
    """Boxes upwards."""
    leaves = left.size + 1
    for k in range(left.size):
        a, b, node = left[k], right[k], leaves + k
        for side in range(2):
            box[node, side] = min(box[a, side], box[b, side])
            box[node, 2 + side] = max(box[a, 2 + side], box[b, 2 + side])


@kernel
def climb(parent, first, second, meeting):
    """The node at which each pair first belongs together: the smaller of the two climbs until they meet."""
    for e in range(first.size):
        a, b = first[e], second[e]
        while a != b:
            if a < b:
                a = np.int64(parent[a])
            else:
                b = np.int64(parent[b])
        meeting[e] = a


@kernel
def count_inner_edges(parent, number, own):
    """Add every pixel edge to the node that joins its ends; number (H, W) int32 is the pixel's leaf, −1 outside the mask."""
    height, width = number.shape
    for y in range(height):
        for x in range(width):
            for side in range(2):
                v, u = y + side, x + 1 - side
                if v < height and u < width and number[y, x] >= 0 and number[v, u] >= 0:
                    a, b = number[y, x], number[v, u]
                    while a != b:
                        if a < b:
                            a = parent[a]
                        else:
                            b = parent[b]
                    own[a] += 1


def volumes(parent: Tensor, left: Tensor, right: Tensor, inside: Tensor) -> Tensor:
    """Number of pixel edges inside every node, (2M−1,) int32; inside is the mask (H, W)."""
    own = torch.zeros(parent.numel(), dtype=torch.int32)
    count_inner_edges(parent.numpy(), vertex_numbers(inside), own.numpy())
    return sum_upwards(own, left, right)


def sum_upwards(values: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add to each node's own integer value those of all its descendants, (2M−1,)."""
    total = values.clone()
    add_children(total.numpy(), left.numpy(), right.numpy())
    return total


def sizes(left: Tensor, right: Tensor) -> Tensor:
    """Number of leaves under every node, (2M−1,) int32."""
    own = torch.zeros(2 * left.numel() + 1, dtype=torch.int32)
    own[: left.numel() + 1] = 1
    return sum_upwards(own, left, right)


def moments(features: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations of every node, (2M−1, C) float32 each; features are planes (C, M)."""
    channels, leaves = features.shape
    mean = torch.empty((2 * leaves - 1, channels))
    mean[:leaves] = features.T
    deviation = torch.zeros_like(mean)
    merge_moments(mean.numpy(), deviation.numpy(), sizes(left, right).numpy(), left.numpy(), right.numpy())
    return mean, deviation


def boxes(rows: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Bounding boxes (2M−1, 4) int32: top, left, bottom, right, the last two exclusive; rows and columns are the leaves'."""
    leaves = rows.numel()
    box = torch.empty((2 * leaves - 1, 4), dtype=torch.int32)
    box[:leaves] = torch.stack((rows, columns, rows + 1, columns + 1), dim=1).to(torch.int32)
    merge_boxes(box.numpy(), left.numpy(), right.numpy())
    return box


def joins(parent: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The node at which two nodes first belong together, for pairs, int64."""
    meeting = torch.empty(first.numel(), dtype=torch.int64)
    pairs = (ends.to(torch.int64).contiguous().numpy() for ends in (first, second))
    climb(parent.numpy(), *pairs, meeting.numpy())
    return meeting


def tree_levels(tree: Tree, levels: Tensor) -> None:
    """Fill levels (4, L) int32 from a tree without a mask that has kept its picks; see the definition."""
    scratch = torch.empty((5, tree.parent.numel()), dtype=torch.int32)
    arrays = (one.numpy() for one in (tree.parent, tree.left, tree.right, tree.pick, tree.level))
    fill_levels(*arrays, scratch.numpy(), levels.numpy())


@kernel
def fill_levels(parent, left, right, pick, level, scratch, levels):
    """The same; scratch is (5, 2M−1)."""
    group, partner, number, nodes, above_nodes = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    leaves = left.size + 1
    for k in range(left.size - 1, -1, -1):  # group serves as the top of a component on the way down
        node = leaves + k
        above = parent[node]
        top = group[node] if above >= 0 and level[above] == level[node] else node
        for child in (left[k], right[k]):
            group[child] = top
        if level[right[k]] < level[node]:
            partner[right[k]] = pick[k] if pick[k] >= 0 else ~pick[k]
        if level[left[k]] < level[node]:
            partner[left[k]] = right[k] if pick[k] >= 0 else ~pick[k]
    levels[3, 0], levels[3, 1] = 0, leaves
    for i in range(leaves):
        nodes[i] = i
    count, here, begin, rounds = leaves, 0, 0, 0
    while count > 1:
        picks, members, start = levels[0, here : here + count], levels[1, here : here + count], levels[2, begin:]
        for i in range(count):
            number[nodes[i]] = i
            number[group[nodes[i]]] = -1
        groups = 0
        start[0] = 0
        for i in range(count):  # components are numbered by their first member, and their sizes counted
            picks[i] = number[partner[nodes[i]]]
            above = group[nodes[i]]
            if number[above] < 0:
                number[above] = groups
                groups += 1
                start[groups] = 0
            start[number[above] + 1] += 1
        for component in range(groups):
            start[component + 1] += start[component]
        for i in range(count - 1, -1, -1):  # backwards, so that members come in ascending order
            component = number[group[nodes[i]]]
            start[component + 1] -= 1
            members[start[component + 1]] = i
        for component in range(groups):  # each entry has moved to the start of its own component
            start[component] = start[component + 1]
        start[groups] = count
        for i in range(count):
            component = number[group[nodes[i]]]
            if members[start[component]] == i:
                above_nodes[component] = group[nodes[i]]
        for component in range(groups):
            nodes[component] = above_nodes[component]
        here, begin, rounds, count = here + count, begin + groups + 1, rounds + 1, groups
        levels[3, rounds + 1] = here + count
