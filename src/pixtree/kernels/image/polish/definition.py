"""Boundary polishing, sequential by nature and written once in plain loops: Python interprets them here, `compiled` compiles them.

Every region is a Gaussian with its mean μ and its variances v_c. There a pixel f costs
Σ_c log(v_c + φ) + (f_c − μ_c)² (1/(v_c + φ) + ATTRACTION/φ): the log-likelihood whose energy cuts minimise, and a share of
the plain squared error, without which regions of high variance would take their neighbours' pixels.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ATTRACTION = 0.05  # weight of the squared error next to the likelihood, in units of 1/φ
SQRT_HALF, LOG_2 = 0.7071067811865476, 0.6931471805599453
ATANH_SERIES = tuple(1.0 / odd for odd in (11, 9, 7, 5, 3, 1))  # after 1/13

NOWHERE = np.empty((0, 0), np.bool_)

Values = NDArray[np.float64]
State = tuple[Values, Values, Values, Values, Values, Values]


def relax(
    labels: Tensor, features: Tensor, sweeps: int, smoothness: float, floor: float, fixed: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Labels (H, W) int32 after boundary polishing: see `polish_in_place`; features are planes (C, H, W) float32.

    fixed: (H, W) bool, pixels that keep their labels.
    """
    polished = labels.cpu().numpy().copy()
    state = empty_state(int(labels.max()) + 1, features.shape[0])
    kept = NOWHERE if fixed is None else fixed.cpu().numpy()
    polish_in_place(polished, features.cpu().numpy(), kept, *state, sweeps, smoothness, floor)
    return torch.from_numpy(polished).to(labels.device)


def empty_state(regions: int, channels: int) -> State:
    """Zeros for the sizes, sums, squares, means, weights and volumes that `polish_in_place` takes."""
    rows = (regions, channels)
    return np.zeros(regions), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(rows), np.zeros(regions)


def logarithm(x: float) -> float:
    """Natural logarithm of x > 0 within 1e-12, by +, −, × and ÷ alone, so that every backend rounds alike."""
    mantissa, exponent = math.frexp(x)
    t = (mantissa - SQRT_HALF) / (mantissa + SQRT_HALF)
    square = t * t
    series = 1.0 / 13.0
    for coefficient in ATANH_SERIES:
        series = series * square + coefficient
    return (exponent - 0.5) * LOG_2 + 2.0 * t * series


def sum_regions(labels: NDArray[np.int32], features: NDArray[np.float32], sizes: Values, sums: Values, squares: Values) -> None:
    """Add the pixels of every region to its size, and their channels and squares to its sums."""
    height, width = labels.shape
    for y in range(height):
        for x in range(width):
            region = labels[y, x]
            if region >= 0:
                sizes[region] += 1.0
                for c in range(features.shape[0]):
                    value = np.float64(features[c, y, x])
                    sums[region, c] += value
                    squares[region, c] += value * value


def describe_regions(
    sizes: Values, sums: Values, squares: Values, floor: float, means: Values, weights: Values, volumes: Values
) -> None:
    """Fill means μ, weights 1/(v + φ) + ATTRACTION/φ and volumes Σ_c log(v_c + φ) of the regions."""
    for region in range(sizes.size):
        volume = 0.0
        for c in range(sums.shape[1]):
            mean = sums[region, c] / sizes[region]
            variance = max(squares[region, c] / sizes[region] - mean * mean, 0.0) + floor
            means[region, c] = mean
            weights[region, c] = 1.0 / variance + ATTRACTION / floor
            volume += logarithm(variance)
        volumes[region] = volume


def keeps_connected(labels: NDArray[np.int32], y: int, x: int, region: int) -> bool:
    """Whether `region` stays connected without pixel (y, x), judged in the 3×3 ring around it; false if it would vanish there."""
    height, width = labels.shape
    up = y > 0 and labels[y - 1, x] == region
    down = y + 1 < height and labels[y + 1, x] == region
    west = x > 0 and labels[y, x - 1] == region
    east = x + 1 < width and labels[y, x + 1] == region
    links = 0
    if up and east and labels[y - 1, x + 1] == region:
        links += 1
    if east and down and labels[y + 1, x + 1] == region:
        links += 1
    if down and west and labels[y + 1, x - 1] == region:
        links += 1
    if west and up and labels[y - 1, x - 1] == region:
        links += 1
    neighbours = int(up) + int(down) + int(west) + int(east)
    return neighbours > 0 and neighbours - links <= 1


def misfit(features: NDArray[np.float32], y: int, x: int, means: Values, weights: Values, region: int) -> float:
    """Weighted squared distance between a pixel and the mean of a region."""
    total = 0.0
    for c in range(features.shape[0]):
        difference = means[region, c] - np.float64(features[c, y, x])
        total += difference * difference * weights[region, c]
    return total


def move_pixel(
    features: NDArray[np.float32], y: int, x: int, old: int, new: int, sizes: Values, sums: Values, squares: Values, means: Values
) -> None:
    """Carry a pixel from one region to another in their sizes, sums and means; weights and volumes wait for the next sweep."""
    sizes[old] -= 1.0
    sizes[new] += 1.0
    for c in range(features.shape[0]):
        value = np.float64(features[c, y, x])
        sums[old, c] -= value
        sums[new, c] += value
        squares[old, c] -= value * value
        squares[new, c] += value * value
        means[old, c] = sums[old, c] / sizes[old]
        means[new, c] = sums[new, c] / sizes[new]


def polish_in_place(
    labels: NDArray[np.int32],
    features: NDArray[np.float32],
    fixed: NDArray[np.bool_],
    sizes: Values,
    sums: Values,
    squares: Values,
    means: Values,
    weights: Values,
    volumes: Values,
    sweeps: int,
    smoothness: float,
    floor: float,
) -> None:
    """Move border pixels to the 4-neighbour region where they cost least; in place.

    A pixel's cost, see above, is less by `smoothness` for every 4-neighbour that it has there. It moves only if its old region
    stays connected, so the count of regions and their connectivity hold. Sweeps run in raster order and back in turns, or
    boundaries would drift along it. Means follow every move, variances every sweep. Pixels labelled −1 are outside and never move,
    nor do those that are `fixed` (H, W), which is empty if none are.

    sizes (N,), sums and squares (N, C) are zero on entry: the state that follows the moves; means, weights (N, C) and volumes (N,)
    are scratch.
    """
    height, width = labels.shape
    sum_regions(labels, features, sizes, sums, squares)
    for sweep in range(sweeps):
        describe_regions(sizes, sums, squares, floor, means, weights, volumes)
        moved = False
        for i in range(height):
            y = i if sweep % 2 == 0 else height - 1 - i
            for j in range(width):
                x = j if sweep % 2 == 0 else width - 1 - j
                here = labels[y, x]
                if here < 0 or (fixed.size > 0 and fixed[y, x]):
                    continue
                up = labels[y - 1, x] if y > 0 else here
                down = labels[y + 1, x] if y + 1 < height else here
                west = labels[y, x - 1] if x > 0 else here
                east = labels[y, x + 1] if x + 1 < width else here
                if up == here and down == here and west == here and east == here:
                    continue
                if not keeps_connected(labels, y, x, here):
                    continue
                best, least = here, np.inf
                for candidate in (here, up, down, west, east):
                    if candidate < 0 or (candidate == best and least < np.inf):
                        continue
                    # A missing neighbour at the image border reads as `here`; only real ones count.
                    touching = (
                        int(y > 0 and up == candidate)
                        + int(y + 1 < height and down == candidate)
                        + int(x > 0 and west == candidate)
                        + int(x + 1 < width and east == candidate)
                    )
                    cost = volumes[candidate] + misfit(features, y, x, means, weights, candidate) - smoothness * touching
                    if cost < least:
                        best, least = candidate, cost
                if best != here:
                    labels[y, x] = best
                    moved = True
                    move_pixel(features, y, x, here, best, sizes, sums, squares, means)
        if not moved:
            break
