"""The cut of a batch: its partition, and what the gradients of its regions need."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pixtree.kernels import kernels_for, operators
from pixtree.kernels.types import MergeRule
from pixtree.runtime.threads import each
from pixtree.tokenizer.ancestry import Ancestry, ancestry_of
from pixtree.tokenizer.distance import Distance
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.cuts import Budget, Exactly, cut_tree
from pixtree.trees.partition import Partition


@dataclass(frozen=True, eq=False)
class Cuts:
    """The partition of a batch; for gradients also the fixed planes that decided it, and how its regions came about.

    Levels serve the default aggregation of regions that are whole nodes, an ancestry all others; neither is there otherwise.
    """

    partition: Partition
    count: int  # N, rows per image
    full: bool  # whether every image has N regions
    fixed: Tensor | None = None  # (B, K, P), in distances
    levels: Tensor | None = None  # (B, 4, L) int32, see `ExactCut`
    ancestry: Ancestry | None = None


def cuts_of_partition(partition: Partition) -> Cuts:
    """A partition that no tree made."""
    counts = partition.counts
    count = int(counts.max())
    return Cuts(partition, count, bool((counts == count).all()))


@torch.no_grad()
def cut_exactly(
    images: Tensor, features: Tensor, distance: Distance, count: int, rule: MergeRule, *, levels: bool, backend: str
) -> Cuts:
    """The cut of images (B, C, H, W) with features (B, d, P) into exactly min(count, P) regions each: one operator."""
    numbers = [float(number) for number in rule]
    scale = torch.as_tensor(distance.scale(), dtype=torch.float32)
    labels, fixed, kept = operators.cut_exactly(
        images, features.to(torch.float32), scale, count, distance.sees_colour, distance.unit, numbers, levels, backend
    )
    rows = min(count, int(images.shape[2] * images.shape[3]))
    return Cuts(Partition(labels), rows, True, *((fixed, kept) if levels else (None, None)))


@torch.no_grad()
def cut_batch(
    images: Tensor, features: Tensor, distance: Distance, budget: Budget, rule: MergeRule, *, ancestry: bool, backend: str
) -> Cuts:
    """The cut of images (B, C, H, W) with features (B, d, P) under any budget; an ancestry if that is asked for."""
    kernels, scale, learned = kernels_for(backend, features.device), distance.scale(), features.to(torch.float32)
    shape = (int(images.shape[2]), int(images.shape[3]))
    fixed = learned.new_empty((len(images), distance.fixed_count(images), learned.shape[2])) if ancestry else None

    def of_image(number: int) -> tuple[Tensor, Ancestry | None]:
        seen = distance.colours(images[number], kernels)
        part = None if fixed is None else fixed[number]
        planes = kernels.distance_planes(seen, learned[number], shape, distance.unit, scale, part)
        tree = hierarchy_of_planes(planes, shape, rule, picks=ancestry, backend=backend)
        found = cut_tree(tree, budget)
        return found.labels, ancestry_of(tree, found) if ancestry else None

    labels, traced = zip(*each(of_image, range(len(images))), strict=True)
    found = cuts_of_partition(Partition(torch.stack(labels)))
    if fixed is None:
        return found
    stacked = Ancestry.stack([one for one in traced if one is not None], found.count)
    return Cuts(found.partition, found.count, found.full, fixed, None, stacked)


def cut(
    images: Tensor,
    features: Tensor,
    distance: Distance,
    budget: Budget,
    rule: MergeRule,
    *,
    levels: bool,
    ancestry: bool,
    backend: str,
) -> Cuts:
    """The cut of a batch, by the shortest way that gives what is asked for."""
    if isinstance(budget, Exactly) and not ancestry:
        return cut_exactly(images, features, distance, budget.count, rule, levels=levels, backend=backend)
    # No compiler can look into it: how many regions come out depends on the pictures.
    uncompiled: Any = torch.compiler.disable(cut_batch)  # type: ignore[no-untyped-call]
    found: Cuts = uncompiled(images, features, distance, budget, rule, ancestry=ancestry, backend=backend)
    if not levels:
        return found
    whole = cut_exactly(images, features, distance, 1, rule, levels=True, backend=backend)  # levels are the same for every cut
    return Cuts(found.partition, found.count, found.full, whole.fixed, whole.levels)
