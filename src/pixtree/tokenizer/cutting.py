"""The cut of a batch: the distance between pixels that decides it, its budget, its partition, and what gradients need of it."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from pixtree.kernels import Kernels, kernels_for, operators
from pixtree.kernels.image.planes import UNIT
from pixtree.kernels.proof import cutting
from pixtree.kernels.tree import MOST_LEVELS, Cost, MergeRule
from pixtree.runtime.launch import beyond
from pixtree.runtime.threads import each
from pixtree.runtime.transfer import on_host, scalar
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.cuts import ONE_BY_ONE, Budget, Exactly, choice_of, cut_labels, is_whole
from pixtree.trees.options import TreeOptions, coordinate_unit
from pixtree.trees.partition import Partition

SOURCES = ("lab", "features")
WEIGHT_SCALE = 100.0  # at v = softplus⁻¹(1) a feature difference of .1 counts as a distance of 1
START = 0.05  # of w / WEIGHT_SCALE
PICKS = ("means", "weighted")


class Distance(nn.Module):
    """The distance between pixels, ‖ΔLab‖²/100 + s²‖Δ(y, x)‖² + w‖Δf‖² ("lab"), or ‖Δf‖² alone ("features", the paper's).

    w = 100 softplus(v) ≥ 0 is learnable and starts small, so that a fresh model cuts like Lab. It is learned through κ.
    compactness: s; .1 for the tokens of a retrofit, 0 for segmentation. compared: how many features f counts here, from the first
    on; None is all.
    """

    def __init__(self, source: str = "lab", compactness: float = 0.1, compared: int | None = None) -> None:
        super().__init__()
        if source not in SOURCES:
            raise ValueError(f"the partition is decided by one of {', '.join(SOURCES)}, got {source!r}; choose one of these")
        coordinate_unit(compactness)
        self.source, self.compactness, self.compared = source, compactness, compared
        self.value = nn.Parameter(torch.tensor(math.log(math.expm1(START)))) if source == "lab" else None

    @property
    def weight(self) -> Tensor | float:
        """w, a scalar ≥ 0; 1 where features alone decide."""
        return 1.0 if self.value is None else WEIGHT_SCALE * functional.softplus(self.value)

    @property
    def plane_unit(self) -> float:
        """How many units of the tree's planes make a distance of 1."""
        return UNIT if self.sees_colour else WEIGHT_SCALE

    @property
    def sees_colour(self) -> bool:
        """Whether colours decide as well."""
        return self.source == "lab"

    @property
    def unit(self) -> float:
        """Lab units that one pixel of distance counts; 0 where positions do not decide."""
        return coordinate_unit(self.compactness) if self.sees_colour else 0.0

    def fixed_count(self, image: Tensor) -> int:
        """K, the number of planes without gradient of an image (…, C, H, W)."""
        return int(image.shape[-3]) + (2 if self.unit else 0) if self.sees_colour else 0

    def coordinates(self, image: Tensor) -> tuple[int, int]:
        """First and end of the planes that are pixel coordinates."""
        count = self.fixed_count(image)
        return (count - 2, count) if self.unit else (0, 0)

    def of_features(self, features: Tensor) -> Tensor:
        """The features that are compared, (…, m, P), of features (…, d, P)."""
        return features if self.compared is None else features[..., : self.compared, :]

    def colours(self, image: Tensor, kernels: Kernels) -> Tensor:
        """Colours as planes (C, H·W) float32, Lab for colour images; none where features alone decide."""
        if self.sees_colour:
            return kernels.colours(image)
        return torch.empty((0, int(image.shape[1]) * int(image.shape[2])), device=image.device)

    @torch.no_grad()
    def scale(self) -> Tensor | float:
        """Of the features, such that a variance floor of 10 suits them as it suits Lab: 10 √w, or 100 where they alone decide."""
        return WEIGHT_SCALE if self.value is None else UNIT * torch.as_tensor(self.weight).to(torch.float32).sqrt()


@dataclass(frozen=True)
class PerPatch:
    """As many regions as the image has square patches of this side, cut-off ones included, as in timm's models."""

    patch: int

    def count(self, shape: tuple[int, int]) -> int:
        """Regions of an image of height and width `shape`."""
        return math.ceil(shape[0] / self.patch) * math.ceil(shape[1] / self.patch)


TokenBudget = Budget | PerPatch


def budget_for(budget: TokenBudget, shape: tuple[int, int]) -> Budget:
    """The budget of images of height and width `shape`; refuses an exact count that they do not have pixels for."""
    if isinstance(budget, PerPatch):
        return Exactly(budget.count(shape))
    if isinstance(budget, Exactly) and budget.count > shape[0] * shape[1]:
        size = f"{shape[0]}×{shape[1]}"
        raise ValueError(f"an image of {size} pixels cannot have {budget.count} regions; ask for {shape[0] * shape[1]} or fewer")
    return budget


class CutRule(NamedTuple):
    """A merge rule and its plain numbers, made once: torch.compile cannot read enumerations."""

    rule: MergeRule
    numbers: tuple[float, ...]
    prunable: bool

    @classmethod
    def of(cls, rule: MergeRule) -> "CutRule":
        """The same rule."""
        return cls(rule, tuple(float(number) for number in rule), rule.prunable)

    def at(self, precision: Tensor | float, plane_unit: float) -> "CutRule":
        """The rule with π of the learned κ, if it is weighted; see `Distance.plane_unit`."""
        if not self.rule.weighted:
            return self
        value = precision if isinstance(precision, float) else float(precision.detach())
        return CutRule.of(self.rule._replace(precision=value / plane_unit**2))


def cut_rule(tree: TreeOptions, picks: str, kernel: str) -> CutRule:
    """How the tree of a tokenizer grows. picks: what similarities are evaluated on, see `Options`; kernel: the learned κ."""
    if picks not in PICKS:
        raise ValueError(f"picks are on one of {', '.join(PICKS)}, got {picks!r}; choose one of these")
    name = Cost(tree.rule.cost).name.lower()
    if picks == "weighted" and name != kernel:
        raise ValueError(f'picks="weighted" needs a tree that grows by the κ of the aggregation, {kernel}, got {name}; use one κ')
    return CutRule.of(tree.rule._replace(weighted=picks == "weighted"))


@dataclass(frozen=True, eq=False)
class Cuts:
    """The partition of a batch; for gradients also the fixed planes that decided it, and the levels of the trees."""

    partition: Partition
    count: int  # N, tokens per image
    full: bool  # whether every image has N regions
    whole: bool  # whether every region is a node of its tree
    fixed: Tensor | None = None  # (B, K, P), in distances
    levels: Tensor | None = None  # (B, 4, L) int32, see `ExactCut`

    def __repr__(self) -> str:
        return f"Cuts({self.partition!r})"


def cuts_of_partition(partition: Partition) -> Cuts:
    """The cuts of a partition that was not cut from a tree."""
    return Cuts(partition, *partition.rows, False)


@torch.no_grad()
def cut_exactly(
    images: Tensor, features: Tensor, distance: Distance, count: int, rule: CutRule, *, levels: bool, backend: str
) -> Cuts:
    """The cut of images (B, C, H, W) with features (B, d, P) into exactly min(count, P) regions each: one operator."""
    learned = distance.of_features(features).detach().to(torch.float32)
    scale = scalar(distance.scale(), learned)
    labels, fixed, kept = operators.cut_exactly(
        images, learned, scale, count, distance.sees_colour, distance.unit, rule.numbers, levels, backend
    )
    tokens = min(count, int(images.shape[2] * images.shape[3]))
    return Cuts(Partition(labels), tokens, True, True, *((fixed, kept) if levels else (None, None)))


@torch.no_grad()
def cut_batch(
    images: Tensor,
    features: Tensor,
    distance: Distance,
    budget: Budget,
    rule: CutRule,
    *,
    precision: Tensor | float,
    levels: bool,
    backend: str,
) -> Cuts:
    """The cut of images (B, C, H, W) with features (B, d, P) under any budget: of levels alone, or by way of whole trees.

    precision: π of the learned κ, for weighted rules; it travels to the host with the images.
    """
    learned = distance.of_features(features).detach().to(torch.float32)
    batch, shape, pixels = len(images), (int(images.shape[2]), int(images.shape[3])), learned.shape[2]
    rows: tuple[int, bool] = (0, True)
    choice = choice_of(budget)
    channels = learned.shape[1] + distance.fixed_count(images)
    backend = cutting(backend, images.device, beyond(channels, pixels) if choice is not None else ONE_BY_ONE)

    def of_batch(images: Tensor, learned: Tensor, scale: Tensor, precision: Tensor) -> list[Tensor]:
        nonlocal rows
        grown = rule.at(precision, distance.plane_unit).rule
        kernels, places = kernels_for(backend, learned.device), distance.coordinates(images)
        if choice is not None:
            made = kernels.choose_batch(images, learned, scale, choice, distance.sees_colour, distance.unit, grown, levels)
            rows = Partition(made.labels).rows
            return [*made] if levels else [made.labels]
        fixed = learned.new_empty((batch, distance.fixed_count(images), pixels)) if levels else None
        kept = learned.new_empty((batch, 4, 2 * pixels + MOST_LEVELS), dtype=torch.int32) if levels else None

        def of_image(number: int) -> Tensor:
            seen = distance.colours(images[number], kernels)
            part = None if fixed is None else fixed[number]
            planes = kernels.distance_planes(seen, learned[number], shape, distance.unit, scale, part)
            tree = hierarchy_of_planes(planes, shape, grown, coordinates=places, picks=levels, backend=backend)
            if kept is not None:
                kernels.tree_levels(tree.tree, kept[number])
            return cut_labels(tree, budget)

        labels = torch.stack(each(of_image, range(batch)))
        rows = Partition(labels).rows
        return [one for one in (labels, fixed, kept) if one is not None]

    labels, *more = on_host(of_batch, (images, learned, scalar(distance.scale(), learned), scalar(precision, learned)), backend)
    return Cuts(Partition.known(labels, rows), *rows, is_whole(budget), *more)


def cut(
    images: Tensor,
    features: Tensor,
    distance: Distance,
    budget: Budget,
    rule: CutRule,
    *,
    precision: Tensor | float,
    levels: bool,
    backend: str,
) -> Cuts:
    """The cut of a batch by the fastest way that supports the budget; levels: for aggregation, see `Cuts`; precision: π."""
    if isinstance(budget, Exactly) and (rule.prunable or not levels):
        known = rule.at(precision, distance.plane_unit)
        return cut_exactly(images, features, distance, budget.count, known, levels=levels, backend=backend)
    # Not traceable: the number of regions depends on the images.
    uncompiled: Any = torch.compiler.disable(cut_batch)  # type: ignore[no-untyped-call]
    found: Cuts = uncompiled(images, features, distance, budget, rule, precision=precision, levels=levels, backend=backend)
    return found
