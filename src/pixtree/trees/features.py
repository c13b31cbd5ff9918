"""What the tree of an image sees: colours, and coordinates where regions are to be compact."""

import math

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.reference.features import UNIT


def coordinate_unit(compactness: float) -> float:
    """Lab units that one pixel of distance counts: 10 s, as s is given per 10 Lab units; 0 leaves coordinates out."""
    if not (math.isfinite(compactness) and compactness >= 0):
        raise ValueError(f"compactness must be a number from 0 up, got {compactness}; 0 is off, 0.1 suits square-ish tokens")
    return UNIT * compactness


def image_planes(image: Tensor, compactness: float, backend: str = "auto") -> tuple[Tensor, tuple[int, int]]:
    """Planes (C', H·W) float32 of a checked image (C, H, W), and (H, W)."""
    kernels, unit = kernels_for(backend, image.device), coordinate_unit(compactness)
    shape = (int(image.shape[1]), int(image.shape[2]))
    colours = kernels.colours(image)
    return torch.cat((colours, kernels.coordinates(shape, unit, image.device))) if unit else colours, shape
