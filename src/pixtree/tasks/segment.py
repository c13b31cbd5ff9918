"""Superpixels and trees of any image: the front door of the library."""

import operator
from dataclasses import fields

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import Image, checked, checked_mask
from pixtree.trees.batch import partition_images
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly, budget_of
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition
from pixtree.trees.similarity import Similarity, named

_DEFAULTS = TreeOptions()


def hierarchy(
    image: Image,
    *,
    similarity: Similarity | str = _DEFAULTS.similarity,
    compactness: float = _DEFAULTS.compactness,
    energy: str = _DEFAULTS.energy,
    floor: float = _DEFAULTS.floor,
    mask: NDArray[np.generic] | Tensor | None = None,
    channel_axis: int | None = -1,
    backend: str = "auto",
) -> Hierarchy:
    """The tree of regions of one image; see `Hierarchy` for what can be asked of it.

    similarity: "likelihood" (default), "ward", or the paper's "gaussian", "cosine", "tanimoto".
    compactness: weight of pixel coordinates; 0.1 makes one pixel count as much as one Lab unit.
    energy, floor: what nested cuts minimise, and the variance below which a region counts as flat, in squared Lab units.
    mask: (H, W); pixels outside belong to no region.
    """
    picture = checked(image, channel_axis=channel_axis)
    if picture.ndim != 3:
        raise ValueError(f"a tree belongs to one image (C, H, W), got shape {tuple(picture.shape)}; loop over the batch")
    inside = checked_mask(mask, (picture.shape[1], picture.shape[2]))
    return hierarchy_of_image(picture, TreeOptions(similarity, compactness, energy, floor), mask=inside, backend=backend)


def segment(
    image: Image,
    tokens: int | None = None,
    *,
    criterion: str | Criterion | None = None,
    at_most: int | None = None,
    level: int | None = None,
    budget: Budget | None = None,
    partitioner: str | None = None,
    relax: bool = False,
    mask: NDArray[np.generic] | Tensor | None = None,
    start_label: int = 0,
    channel_axis: int | None = -1,
    similarity: Similarity | str = _DEFAULTS.similarity,
    compactness: float = _DEFAULTS.compactness,
    energy: str = _DEFAULTS.energy,
    floor: float = _DEFAULTS.floor,
    backend: str = "auto",
) -> NDArray[np.int32] | Tensor:
    """Labels (H, W) int32 of the regions of an image: `segment(photo, tokens=200)` has exactly 200, each 4-connected.

    Ask for one of `tokens` (that many), `criterion` ("aic", "aicc", "bic", "cic": as many as it takes), `at_most` (the criterion's
    cut, but no more), `level` (the paper's π_t), or any `budget`. `relax` polishes boundaries; the result is then no longer nested
    in the count. Pixels outside `mask` get start_label − 1. Tensors (C, H, W) or (B, C, H, W) give tensors, all else arrays.
    `partitioner` names another engine ("slic", "grid", ...), which takes `tokens` alone. All other options are `hierarchy`'s.
    """
    wanted = budget_of(tokens=tokens, criterion=criterion, at_most=at_most, level=level, budget=budget)
    pictures = checked(image, channel_axis=channel_axis)
    inside = checked_mask(mask, (pictures.shape[-2], pictures.shape[-1]))
    batch = pictures if pictures.ndim == 4 else pictures[None]
    options = TreeOptions(named(similarity), compactness, energy, floor)
    if partitioner is not None:
        changed = [name for name, value in (("mask", inside), ("relax", relax or None)) if value is not None]
        part = _other_engine(partitioner, batch, wanted, options, [*changed, *(["backend"] if backend != "auto" else [])])
    else:
        part = partition_images(batch, wanted, options, mask=inside, relax=relax, backend=backend)
    labels = part.labels + operator.index(start_label)
    labels = labels if pictures.ndim == 4 else labels[0]
    return labels if isinstance(image, Tensor) else labels.numpy()


def _other_engine(name: str, batch: Tensor, budget: Budget, options: TreeOptions, changed: list[str]) -> Partition:
    """The partition of another engine, which knows counts only: whatever else was asked of the tree is refused."""
    from pixtree.partitioners import partitioner

    unusual = [one.name for one in fields(options) if getattr(options, one.name) != getattr(_DEFAULTS, one.name)]
    if not isinstance(budget, Exactly) or unusual or changed:
        given = ", ".join([*unusual, *changed]) or type(budget).__name__
        raise ValueError(f"partitioner={name!r} takes tokens= only, got {given} as well; leave it out")
    return partitioner(name, budget.count)(batch)
