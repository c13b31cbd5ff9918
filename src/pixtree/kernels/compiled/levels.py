"""The levels of a tree, from the tree, in numba."""

import torch
from torch import Tensor

from pixtree.kernels.types import Tree
from pixtree.runtime.jit import kernel


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
            partner[right[k]] = pick[k]
        if level[left[k]] < level[node]:
            partner[left[k]] = right[k]
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
