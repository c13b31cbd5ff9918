"""Feature planes, which decide trees: colours, coordinates and learned features, checked once and then trusted."""

from collections.abc import Callable

import torch
from torch import Tensor

LARGEST = 1e6  # of learned features, far inside the range of float32 statistics
UNIT = 10.0  # Lab units that count as a distance of 1
# The product of three variances over the floor must stay below the largest float32.
LARGEST_VARIANCE_RATIO = 1e12


def checked_planes(features: Tensor, shape: tuple[int, int], floor: float, all_within: Callable[[Tensor, float], bool]) -> Tensor:
    """Features (C, H·W) as contiguous float32 planes without gradient; refuses wrong shapes and values out of range.

    all_within: the kernel of that name, for the backend that will read the planes.
    """
    if features.ndim != 2 or features.shape[1] != shape[0] * shape[1] or 0 in features.shape:
        raise ValueError(
            f"features must be planes (C, H·W) with H·W = {shape[0] * shape[1]}, got {tuple(features.shape)}; use image.flatten(1)"
        )
    planes = features.detach().to(torch.float32).contiguous()
    if not all_within(planes, (LARGEST_VARIANCE_RATIO * floor) ** 0.5):
        lowest, highest = (float(value) for value in torch.aminmax(planes))
        raise ValueError(
            f"features must be finite and their squares at most {LARGEST_VARIANCE_RATIO:.0e} variance floors, got {lowest} "
            f"to {highest} with floor {floor}; remove NaN and Inf, or scale the features down"
        )
    return planes
