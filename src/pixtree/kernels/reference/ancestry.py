"""Who joined whom below a cut, from a tree that has kept its picks."""

import torch
from torch import Tensor

from pixtree.kernels.types import Tree


def trace(tree: Tree, opened: Tensor) -> tuple[Tensor, Tensor]:
    """Group and partner of every node, (2M−1,) int32; opened (M−1,) marks the nodes that a cut splits. See `Ancestry`."""
    leaves, device = opened.numel() + 1, tree.parent.device
    node = torch.arange(2 * leaves - 1, device=device)
    parent = tree.parent.to(torch.int64)
    is_opened = torch.cat((torch.zeros(leaves, dtype=torch.bool, device=device), opened))
    inside = (parent >= 0) & ~is_opened[parent.clamp_min(0)]
    rises = tree.level[parent.clamp_min(0)] > tree.level
    top = torch.where(inside & ~rises, parent, node)
    while bool((top != top[top]).any()):
        top = top[top]
    member = inside & rises
    partner = torch.full_like(parent, -1)
    left, right = tree.left.to(torch.int64), tree.right.to(torch.int64)
    partner[right] = tree.pick.to(torch.int64)
    # The first two members of a component picked each other.
    first = tree.level[left] < tree.level[leaves:]
    partner[left[first]] = right[first]
    group = torch.where(member, top[parent.clamp_min(0)], -1)
    return group.to(torch.int32), torch.where(member, partner, -1).to(torch.int32)
