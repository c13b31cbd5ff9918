"""Images and features to Hierarchy."""

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.image.planes import checked_planes
from pixtree.kernels.tree import ExactCut, MergeRule, Place
from pixtree.trees.features import image_planes
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import TreeOptions


def hierarchy_of_planes(
    features: Tensor,
    shape: tuple[int, int],
    rule: MergeRule = TreeOptions().rule,
    *,
    mask: Tensor | None = None,
    coordinates: tuple[int, int] = (0, 0),
    picks: bool = False,
    place: Place | None = None,
    backend: str = "auto",
) -> Hierarchy:
    """The tree of one image from its features, planes (C, H·W) in raster order; decisions run in float32 without gradient.

    mask (H, W) bool: pixels outside belong to no region.
    coordinates: first and end of the planes that are pixel coordinates, which criteria leave out.
    picks: keep which region every absorbed one had picked, for the paper's weighted aggregation.
    place: where the image lies in a larger one, see `Place`.
    """
    kernels = kernels_for(backend, features.device)
    planes = checked_planes(features, shape, rule.floor, kernels.all_within)
    inside = torch.ones(shape, dtype=torch.bool, device=planes.device) if mask is None else mask.to(planes.device)
    if inside.dtype != torch.bool or tuple(inside.shape) != tuple(shape) or not bool(inside.any()):
        raise ValueError(
            f"a mask must be bool, of shape {shape}, with a pixel inside, got {inside.dtype} {tuple(inside.shape)}; check it"
        )
    if mask is not None:
        planes = planes[:, inside.flatten()].contiguous()
    tree = kernels.build(planes, inside, rule, picks, place)
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
    features: Tensor, shape: tuple[int, int], count: int, rule: MergeRule = TreeOptions().rule, backend: str = "auto"
) -> ExactCut:
    """The cut with exactly min(count, H·W) regions of the tree that `hierarchy_of_planes` gives, mostly without making it."""
    kernels = kernels_for(backend, features.device)
    planes = checked_planes(features, shape, rule.floor, kernels.all_within)
    return kernels.exact_cut(planes, shape, rule, min(count, planes.shape[1]))
