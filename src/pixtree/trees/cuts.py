"""Cuts: which nodes of a tree become the regions of a partition."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Literal

import torch
from torch import Tensor

from pixtree.kernels import Kernels
from pixtree.kernels.tree.choice import Choice
from pixtree.trees.criteria import Criterion, scores, scoring_of
from pixtree.trees.partition import Partition
from pixtree.trees.structure import TreeStructure

SWEEPS = 4  # of boundary polishing
SMOOTHNESS = 0.2  # the worth of one more neighbour of the same region, as a log-likelihood
BLOCK_SWEEPS = 4  # of block moves
BLOCKS_PER_REGION = 40  # in the finer of the two cuts whose regions are blocks
LEAST_BLOCK = 16  # pixels of such a block, on average
COARSER_BLOCKS = 4  # blocks of the finer cut per block of the coarser one

# Why a device does not make a cut of a whole batch.
ONE_BY_ONE = "criteria with shape=, constants= or the pixel rule under at_most= are computed image by image"
POLISHED = "boundaries are polished one pixel after another"
MASKED = "masks are cut image by image"

Relax = bool | Literal["detail"]


@dataclass(frozen=True)
class Exactly:
    """Exactly `count` regions (at most one per pixel), of least energy at every hull point; smaller counts coarsen it.

    >>> import numpy as np, pixtree
    >>> int(pixtree.segment(np.eye(20), budget=pixtree.Exactly(7)).max()) + 1
    7
    """

    count: int

    def __post_init__(self) -> None:
        _at_least_one("tokens", self.count)


@dataclass(frozen=True)
class AtMost:
    """At most `count` regions: the criterion's cut, merged further in the order of the nested cuts where it has more.

    >>> import numpy as np, pixtree
    >>> budget = pixtree.AtMost(7, pixtree.Criterion("aic", penalty=0.01))
    >>> image = np.random.default_rng(0).random((20, 20))
    >>> int(pixtree.segment(image, budget=budget).max()) + 1
    7
    """

    count: int
    criterion: Criterion = field(default_factory=Criterion)

    def __post_init__(self) -> None:
        _at_least_one("at_most", self.count)


@dataclass(frozen=True)
class Level:
    """The paper's partition π_t: level 0 is the pixels, levels above the last are the whole image.

    >>> import numpy as np, pixtree
    >>> int(pixtree.segment(np.eye(20), budget=pixtree.Level(0)).max()) + 1
    400
    """

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
    """The one budget that is given; `at_most` and `criterion` go together."""
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
            f"a cut needs exactly one of tokens=, criterion=, at_most=, level= or budget=, got {len(chosen)} of them; give one"
        )
    return chosen[0]


def opened_nodes(tree: TreeStructure, budget: Budget) -> Tensor:
    """The inner nodes that a budget splits, (M−1,) bool, an upper set. Linear time."""
    match budget:
        case Exactly(count):
            return _largest(tree, checked_count(count, tree.leaves))
        case Level(level):
            return tree.level[tree.leaves :] > min(level, tree.levels)
        case Criterion():
            return _cheapest(tree, budget)
        case AtMost(count, criterion):
            opened = _cheapest(tree, criterion)
            return opened if int(opened.sum()) < count else _largest(tree, count, opened)


def checked_count(count: int, pixels: int) -> int:
    """A number of regions; an error if there are fewer pixels."""
    if count > pixels:
        raise ValueError(f"an image of {pixels} pixels has at most {pixels} regions, got {count}; ask for fewer")
    return count


def _largest(tree: TreeStructure, count: int, among: Tensor | None = None) -> Tensor:
    """The count − 1 nodes of largest (scale, id), all of them or those `among` an upper set."""
    if count < tree.pieces:
        raise ValueError(f"the mask has {tree.pieces} pieces that do not touch, got {count} regions; ask for {tree.pieces} or more")
    splits = min(int(count), tree.leaves) - 1
    if among is not None:
        return tree.kernels.select_largest(torch.where(among, tree.scale, -1.0), splits)
    return tree.kernels.open_largest(tree.gain, tree.left, tree.right, splits)


def _cheapest(tree: TreeStructure, criterion: Criterion) -> Tensor:
    return tree.kernels.cheapest_cut(scores(tree, criterion), tree.left, tree.right)[0]


def criterion_of(budget: Budget) -> Criterion | None:
    """The criterion that chooses the number of regions, if any does."""
    return budget.criterion if isinstance(budget, AtMost) else budget if isinstance(budget, Criterion) else None


def choice_of(budget: Budget) -> Choice | None:
    """The budget as the plain numbers by which whole batches are cut; None where only trees, one by one, can be cut so."""
    if isinstance(budget, Level):
        return Choice(None, level=int(budget.level))
    if isinstance(budget, Exactly):
        return Choice(None, regions=int(budget.count))
    criterion = criterion_of(budget)
    if criterion is None or criterion.shape != 2.0 or criterion.constants:
        return None
    pixelwise, most = criterion.rule == "pixel", budget.count if isinstance(budget, AtMost) else 0
    if pixelwise and most:
        return None
    return Choice(scoring_of(criterion), criterion.floor, pixelwise, most)


def is_whole(budget: Budget) -> bool:
    """Whether the regions of a cut are nodes of the tree; the pixel rule tears some apart."""
    criterion = criterion_of(budget)
    return criterion is None or criterion.rule == "optimal"


def cut_labels(tree: TreeStructure, budget: Budget) -> Tensor:
    """The regions of one image under a budget, (H, W) int32, −1 outside the mask."""
    criterion = criterion_of(budget)
    if criterion is None or is_whole(budget):
        return tree.over_pixels(tree.kernels.cut_labels(tree.parent, opened_nodes(tree, budget)), -1)
    # The rule of the authors' released code: each pixel takes its best-scoring ancestor, and torn regions fall into pieces.
    score = scores(tree, criterion)
    node = tree.kernels.best_ancestors(score.masked_fill(score.isnan(), torch.inf), tree.parent)
    labels = tree.kernels.connected_pieces(tree.over_pixels(node.to(torch.int32), -1))
    return merged(tree, labels, budget.count) if isinstance(budget, AtMost) else labels


def merged(tree: TreeStructure, labels: Tensor, count: int) -> Tensor:
    """Regions (H, W) joined across their weakest boundaries until at most `count` are left: the paper's extra step of merging.

    A boundary is as weak as the nested cut in which it first appears is fine: of two regions that touch, the strongest pixel edge
    between them counts. Ties keep the order of the regions. [*Scale Invariance*]
    """
    regions = int(labels.max()) + 1
    if regions <= count:
        return labels
    first, second = tree.edges
    leaf = (labels[tree.inside] if tree.mask is not None else labels.flatten()).to(torch.int64)
    a, b = leaf[first], leaf[second]
    apart = a != b
    appears = tree.rank[tree.joins[apart] - tree.leaves] + 2  # regions from which on the pixel edge is a boundary
    pair = torch.minimum(a, b)[apart] * regions + torch.maximum(a, b)[apart]
    pairs, index = torch.unique(pair, return_inverse=True)
    strength = torch.full_like(pairs, torch.iinfo(torch.int64).max).scatter_reduce(0, index, appears, "amin")
    order = torch.argsort(strength, descending=True, stable=True)
    root = list(range(regions))
    left = regions
    for one in pairs[order].tolist():
        if left == count:
            break
        ends = [_root(root, one // regions), _root(root, one % regions)]
        if ends[0] != ends[1]:
            root[max(ends)] = min(ends)
            left -= 1
    if left > count:
        raise ValueError(f"the mask has {left} pieces that do not touch, got {count} regions; ask for {left} or more")
    joined = torch.tensor([_root(root, region) for region in range(regions)], dtype=torch.int32, device=labels.device)
    outside = labels < 0
    return tree.kernels.connected_pieces(joined[labels.clamp_min(0).to(torch.int64)].masked_fill(outside, -1))


def _root(root: list[int], region: int) -> int:
    while root[region] != region:
        root[region] = root[root[region]]
        region = root[region]
    return region


def checked_relax(relax: bool | str) -> Relax:
    """A way to relax boundaries; an error if there is none of that name."""
    if relax == "detail":
        return "detail"
    if isinstance(relax, str) or relax not in (False, True):
        raise ValueError(f'relax is False, True or "detail", got {relax!r}; choose one of these')
    return bool(relax)


def cut(tree: TreeStructure, budget: Budget, *, relax: Relax = False) -> Partition:
    """The partition of one image under a budget; `relax` polishes its boundaries, after which it is no longer nested.

    relax="detail" moves blocks, the regions of finer nested cuts, before it moves pixels.
    """
    relax = checked_relax(relax)
    partition = Partition(cut_labels(tree, budget)[None], tree)
    if relax == "detail":
        return add_detail(partition, tree)
    return relax_boundaries(partition, tree) if relax else partition


def relax_boundaries(
    partition: Partition, tree: TreeStructure, *, sweeps: int = SWEEPS, smoothness: float = SMOOTHNESS
) -> Partition:
    """The partition with polished boundaries: same count, every region still 4-connected; no longer a cut of the tree."""
    features = tree.over_pixels(tree.features, 0.0)
    labels = relaxed(partition.labels[0], features, tree.kernels, tree.rule.floor, sweeps=sweeps, smoothness=smoothness)
    return Partition(labels[None], tree)


def add_detail(partition: Partition, tree: TreeStructure) -> Partition:
    """The partition with boundaries that follow finer detail: same count, every region still 4-connected; no longer a cut."""
    labels, kernels = partition.labels[0], tree.kernels
    finer = [cut_labels(tree, Exactly(count)) for count in block_counts(int(labels.max()) + 1, tree.leaves)]
    # A region of a criterion's cut may be smaller than a block, so blocks end where regions do.
    blocks = [kernels.connected_pieces(labels.to(torch.int64) * (int(one.max()) + 1) + one) for one in finer]
    return Partition(detailed(labels, blocks, tree.over_pixels(tree.features, 0.0), kernels, tree.rule.floor)[None], tree)


def block_counts(regions: int, pixels: int) -> list[int]:
    """How many regions the nested cuts have whose regions are the blocks, coarse to fine; none where regions are small."""
    finest = min(BLOCKS_PER_REGION * regions, pixels // LEAST_BLOCK)
    return [count for count in (finest // COARSER_BLOCKS, finest) if count > regions]


def relaxed(
    labels: Tensor, features: Tensor, kernels: Kernels, floor: float, *, sweeps: int = SWEEPS, smoothness: float = SMOOTHNESS
) -> Tensor:
    """Labels (H, W) int32 with polished boundaries, from planes (C, H, W); `floor` is the variance φ of a flat region."""
    zones = solid_zones(labels >= 0, features, kernels)
    return _polished(labels, features, kernels, floor, zones, sweeps, smoothness)


def detailed(labels: Tensor, blocks: Sequence[Tensor], features: Tensor, kernels: Kernels, floor: float) -> Tensor:
    """Labels (H, W) int32 after moves of blocks, coarse to fine, and then of pixels; arguments as in `relaxed`.

    blocks: label maps (H, W) int32 of connected pieces; each has its blocks inside those of the one before, or inside the regions.
    """
    zones = solid_zones(labels >= 0, features, kernels)
    if blocks:
        labels = kernels.move_blocks(labels, torch.stack(list(blocks)), features, BLOCK_SWEEPS, floor, zones)
    return _polished(labels, features, kernels, floor, zones, SWEEPS, 0.0)


def _polished(
    labels: Tensor, features: Tensor, kernels: Kernels, floor: float, zones: Tensor | None, sweeps: int, smoothness: float
) -> Tensor:
    moved = kernels.relax(labels, features, sweeps, smoothness, floor, None if zones is None else zones >= 0)
    # A moved first pixel changes the order of the regions, so they are numbered anew.
    return kernels.connected_pieces(moved)


def solid_zones(inside: Tensor, features: Tensor, kernels: Kernels) -> Tensor | None:
    """The solid flat zone of every pixel, which stays whole, (H, W) int32, −1 where a pixel is in none; None if an image has none.

    See `Zones`.
    """
    zones = kernels.flat_zones(features.flatten(1) if bool(inside.all()) else features[:, inside], inside)
    if zones is None:
        return None
    return torch.full(inside.shape, -1, dtype=torch.int32, device=inside.device).masked_scatter_(
        inside, torch.where(zones.solid, zones.root, -1)
    )
