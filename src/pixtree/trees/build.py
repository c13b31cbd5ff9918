"""From images and features to trees, and to the partitions of whole batches."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.image.planes import checked_planes
from pixtree.kernels.tree import ExactCut, MergeRule, Place
from pixtree.kernels.tree.zones import Zones
from pixtree.runtime.threads import each
from pixtree.trees.cuts import Budget, Exactly, Relax, block_counts, checked_count, choice_of, cut, detailed, relaxed
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import TreeOptions, coordinate_unit
from pixtree.trees.partition import Partition


class Planes(NamedTuple):
    """The features of an image that its tree is built from."""

    values: Tensor  # (C', H·W) float32
    shape: tuple[int, int]
    coordinates: tuple[int, int]  # first and end of the planes that are pixel coordinates


def image_planes(image: Tensor, compactness: float, backend: str = "auto") -> Planes:
    """The planes of a checked image (C, H, W): its colours, then its coordinates if compactness is above 0."""
    kernels, unit = kernels_for(backend, image.device), coordinate_unit(compactness)
    shape = (int(image.shape[1]), int(image.shape[2]))
    colours = kernels.colours(image)
    if not unit:
        return Planes(colours, shape, (0, 0))
    count = int(colours.shape[0])
    return Planes(torch.cat((colours, kernels.coordinates(shape, unit, image.device))), shape, (count, count + 2))


def hierarchy_of_planes(
    features: Tensor,
    shape: tuple[int, int],
    rule: MergeRule = TreeOptions().rule,
    *,
    mask: Tensor | None = None,
    coordinates: tuple[int, int] = (0, 0),
    picks: bool = False,
    place: Place | None = None,
    zones: Zones | None = None,
    backend: str = "auto",
) -> Hierarchy:
    """The tree of one image from its features, planes (C, H·W) in raster order; decisions run in float32 without gradient.

    mask (H, W) bool: pixels outside belong to no region.
    coordinates: first and end of the planes that are pixel coordinates, which criteria leave out.
    picks: keep which region every absorbed one had picked, for the paper's weighted aggregation.
    place: where the image lies in a larger one, see `Place`; zones: the flat zones of the larger one inside this one.
    """
    kernels = kernels_for(backend, features.device)
    planes = checked_planes(features, shape, rule.floor, kernels.all_within)
    inside = torch.ones(shape, dtype=torch.bool, device=planes.device) if mask is None else mask.to(planes.device)
    if inside.dtype != torch.bool or tuple(inside.shape) != tuple(shape) or not bool(inside.any()):
        raise ValueError(f"a mask must be bool {shape} with a pixel inside, got {inside.dtype} {tuple(inside.shape)}; check it")
    if mask is not None:
        planes = planes[:, inside.flatten()].contiguous()
    tree = kernels.build(planes, inside, rule, picks, place, zones)
    return Hierarchy(
        shape=shape,
        features=planes,
        mask=None if mask is None else inside,
        rule=rule,
        coordinates=coordinates,
        backend=backend,
        **tree._asdict(),
    )


def hierarchy_of_image(
    image: Tensor,
    options: TreeOptions = TreeOptions(),
    *,
    mask: Tensor | None = None,
    picks: bool = False,
    backend: str = "auto",
) -> Hierarchy:
    """The tree of one checked image (C, H, W); arguments as in `hierarchy_of_planes`."""
    planes, shape, coordinates = image_planes(image, options.compactness, backend)
    return hierarchy_of_planes(planes, shape, options.rule, mask=mask, coordinates=coordinates, picks=picks, backend=backend)


def exact_cut_of_planes(
    features: Tensor,
    shape: tuple[int, int],
    count: int,
    rule: MergeRule = TreeOptions().rule,
    backend: str = "auto",
    coarser: Sequence[int] = (),
) -> ExactCut:
    """The cut with exactly min(count, H·W) regions of the tree of `hierarchy_of_planes`, mostly without building the whole tree.

    coarser: the counts of nested cuts to return as well.
    """
    kernels = kernels_for(backend, features.device)
    planes = checked_planes(features, shape, rule.floor, kernels.all_within)
    return kernels.exact_cut(planes, shape, rule, min(count, planes.shape[1]), coarser=coarser)


def partition_images(
    images: Tensor,
    budget: Budget,
    options: TreeOptions = TreeOptions(),
    *,
    mask: Tensor | None = None,
    relax: Relax = False,
    backend: str = "auto",
) -> Partition:
    """The partition of images (B, C, H, W) under one budget; `relax` polishes boundaries, see `cut`.

    Images run in threads (`PIXTREE_THREADS`), or all at once on a device; the result does not depend on it.
    """
    choice = choice_of(budget)
    if mask is None and not relax:
        pixels = int(images.shape[2] * images.shape[3])
        nothing, unit = images.new_empty((len(images), 0, pixels), dtype=torch.float32), coordinate_unit(options.compactness)
        kernels = kernels_for(backend, images.device)
        if isinstance(budget, Exactly):
            count = checked_count(budget.count, pixels)
            return Partition(kernels.cut_batch(images, nothing, 1.0, count, True, unit, options.rule, False).labels)
        if choice is not None:
            return Partition(kernels.choose_batch(images, nothing, 1.0, choice, True, unit, options.rule, False).labels)

    def labels_of(image: Tensor) -> Tensor:
        planes, shape, coordinates = image_planes(image, options.compactness, backend)
        if mask is not None or not isinstance(budget, Exactly):
            tree = hierarchy_of_planes(planes, shape, options.rule, mask=mask, coordinates=coordinates, backend=backend)
            return cut(tree, budget, relax=relax).labels[0]
        count = checked_count(budget.count, planes.shape[1])
        *coarser, finest = [count, *(block_counts(count, planes.shape[1]) if relax == "detail" else [])]
        found = exact_cut_of_planes(planes, shape, finest, options.rule, backend, coarser)
        labels, *blocks = (one.view(shape) for one in (*found.coarser, found.labels))
        features, kernels = planes.view(-1, *shape), kernels_for(backend, image.device)
        if relax == "detail":
            return detailed(labels, blocks, features, kernels, options.floor)
        return relaxed(labels, features, kernels, options.floor)

    found = each(labels_of, images.unbind())
    return Partition(found[0][None] if len(found) == 1 else torch.stack(found))
