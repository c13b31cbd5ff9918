"""Ancestry: how the pixels of a cut became its regions, round by round, as plain arrays over tree nodes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.runtime.jit import kernel
from pixtree.trees.criteria import Criterion, scores
from pixtree.trees.cuts import Budget, opened_nodes
from pixtree.trees.hierarchy import Hierarchy

Array = NDArray[Any]


class Ancestry(NamedTuple):
    """For every tree node of every image its part in the rounds below the cut; K = 2·H·W − 1 nodes.

    A *member* is a level's region strictly inside a region of the cut. In the next round it joins a *group*: the part of its
    component that lies inside its region; so groups of the last round may be inner binary nodes.
    """

    group: Tensor  # (B, K) int32: the node that a member joins, −1 for nodes that are no members
    partner: Tensor  # (B, K) int32: u_max, the node that a member picked, −1 for nodes that are no members
    level: Tensor  # (B, K) int16: the round that made the node, 0 for pixels
    region: Tensor  # (B, N) int64: the node whose feature each region takes, −1 for rows without a region
    whole: bool  # whether regions are whole nodes, so that their means are those of their nodes

    @classmethod
    def stack(cls, images: Sequence["Ancestry"], count: int) -> "Ancestry":
        """One ancestry of a batch from those of its images, rows padded to `count` regions."""
        padded = [torch.nn.functional.pad(one.region, (0, count - one.region.shape[1]), value=-1) for one in images]
        fields = ([one.group for one in images], [one.partner for one in images], [one.level for one in images])
        group, partner, level = (torch.cat(field) for field in fields)
        return cls(group, partner, level, torch.cat(padded), all(one.whole for one in images))


class Levels(NamedTuple):
    """The same as the levels of each image's tree, `ExactCut.levels`; with the labels of a cut they say who its members are."""

    images: list[Tensor]

    @property
    def whole(self) -> bool:
        """Whether regions are whole nodes."""
        return True


class Cut(NamedTuple):
    """One image's labels (H, W) int32, and which inner nodes (M−1,) are split; None where regions are not whole nodes."""

    labels: Tensor
    opened: Tensor | None
    node: Tensor | None = None  # (H·W,) int64: the node that each pixel took, where regions are not whole nodes


def cut_tree(tree: Hierarchy, budget: Budget) -> Cut:
    """The cut of one image without a mask under a budget."""
    if isinstance(budget, Criterion) and budget.rule == "pixel":
        score = scores(tree, budget)
        node = tree.kernels.best_ancestors(score.masked_fill(score.isnan(), torch.inf), tree.parent)
        return Cut(tree.kernels.connected_pieces(node.to(torch.int32).view(tree.shape)), None, node)
    opened = opened_nodes(tree, budget)
    return Cut(tree.kernels.cut_labels(tree.parent, opened).view(tree.shape), opened)


def ancestry_of(tree: Hierarchy, cut: Cut) -> Ancestry:
    """The ancestry of one image (B = 1), of a tree that has kept its picks."""
    opened = torch.zeros_like(tree.left, dtype=torch.bool) if cut.opened is None else cut.opened
    if tree.parent.device.type == "cpu":
        group, partner = torch.full_like(tree.parent, -1), torch.full_like(tree.parent, -1)
        arrays = (tensor.numpy() for tensor in (tree.parent, tree.left, tree.right, tree.pick, tree.level, opened, group, partner))
        trace(*arrays)
    else:
        group, partner = traced(tree, opened)
    region = region_roots(group, cut.labels) if cut.node is None else cut.node[some_pixels(cut.labels)]
    return Ancestry(group[None], partner[None], tree.level[None], region[None], cut.node is None)


def some_pixels(labels: Tensor) -> Tensor:
    """A pixel of each region of labels (H, W), (N,) int64."""
    flat = labels.flatten().to(torch.int64)
    pixel = torch.arange(flat.numel(), device=flat.device)
    return torch.zeros(int(flat.max()) + 1, dtype=torch.int64, device=flat.device).scatter_(0, flat, pixel)


def region_roots(group: Tensor, labels: Tensor) -> Tensor:
    """The node that is each region of labels (H, W), (N,) int64: where its members' groups end."""
    node = some_pixels(labels)
    while bool((group[node] >= 0).any()):
        node = torch.where(group[node] >= 0, group[node].to(torch.int64), node)
    return node


def traced(tree: Hierarchy, opened: Tensor) -> tuple[Tensor, Tensor]:
    """Group and partner of every node, (2M−1,) int32, on any device."""
    leaves, device = tree.leaves, tree.parent.device
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


@kernel
def trace(parent: Array, left: Array, right: Array, pick: Array, level: Array, opened: Array, group: Array, partner: Array) -> None:
    """`traced` in one pass from the root down; group and partner hold −1 on entry, and group serves as `top` on the way."""
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
