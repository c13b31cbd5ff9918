"""Growing the regions of a drawing from colour planes, pixel weights and the small regions of the pixel tree."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.runtime.jit import kernel
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.options import TreeOptions, Ward
from pixtree.vector.regions.merging import Agglomeration, agglomerate

Array = NDArray[Any]
CELLS_PER_REGION = 64  # of the small regions from which agglomeration starts
SMALL_PER_PATH = 3  # but at least this many small regions for every path asked for
FLAT_VARIANCE = 58.0  # grey levels²: below it an error is seen, far above it texture hides it
WINDOW = 7


def pixel_weights(planes: Tensor, exponent: float = 0.5) -> Tensor:
    """How much errors matter at each pixel, (H, W) float32 with mean 1: (58 / (v + 58))^γ, v the variance of its surroundings.

    planes: (3, H, W) float32 in 0…255. The eye, and SSIM, forgive in texture what they see in the sky.
    """
    variance = torch.from_numpy(local_variance(planes.numpy(), WINDOW // 2))
    weight = (FLAT_VARIANCE / (variance + FLAT_VARIANCE)) ** exponent
    return weight / weight.mean()


@kernel
def local_variance(planes: Array, reach: int) -> Array:
    """Mean over channels of the variance in a square window around every pixel, (H, W) float32; O(pixels)."""
    channels, height, width = planes.shape
    variance = np.zeros((height, width), np.float32)
    for c in range(channels):
        sums, squares = np.zeros(width), np.zeros(width)  # of each column, over the rows of the window
        for row in range(-reach, height):
            if row + reach < height:
                for x in range(width):
                    value = float(planes[c, row + reach, x])
                    sums[x] += value
                    squares[x] += value * value
            if row - reach - 1 >= 0:
                for x in range(width):
                    value = float(planes[c, row - reach - 1, x])
                    sums[x] -= value
                    squares[x] -= value * value
            if row < 0:
                continue
            rows = min(row + reach + 1, height) - max(row - reach, 0)
            total, total_squares = 0.0, 0.0
            for x in range(-reach, width):
                if x + reach < width:
                    total += sums[x + reach]
                    total_squares += squares[x + reach]
                if x - reach - 1 >= 0:
                    total -= sums[x - reach - 1]
                    total_squares -= squares[x - reach - 1]
                if x >= 0:
                    count = rows * (min(x + reach + 1, width) - max(x - reach, 0))
                    mean = total / count
                    variance[row, x] += max(total_squares / count - mean * mean, 0.0) / channels
    return variance


def grow_regions(planes: Tensor, *, most: int, cells: int = 2, weights: Tensor | None = None) -> Agglomeration:
    """Nested regions of an image for every count up to about `most`; planes (C, H, W) float32 in 0…255.

    cells: per pixel and axis, of the grid on which boundaries will be found; coarser ones start from fewer, larger regions.
    """
    height, width = int(planes.shape[1]), int(planes.shape[2])
    rule = TreeOptions(similarity=Ward(), energy="squared_error").rule
    tree = hierarchy_of_planes(planes.flatten(1), (height, width), rule)
    small = min(max(tree.leaves * cells**2 // CELLS_PER_REGION, SMALL_PER_PATH * most, tree.pieces), tree.leaves)
    base: NDArray[np.int32] = tree.cut(small).numpy()
    weight = pixel_weights(planes) if weights is None else weights
    colours: NDArray[Any] = planes.numpy()
    return agglomerate(base, colours, weight.numpy())
