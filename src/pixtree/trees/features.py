"""Features of the tree of an image: colours, and pixel coordinates if regions shall be compact."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.image.planes import UNIT


def coordinate_unit(compactness: float) -> float:
    """Lab units that one pixel of distance counts: 10 s, as s is given per 10 Lab units; 0 leaves coordinates out."""
    if not (math.isfinite(compactness) and compactness >= 0):
        raise ValueError(f"compactness must be a number from 0 up, got {compactness}; 0 is off, 0.1 suits square-ish tokens")
    return UNIT * compactness


class Planes(NamedTuple):
    """What the tree of an image sees."""

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
