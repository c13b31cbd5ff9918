"""Who joined whom below a cut, in one pass from the root down."""

import torch
from torch import Tensor

from pixtree.kernels.types import Tree
from pixtree.runtime.jit import kernel


def trace(tree: Tree, opened: Tensor) -> tuple[Tensor, Tensor]:
    """Group and partner of every node, (2M−1,) int32; see the definition."""
    group, partner = torch.full_like(tree.parent, -1), torch.full_like(tree.parent, -1)
    arrays = (one.numpy() for one in (tree.parent, tree.left, tree.right, tree.pick, tree.level, opened, group, partner))
    trace_down(*arrays)
    return group, partner


@kernel
def trace_down(parent, left, right, pick, level, opened, group, partner):
    """The same; group and partner hold −1 on entry, and group serves as `top` on the way."""
    leaves = left.size + 1
    for k in range(left.size - 1, -1, -1):
        node = leaves + k
        above = parent[node]
        inner = above >= 0 and not opened[above - leaves]
        # A node of its parent's round is no member: it is known by the top of its component until its children are done.
        top = group[node] if inner and level[above] == level[node] else node
        if not opened[k]:
            group[left[k]] = top
            group[right[k]] = top
            if level[right[k]] < level[node]:
                partner[right[k]] = pick[k]
            if level[left[k]] < level[node]:
                partner[left[k]] = right[k]
        if inner and level[above] == level[node]:
            group[node] = -1
