"""Anti-aliased artwork: blends at the edges of flat colours are no regions of their own.

A pixel whose colour lies between those of two opposite neighbours is a blend. For growing regions it takes the colour of the nearer
one; the blend itself still says, when arcs are placed, where the edge crosses it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import max_pool2d

from pixtree.runtime.jit import kernel

Array = NDArray[Any]
ROUNDS = 2  # edges up to about four pixels wide
SMALLEST_STEP = 24.0**2  # squared distance of the two neighbours, summed over channels
SMALLEST_ALPHA_STEP = 128.0
LARGEST_OFFSET = 0.15  # distance of a blend from the line between its neighbours, as a share of theirs


def without_blends(planes: NDArray[np.float32], rounds: int = ROUNDS) -> NDArray[np.float32]:
    """Planes (C, H, W) in 0…255 with the blends at edges replaced by the colour of one of their neighbours."""
    for _ in range(rounds):
        planes = sharpen_once(planes)
    return planes


def near_alpha_edges(planes: Tensor) -> Tensor:
    """Where (H, W) bool alpha, the last of planes (4, H, W), differs within two pixels: there a photograph has blends as well."""
    alpha = planes[3:]
    low, high = (sign * max_pool2d(sign * alpha[None], 5, 1, 2)[0, 0] for sign in (-1, 1))
    return high - low > SMALLEST_ALPHA_STEP


@kernel
def sharpen_once(planes: Array) -> Array:
    """One round; pixels on the border of the image stay."""
    channels, height, width = planes.shape
    sharp = planes.copy()
    for y in range(height):
        for x in range(width):
            best, from_y, from_x = SMALLEST_STEP, -1, -1
            for direction in range(4):
                down, along = (0, 1) if direction == 0 else ((1, 0) if direction == 1 else (1, 2 * direction - 5))
                if not (down <= y < height - down and abs(along) <= x < width - abs(along)):
                    continue
                step, inner, here = 0.0, 0.0, 0.0
                for c in range(channels):
                    a, b = planes[c, y - down, x - along], planes[c, y + down, x + along]
                    step += (b - a) * (b - a)
                    inner += (planes[c, y, x] - a) * (b - a)
                    here += (planes[c, y, x] - a) * (planes[c, y, x] - a)
                if step <= best:
                    continue
                share = inner / step
                if not 0.02 < share < 0.98 or here - share * inner > LARGEST_OFFSET * LARGEST_OFFSET * step:
                    continue
                best = step
                sign = -1 if share < 0.5 else 1
                from_y, from_x = y + sign * down, x + sign * along
            if from_y >= 0:
                for c in range(channels):
                    sharp[c, y, x] = planes[c, from_y, from_x]
    return sharp
