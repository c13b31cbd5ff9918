"""The levels of a tree, from the tree: which regions there were after each round, whom they picked and whom they joined."""

import torch
from torch import Tensor

from pixtree.kernels.types import Tree


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
    left, right = tree.left.to(torch.int64), tree.right.to(torch.int64)
    partner[right] = tree.pick.to(torch.int64)
    # The first two members of a component picked each other.
    first = tree.level[left] < tree.level[leaves:]
    partner[left[first]] = right[first]
    return top[parent.clamp_min(0)], partner
