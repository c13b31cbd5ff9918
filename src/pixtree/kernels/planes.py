"""Feature planes as kernels take them: checked once, then trusted."""

import torch
from torch import Tensor

from pixtree.kernels.definitions import Kernels

# The product of three variances over the floor must stay below the largest float32.
LARGEST_VARIANCE_RATIO = 1e12


def checked_planes(features: Tensor, shape: tuple[int, int], floor: float, kernels: Kernels) -> Tensor:
    """Features (C, H·W) as contiguous float32 planes without gradient, or an error that says what is wrong with them."""
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
