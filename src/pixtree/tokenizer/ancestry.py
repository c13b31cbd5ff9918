"""Ancestry: how the pixels of a cut became its regions, round by round, as plain arrays over tree nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.trees.cuts import Cut
from pixtree.trees.hierarchy import Hierarchy


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


def ancestry_of(tree: Hierarchy, cut: Cut) -> Ancestry:
    """The ancestry of one image (B = 1), of a tree that has kept its picks."""
    opened = torch.zeros_like(tree.left, dtype=torch.bool) if cut.opened is None else cut.opened
    group, partner = tree.kernels.trace(tree.tree, opened)
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
