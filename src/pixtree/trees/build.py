"""Features to Hierarchy."""

from types import ModuleType

import torch
from torch import Tensor

from pixtree.kernels.types import ExactCut
from pixtree.runtime.backend import backend as choose_backend
from pixtree.trees.features import colour_features, with_coordinates
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.similarity import Likelihood, Similarity, merge_rule

# The product of three variances over the floor must stay below the largest float32.
LARGEST_VARIANCE_RATIO = 1e12


def hierarchy_of_features(
    features: Tensor,
    shape: tuple[int, int],
    *,
    mask: Tensor | None = None,
    similarity: Similarity | str = Likelihood(),
    energy: str = "likelihood",
    floor: float = 10.0,
    picks: bool = False,
    backend: str = "auto",
) -> Hierarchy:
    """The tree of one image from its features, planes (C, H·W) in raster order; decisions run in float32 without gradient.

    mask (H, W) bool: pixels outside belong to no region.
    energy: what a nested cut with n regions minimises, "likelihood" (n Σ log(1 + σ²/φ)) or "squared_error".
    floor: φ, a variance in squared feature units; it also regularises the likelihood cost.
    picks: keep which region every absorbed one had picked, for the paper's weighted aggregation.
    """
    rule = merge_rule(similarity, energy, floor)
    kernels = choose_backend(backend, features.device)
    planes = checked_features(features, shape, floor, kernels)
    inside = torch.ones(shape, dtype=torch.bool, device=planes.device) if mask is None else mask.to(planes.device)
    if inside.dtype != torch.bool or tuple(inside.shape) != tuple(shape) or not bool(inside.any()):
        raise ValueError(
            f"a mask must be bool, of shape {shape}, with a pixel inside, got {inside.dtype} {tuple(inside.shape)}; check it"
        )
    if mask is not None:
        planes = planes[:, inside.flatten()].contiguous()
    tree = kernels.build(planes, inside, rule, picks)
    return Hierarchy(
        shape=shape, features=planes, mask=None if mask is None else inside, rule=rule, backend=backend, **tree._asdict()
    )


def exact_cut_of_features(
    features: Tensor,
    shape: tuple[int, int],
    count: int,
    *,
    similarity: Similarity | str = Likelihood(),
    energy: str = "likelihood",
    floor: float = 10.0,
    levels: bool = False,
    backend: str = "auto",
) -> ExactCut:
    """The cut with exactly min(count, H·W) regions of the tree that `hierarchy_of_features` gives, mostly without making it."""
    rule = merge_rule(similarity, energy, floor)
    kernels = choose_backend(backend, features.device)
    planes = checked_features(features, shape, floor, kernels)
    found: ExactCut = kernels.exact_cut(planes, shape, rule, min(count, planes.shape[1]), levels)
    return found


def hierarchy_of_image(
    image: Tensor, *, compactness: float = 0.0, mask: Tensor | None = None, backend: str = "auto", **options: object
) -> Hierarchy:
    """The tree of one checked image (C, H, W); `options` are those of `hierarchy_of_features`."""
    features, shape = features_of_image(image, compactness, backend)
    return hierarchy_of_features(features, shape, mask=mask, backend=backend, **options)  # type: ignore[arg-type]


def features_of_image(image: Tensor, compactness: float, backend: str) -> tuple[Tensor, tuple[int, int]]:
    """What the tree of a checked image (C, H, W) sees, planes (C', H·W), and (H, W)."""
    shape = (int(image.shape[1]), int(image.shape[2]))
    return with_coordinates(colour_features(image, choose_backend(backend, image.device)), shape, compactness), shape


def checked_features(features: Tensor, shape: tuple[int, int], floor: float, kernels: ModuleType) -> Tensor:
    """Features as contiguous float32 planes without gradient, or an error that says what is wrong with them."""
    if features.ndim != 2 or features.shape[1] != shape[0] * shape[1] or 0 in features.shape:
        raise ValueError(
            f"features must be planes (C, H·W) with H·W = {shape[0] * shape[1]}, got {tuple(features.shape)}; use image.flatten(1)"
        )
    planes = features.detach().to(torch.float32).contiguous()
    if not kernels.all_within(planes, (LARGEST_VARIANCE_RATIO * floor) ** 0.5):
        lowest, highest = (float(value) for value in torch.aminmax(planes))
        raise ValueError(
            f"features must be finite and their squares at most {LARGEST_VARIANCE_RATIO:.0e} variance floors, got {lowest} "
            f"to {highest} with floor {floor}; remove NaN and Inf, or scale the features down"
        )
    return planes
