"""Features that decide trees: colours, coordinates and learned planes, in float32 and without gradient."""

import torch
from torch import Tensor

from pixtree.kernels.image.colour.definition import in_bytes, lab, lightness
from pixtree.kernels.image.planes import LARGEST, UNIT


def all_within(values: Tensor, limit: float) -> bool:
    """Whether all values are numbers of at most that magnitude."""
    return bool((values.abs() <= limit).all())


def colours(image: Tensor) -> Tensor:
    """Planes (C, H·W) float32 of an image (C, H, W), uint8 or float 0..1: Lab of three channels, L of one, values × 100 of others.

    So one variance floor suits all.
    """
    channels = image.shape[0]
    if channels == 3:
        return lab(image)
    if channels == 1:
        return lightness(image)
    return (in_bytes(image).to(torch.float32) * (100.0 / 255.0)).flatten(1)


def coordinates(shape: tuple[int, int], unit: float, device: torch.device | None = None) -> Tensor:
    """unit · (row, column) of every pixel, planes (2, H·W) float32."""
    height, width = shape
    rows = torch.arange(height, dtype=torch.float32, device=device)[:, None].expand(shape)
    columns = torch.arange(width, dtype=torch.float32, device=device).expand(shape)
    return torch.stack((rows, columns)).flatten(1) * unit


def distance_planes(
    colours: Tensor, features: Tensor, shape: tuple[int, int], unit: float, scale: Tensor | float, fixed: Tensor | None = None
) -> Tensor:
    """Planes (K + d, H·W): colours (C, H·W), unit · (row, column) unless unit is 0, and scale · features (d, H·W), clamped.

    fixed (K, H·W), if given, is filled with the first K planes over `UNIT`, as distances have them.
    """
    placed = colours if unit == 0 else torch.cat((colours, coordinates(shape, unit, colours.device)))
    if fixed is not None:
        torch.div(placed, UNIT, out=fixed)
    return torch.cat((placed, (features * scale).clamp(-LARGEST, LARGEST)))
