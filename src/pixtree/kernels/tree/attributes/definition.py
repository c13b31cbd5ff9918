"""Attributes of tree nodes, from the leaves upwards, and the levels in which a tree grew."""

from collections.abc import Iterator

import torch
from torch import Tensor

from pixtree.kernels.tree import Tree
from pixtree.kernels.tree.build.definition import Regions, merged_moments, pixel_edges


def depths(parent: Tensor) -> Tensor:
    """Edges between each node and the root, (2M−1,) int64, by pointer doubling."""
    node = torch.arange(parent.numel(), device=parent.device)
    pointer = torch.where(parent < 0, node, parent.to(torch.int64))
    depth = (parent >= 0).to(torch.int64)
    while bool((pointer != pointer[pointer]).any()):
        depth = depth + depth[pointer]
        pointer = pointer[pointer]
    return depth


def inner_by_depth(parent: Tensor, leaves: int, *, upwards: bool) -> Iterator[Tensor]:
    """Groups of inner nodes of equal depth: children before parents if `upwards`, else parents before children."""
    depth = depths(parent)[leaves:]
    order = torch.argsort(depth, descending=upwards, stable=True)
    counts = torch.bincount(depth)
    groups = torch.split(order + leaves, (counts.flip(0) if upwards else counts).tolist())
    yield from groups


def parents_of(left: Tensor, right: Tensor) -> Tensor:
    """Parent of every node, −1 at the root, (2M−1,) int32."""
    leaves = left.numel() + 1
    parent = torch.full((2 * leaves - 1,), -1, dtype=torch.int32, device=left.device)
    node = torch.arange(leaves, 2 * leaves - 1, dtype=torch.int32, device=left.device)
    parent[left.to(torch.int64)] = node
    parent[right.to(torch.int64)] = node
    return parent


def moments(features: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and sum of squared deviations of every node, (2M−1, C) float32 each; features are planes (C, M)."""
    channels, leaves = features.shape
    mean = features.new_zeros((2 * leaves - 1, channels))
    mean[:leaves] = features.T
    deviation = torch.zeros_like(mean)
    size = sizes(left, right).to(torch.float32)
    for group in inner_by_depth(parents_of(left, right), leaves, upwards=True):
        a, b = (
            Regions(child, size[child], mean[child], deviation[child], size[child], mean[child, :0])
            for child in (left[group - leaves].to(torch.int64), right[group - leaves].to(torch.int64))
        )
        _, mean[group], deviation[group] = merged_moments(a, b)
    return mean, deviation


def sum_upwards(values: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Add to each node's own integer value those of all its descendants, (2M−1,)."""
    total, leaves = values.clone(), left.numel() + 1
    for group in inner_by_depth(parents_of(left, right), leaves, upwards=True):
        total[group] += total[left[group - leaves].to(torch.int64)] + total[right[group - leaves].to(torch.int64)]
    return total


def sizes(left: Tensor, right: Tensor) -> Tensor:
    """Number of leaves under every node, (2M−1,) int32."""
    leaves = left.numel() + 1
    own = torch.zeros(2 * leaves - 1, dtype=torch.int32, device=left.device)
    own[:leaves] = 1
    return sum_upwards(own, left, right)


def boxes(rows: Tensor, columns: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """Bounding boxes (2M−1, 4) int32: top, left, bottom, right, the last two exclusive; rows and columns are the leaves'."""
    leaves = rows.numel()
    corner = torch.stack((rows, columns, -rows - 1, -columns - 1), dim=1).to(torch.int32)
    box = torch.cat((corner, corner.new_zeros((leaves - 1, 4))))  # the far corner negated: one minimum serves all four
    for group in inner_by_depth(parents_of(left, right), leaves, upwards=True):
        children = left[group - leaves].to(torch.int64), right[group - leaves].to(torch.int64)
        box[group] = torch.minimum(box[children[0]], box[children[1]])
    return torch.cat((box[:, :2], -box[:, 2:]), dim=1)


def volumes(parent: Tensor, left: Tensor, right: Tensor, inside: Tensor) -> Tensor:
    """Number of pixel edges inside every node, (2M−1,) int32; inside is the mask (H, W)."""
    edges = pixel_edges(inside)
    own = torch.bincount(joins(parent, edges.first, edges.second), minlength=parent.numel())
    return sum_upwards(own.to(torch.int32), left, right)


def joins(parent: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """The node at which two nodes first belong together, for pairs, int64: the smaller of the two climbs until they meet."""
    up = parent.to(torch.int64)
    a, b = first.to(torch.int64).clone(), second.to(torch.int64).clone()
    apart = torch.nonzero(a != b).flatten()
    while apart.numel():
        low, high = torch.minimum(a[apart], b[apart]), torch.maximum(a[apart], b[apart])
        a[apart], b[apart] = up[low], high
        apart = apart[a[apart] != b[apart]]
    return a


def tree_levels(tree: Tree, levels: Tensor) -> None:
    """Fill levels (4, L) int32, see `ExactCut`, from a tree without a mask that has kept its picks."""
    group, partner = joined(tree)
    pixels = tree.left.numel() + 1
    levels.zero_()
    levels[3, 1] = pixels
    nodes, number = torch.arange(pixels, device=group.device), torch.empty_like(group)
    here, begin, level = 0, 0, 0
    while nodes.numel() > 1:
        above, index = torch.unique(group[nodes], return_inverse=True)
        place = torch.arange(nodes.numel(), device=group.device)
        first = torch.full_like(above, nodes.numel()).scatter_reduce(0, index, place, "amin")
        order = torch.argsort(first)  # regions are numbered by their first pixel
        component = torch.argsort(order)[index]
        number[nodes] = place
        sizes, up = torch.bincount(component), here + nodes.numel()
        levels[0, here:up] = number[partner[nodes]].to(torch.int32)
        levels[1, here:up] = torch.argsort(component, stable=True).to(torch.int32)
        levels[2, begin + 1 : begin + 1 + sizes.numel()] = sizes.cumsum(0).to(torch.int32)
        levels[3, level + 2] = up + sizes.numel()
        nodes, here, begin, level = above[order], up, begin + sizes.numel() + 1, level + 1


def joined(tree: Tree) -> tuple[Tensor, Tensor]:
    """For every level's region the region of the next level that it joins, and the one that it picked, (2M−1,) int64."""
    leaves, device = tree.left.numel() + 1, tree.parent.device
    node, parent = torch.arange(2 * leaves - 1, device=device), tree.parent.to(torch.int64)
    rises = (parent < 0) | (tree.level[parent.clamp_min(0)] > tree.level)
    top = torch.where(rises, node, parent)
    while bool((top != top[top]).any()):
        top = top[top]
    partner = torch.full_like(parent, -1)
    left, right, pick = tree.left.to(torch.int64), tree.right.to(torch.int64), tree.pick.to(torch.int64)
    in_zone = pick < 0
    partner[right] = torch.where(in_zone, ~pick, pick)
    # The first two members of a component picked each other; all pixels of a flat zone picked the same.
    first = tree.level[left] < tree.level[leaves:]
    partner[left[first]] = torch.where(in_zone, ~pick, right)[first]
    return top[parent.clamp_min(0)], partner
