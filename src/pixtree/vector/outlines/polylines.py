"""Polylines through the samples of every arc, with the least squared error plus a price per character of path data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.arithmetic.compiled import copy_values
from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.pieces import Outlines
from pixtree.vector.outlines.placement import Samples, along_border, contrast

Array = NDArray[Any]
LONGEST_SPAN = 40  # samples that one line may replace
LARGEST_DEVIATION = 1.5  # root mean square, pixels
CLOSING = 0.4  # characters per line beyond its two numbers: commands, moves and closing, shared out
OUTSIDE_CONTRAST = 128.0**2  # of a region against transparency


def fit_polylines(samples: Samples, arcs: PlanarMap, colours: Array, *, unit: int, price: float) -> Outlines:
    """Per arc the polyline through samples of least |d|² Σ deviation² + price · characters, d the colour step across it.

    price: squared grey levels (summed over channels) per character of path data. Dynamic programming over all pairs of samples at
    most 40 apart, O(1) each by prefix sums. Every arc is written twice, once per side.
    """
    points, offsets = cheapest_polylines(arcs.left, arcs.right, samples, along_border(arcs), colours, unit, price)
    return Outlines(points, offsets, unit)


@inlined
def digits(value: int) -> Any:
    """Characters of an integer, its sign included."""
    length = 1
    if value < 0:
        length = 2
        value = -value
    while value >= 10:
        value //= 10
        length += 1
    return length


@inlined
def pair_length(x: int, y: int) -> Any:
    """Characters of two integers in path data: a minus sign is separator enough."""
    return digits(x) + digits(y) + (1 if y >= 0 else 0)


@inlined
def chord_error(sums: Array, first: int, last: int, x: float, y: float, east: float, south: float) -> Any:
    """Σ of squared distances of the samples between `first` and `last` from the line through (x, y) along (east, south)."""
    count = last - first - 1
    if count == 0:
        return 0.0
    s_x, s_y = sums[last, 0] - sums[first + 1, 0], sums[last, 1] - sums[first + 1, 1]
    s_xx, s_xy = sums[last, 2] - sums[first + 1, 2], sums[last, 3] - sums[first + 1, 3]
    s_yy = sums[last, 4] - sums[first + 1, 4]
    squared = east * east + south * south
    if squared < 1e-9:
        return s_xx - 2 * x * s_x + count * x * x + s_yy - 2 * y * s_y + count * y * y
    cross = x * south - y * east
    total = south * south * s_xx + east * east * s_yy - 2 * east * south * s_xy
    total += -2 * cross * (south * s_x - east * s_y) + count * cross * cross
    return max(total / squared, 0.0)


@kernel
def cheapest_polylines(
    left: Array, right: Array, placed: Samples, border: Array, colours: Array, unit: int, price: float
) -> tuple[Array, Array]:
    """Vertices and offsets of `fit_polylines`.

    One function: the scratch of the dynamic program is made once for all arcs, and its inner loop is where tracing spends its time.
    """
    samples, starts = placed
    arcs = len(left)
    longest = 0
    for arc in range(arcs):
        longest = max(longest, starts[arc + 1] - starts[arc])
    sums = np.zeros((longest + 2, 5))
    grid = np.empty((longest + 1, 2), np.int32)
    cost, previous, chosen = np.empty(longest + 1), np.empty(longest + 1, np.int32), np.empty(longest + 1, np.int32)
    points = np.empty((starts[arcs], 2), np.int32)
    offsets = np.empty(arcs + 1, np.int32)
    used = 0
    for arc in range(arcs):
        offsets[arc] = used
        begin, count = starts[arc], starts[arc + 1] - starts[arc]
        for k in range(count):
            grid[k, 0] = int(np.rint(samples[begin + k, 0] * unit))
            grid[k, 1] = int(np.rint(samples[begin + k, 1] * unit))
        if border[arc]:
            copy_values(grid[0], points[used])
            copy_values(grid[count - 1], points[used + 1])
            used += 2
            continue
        outside = left[arc] < 0 or right[arc] < 0
        weight = OUTSIDE_CONTRAST if outside else contrast(left[arc], right[arc], colours)
        origin_x, origin_y = samples[begin, 0], samples[begin, 1]
        for k in range(count):
            x, y = samples[begin + k, 0] - origin_x, samples[begin + k, 1] - origin_y
            sums[k + 1, 0], sums[k + 1, 1] = sums[k, 0] + x, sums[k, 1] + y
            sums[k + 1, 2], sums[k + 1, 3], sums[k + 1, 4] = sums[k, 2] + x * x, sums[k, 3] + x * y, sums[k, 4] + y * y
        ring = grid[0, 0] == grid[count - 1, 0] and grid[0, 1] == grid[count - 1, 1]
        cost[0] = 0.0
        for last in range(1, count):
            best, best_first = np.inf, last - 1
            for first in range(last - 1, max(-1, last - LONGEST_SPAN - 1), -1):
                if cost[first] >= best or (ring and first == 0 and last == count - 1):
                    continue
                x, y = grid[first, 0] / unit - origin_x, grid[first, 1] / unit - origin_y
                east, south = (grid[last, 0] - grid[first, 0]) / unit, (grid[last, 1] - grid[first, 1]) / unit
                error = chord_error(sums, first, last, x, y, east, south)
                if error > LARGEST_DEVIATION * LARGEST_DEVIATION * (last - first - 1):
                    continue
                length = pair_length(grid[last, 0] - grid[first, 0], grid[last, 1] - grid[first, 1])
                total = cost[first] + weight * error + price * (2.0 * (length + CLOSING))
                if total < best:
                    best, best_first = total, first
            cost[last], previous[last] = best, best_first
        taken, k = 0, count - 1
        while k > 0:
            chosen[taken] = k
            taken += 1
            k = previous[k]
        copy_values(grid[0], points[used])
        used += 1
        for k in range(taken - 1, -1, -1):
            copy_values(grid[chosen[k]], points[used])
            used += 1
    offsets[arcs] = used
    return points[:used].copy(), offsets
