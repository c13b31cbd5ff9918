"""Features that decide trees, in numba.

Not in torch, whose operators would start threads in each of ours, which then spin.
"""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.image.colour.compiled import lab
from pixtree.kernels.image.planes import LARGEST, UNIT, definition
from pixtree.runtime.jit import kernel


def colours(image: Tensor) -> Tensor:
    """Planes (C, H·W) float32 of an image (C, H, W), uint8 or float 0..1; see the definition."""
    return lab(image) if image.shape[0] == 3 else definition.colours(image)


def distance_planes(
    colours: Tensor, features: Tensor, shape: tuple[int, int], unit: float, scale: Tensor | float, fixed: Tensor | None = None
) -> Tensor:
    """Colours, coordinates and learned features as planes; see the definition."""
    if not unit and not features.shape[0] and fixed is None:
        return colours
    count = colours.shape[0] + (2 if unit else 0)
    planes = torch.empty((count + features.shape[0], features.shape[1]))
    factors = np.float32(unit), np.float32(float(scale))
    fill_planes(colours.contiguous().numpy(), features.contiguous().numpy(), shape[1], *factors, count, planes.numpy())
    if fixed is not None:
        np.divide(planes[:count].numpy(), np.float32(UNIT), out=fixed.numpy())
    return planes


@kernel
def fill_planes(colours, features, width, unit, scale, count, planes):
    """The same in one pass: colours (C, P), unit · (y, x) if count > C, and clamped scale · features (d, P)."""
    channels, pixels = colours.shape
    largest = np.float32(LARGEST)
    for c in range(channels):
        for p in range(pixels):
            planes[c, p] = colours[c, p]
    if count > channels:
        for y in range(pixels // width):
            rows, columns = planes[channels, y * width : (y + 1) * width], planes[channels + 1, y * width : (y + 1) * width]
            for x in range(width):
                rows[x] = unit * np.float32(y)
            for x in range(width):
                columns[x] = unit * np.float32(np.int32(x))
    for c in range(features.shape[0]):
        for p in range(pixels):
            value = scale * features[c, p]
            value = largest if value > largest else value  # NaN is kept, for the check that follows
            planes[count + c, p] = -largest if value < -largest else value


@kernel
def count_within(values, limit):
    """Number of values (C, N) of at most that magnitude; NaN is none."""
    found = 0
    for c in range(values.shape[0]):
        row, inside = values[c], 0
        for i in range(row.size):
            inside += 1 if abs(row[i]) <= limit else 0
        found += inside
    return found


def all_within(values: Tensor, limit: float) -> bool:
    """Whether all values (C, N) float32 are numbers of at most that magnitude."""
    return bool(count_within(values.contiguous().numpy(), np.float32(limit)) == values.numel())
