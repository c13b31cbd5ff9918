"""The cut of a batch: its partition, and what the gradients of its regions need."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pixtree.kernels import kernels_for, operators
from pixtree.kernels.tree import MOST_LEVELS, MergeRule
from pixtree.runtime.threads import each
from pixtree.runtime.transfer import on_host, scalar
from pixtree.tokenizer.distance import Distance
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.cuts import Budget, Exactly, cut_labels, is_whole
from pixtree.trees.partition import Partition


class CutRule(NamedTuple):
    """A merge rule with what the operator needs of it, made once: compilers cannot read enumerations."""

    rule: MergeRule
    numbers: tuple[float, ...]
    prunable: bool

    @classmethod
    def of(cls, rule: MergeRule) -> "CutRule":
        """The same rule."""
        return cls(rule, tuple(float(number) for number in rule), rule.prunable)


@dataclass(frozen=True, eq=False)
class Cuts:
    """The partition of a batch; for gradients also the fixed planes that decided it, and the levels of the trees."""

    partition: Partition
    count: int  # N, rows per image
    full: bool  # whether every image has N regions
    whole: bool  # whether every region is a node of its tree
    fixed: Tensor | None = None  # (B, K, P), in distances
    levels: Tensor | None = None  # (B, 4, L) int32, see `ExactCut`

    def __repr__(self) -> str:
        return f"Cuts({self.partition!r})"


def cuts_of_partition(partition: Partition) -> Cuts:
    """A partition that no tree made."""
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
    rows = min(count, int(images.shape[2] * images.shape[3]))
    return Cuts(Partition(labels), rows, True, True, *((fixed, kept) if levels else (None, None)))


@torch.no_grad()
def cut_batch(
    images: Tensor, features: Tensor, distance: Distance, budget: Budget, rule: CutRule, *, levels: bool, backend: str
) -> Cuts:
    """The cut of images (B, C, H, W) with features (B, d, P) under any budget, by way of whole trees."""
    learned = distance.of_features(features).detach().to(torch.float32)
    batch, shape, pixels = len(images), (int(images.shape[2]), int(images.shape[3])), learned.shape[2]
    rows: tuple[int, bool] = (0, True)

    def of_batch(images: Tensor, learned: Tensor, scale: Tensor) -> list[Tensor]:
        nonlocal rows
        kernels, places = kernels_for(backend, learned.device), distance.coordinates(images)
        fixed = learned.new_empty((batch, distance.fixed_count(images), pixels)) if levels else None
        kept = learned.new_empty((batch, 4, 2 * pixels + MOST_LEVELS), dtype=torch.int32) if levels else None

        def of_image(number: int) -> Tensor:
            seen = distance.colours(images[number], kernels)
            part = None if fixed is None else fixed[number]
            planes = kernels.distance_planes(seen, learned[number], shape, distance.unit, scale, part)
            tree = hierarchy_of_planes(planes, shape, rule.rule, coordinates=places, picks=levels, backend=backend)
            if kept is not None:
                kernels.tree_levels(tree.tree, kept[number])
            return cut_labels(tree, budget)

        labels = torch.stack(each(of_image, range(batch)))
        rows = Partition(labels).rows
        return [one for one in (labels, fixed, kept) if one is not None]

    labels, *more = on_host(of_batch, (images, learned, scalar(distance.scale(), learned)), backend)
    return Cuts(Partition.known(labels, rows), *rows, is_whole(budget), *more)


def cut(images: Tensor, features: Tensor, distance: Distance, budget: Budget, rule: CutRule, *, levels: bool, backend: str) -> Cuts:
    """The cut of a batch, by the shortest way that gives what is asked for; levels: for aggregation, see `Cuts`."""
    if isinstance(budget, Exactly) and (rule.prunable or not levels):
        return cut_exactly(images, features, distance, budget.count, rule, levels=levels, backend=backend)
    # No compiler can look into it: how many regions come out depends on the pictures.
    uncompiled: Any = torch.compiler.disable(cut_batch)  # type: ignore[no-untyped-call]
    found: Cuts = uncompiled(images, features, distance, budget, rule, levels=levels, backend=backend)
    return found
