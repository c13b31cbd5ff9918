"""What the tree sees: Lab for three channels, L for one, values × 100 otherwise, so that one variance floor suits all."""

import math
from types import ModuleType

import torch
from torch import Tensor

# Lab differences of 10 count as 1 in the tokenizer's distance ‖ΔLab‖²/100 + s²‖Δ(y, x)‖², so s is given per 10 Lab units.
LAB_UNITS_PER_COMPACTNESS = 10.0


def colour_features(image: Tensor, kernels: ModuleType) -> Tensor:
    """Planes (C, H·W) float32 of an image (C, H, W), uint8 or float 0..1."""
    channels = image.shape[0]
    if channels == 3:
        return kernels.lab(image)  # type: ignore[no-any-return]
    if channels == 1:
        return kernels.lightness(image)  # type: ignore[no-any-return]
    scale = 100.0 / 255.0 if image.dtype == torch.uint8 else 100.0
    return (image.to(torch.float32) * scale).flatten(1)


def with_coordinates(features: Tensor, shape: tuple[int, int], compactness: float) -> Tensor:
    """Feature planes (C, H·W) with 10·s·(row, column) appended: s = 0.1 makes one pixel count as much as one Lab unit."""
    if not (math.isfinite(compactness) and compactness >= 0):
        raise ValueError(f"compactness must be a number from 0 up, got {compactness}; 0 is off, 0.1 suits square-ish tokens")
    if compactness == 0:
        return features
    height, width = shape
    weight = LAB_UNITS_PER_COMPACTNESS * compactness
    rows = torch.arange(height, dtype=torch.float32, device=features.device).repeat_interleave(width)
    columns = torch.arange(width, dtype=torch.float32, device=features.device).repeat(height)
    return torch.cat((features, torch.stack((rows, columns)) * weight))
