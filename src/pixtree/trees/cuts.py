"""Cuts: which nodes of a tree become the regions of a partition."""

from dataclasses import dataclass, field
from numbers import Integral
from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.trees.criteria import Criterion, scores
from pixtree.trees.partition import Partition
from pixtree.trees.relax import relax_boundaries
from pixtree.trees.structure import TreeStructure


@dataclass(frozen=True)
class Exactly:
    """Exactly `count` regions (at most one per pixel), of least energy at every hull point; smaller counts coarsen it."""

    count: int

    def __post_init__(self) -> None:
        _at_least_one("tokens", self.count)


@dataclass(frozen=True)
class AtMost:
    """The criterion's cut, merged further in the order of the nested cuts where it has more than `count` regions."""

    count: int
    criterion: Criterion = field(default_factory=Criterion)

    def __post_init__(self) -> None:
        _at_least_one("at_most", self.count)
        if self.criterion.rule == "pixel":
            raise ValueError('at_most merges a cut of the tree further, got rule="pixel", which gives none; use rule="optimal"')


@dataclass(frozen=True)
class Level:
    """The paper's partition π_t: level 0 is the pixels, levels above the last are the whole image."""

    level: int

    def __post_init__(self) -> None:
        if not _is_whole(self.level) or self.level < 0:
            raise ValueError(f"a level is a whole number from 0 up, got {self.level!r}; level 0 is the pixels")


Budget = Exactly | AtMost | Criterion | Level


def _at_least_one(name: str, count: int) -> None:
    if not _is_whole(count) or count < 1:
        raise ValueError(f"a cut needs a whole number of at least 1 region, got {count!r}; ask for {name}=1 or more")


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def budget_of(
    *,
    tokens: int | None = None,
    criterion: str | Criterion | None = None,
    at_most: int | None = None,
    level: int | None = None,
    budget: Budget | None = None,
) -> Budget:
    """The one budget that is asked for; `at_most` and `criterion` go together."""
    if isinstance(criterion, str):
        criterion = Criterion(criterion)
    if at_most is not None:
        chosen: list[Budget] = [AtMost(at_most, criterion or Criterion())]
    else:
        chosen = [] if criterion is None else [criterion]
    chosen += [] if tokens is None else [Exactly(tokens)]
    chosen += [] if level is None else [Level(level)]
    chosen += [] if budget is None else [budget]
    if len(chosen) != 1:
        raise ValueError(
            f"a cut needs one of tokens=, criterion=, at_most=, level= or budget=, got {len(chosen)} of them; give exactly one"
        )
    return chosen[0]


def opened_nodes(tree: TreeStructure, budget: Budget) -> Tensor:
    """The inner nodes that a budget splits, (M−1,) bool, an upper set. Linear time."""
    match budget:
        case Exactly(count):
            return _largest(tree, count)
        case Level(level):
            return tree.level[tree.leaves :] > min(level, tree.levels)
        case Criterion():
            return _cheapest(tree, budget)
        case AtMost(count, criterion):
            opened = _cheapest(tree, criterion)
            return opened if int(opened.sum()) < count else _largest(tree, count, opened)


def _largest(tree: TreeStructure, count: int, among: Tensor | None = None) -> Tensor:
    """The count − 1 nodes of largest (scale, id), all of them or those `among` an upper set."""
    if count < tree.pieces:
        raise ValueError(
            f"the mask has {tree.pieces} pieces that do not touch, got {count} regions for them; ask for {tree.pieces} or more"
        )
    splits = min(int(count), tree.leaves) - 1
    if among is not None:
        return tree.kernels.select_largest(torch.where(among, tree.scale, -1.0), splits)
    return tree.kernels.open_largest(tree.gain, tree.left, tree.right, splits)


def _cheapest(tree: TreeStructure, criterion: Criterion) -> Tensor:
    return tree.kernels.cheapest_cut(scores(tree, criterion), tree.left, tree.right)[0]


def _paint(tree: TreeStructure, leaf_labels: Tensor) -> Tensor:
    """Labels of the leaves as a label map (H, W) int32, −1 outside the mask."""
    if tree.mask is None:
        return leaf_labels.view(tree.shape)
    labels = torch.full(tree.shape, -1, dtype=torch.int32, device=leaf_labels.device)
    labels[tree.mask] = leaf_labels
    return labels


class Cut(NamedTuple):
    """One image's cut: labels, and the nodes that gave them."""

    labels: Tensor  # (H, W) int32, −1 outside the mask
    opened: Tensor | None  # (M−1,) bool: the inner nodes that are split; None where regions are not whole nodes
    node: Tensor | None = None  # (M,) int64: the node that each pixel took, where regions are not whole nodes


def is_whole(budget: Budget) -> bool:
    """Whether the regions of a cut are nodes of the tree; the paper's rule tears some apart."""
    return not (isinstance(budget, Criterion) and budget.rule == "pixel")


def cut_tree(tree: TreeStructure, budget: Budget) -> Cut:
    """The cut of one image under a budget."""
    if isinstance(budget, Criterion) and budget.rule == "pixel":
        # The paper's rule: each pixel takes its best-scoring ancestor; what that tears apart is split into connected pieces.
        score = scores(tree, budget)
        node = tree.kernels.best_ancestors(score.masked_fill(score.isnan(), torch.inf), tree.parent)
        return Cut(tree.kernels.connected_pieces(_paint(tree, node.to(torch.int32))), None, node)
    opened = opened_nodes(tree, budget)
    return Cut(_paint(tree, tree.kernels.cut_labels(tree.parent, opened)), opened)


def cut(tree: TreeStructure, budget: Budget, *, relax: bool = False) -> Partition:
    """The partition of one image under a budget; `relax` polishes its boundaries, after which it is no longer nested."""
    partition = Partition(cut_tree(tree, budget).labels[None])
    return relax_boundaries(partition, tree) if relax else partition
