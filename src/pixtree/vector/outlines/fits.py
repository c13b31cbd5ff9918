"""Lines and circles of least squares through a range of samples, in O(1) each by prefix sums."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined

Array = NDArray[Any]
LINE, CIRCLE = 0, 1
SMALLEST_RADIUS, LARGEST_RADIUS = 0.4, 3000.0


@inlined
def add_sums(sums: Array, path: Array, count: int) -> None:
    """Prefix sums of x, y, x², xy, y², xz, yz, z, z² with z = x² + y², and of the length, of samples relative to the first."""
    for k in range(count):
        x, y = path[k, 0] - path[0, 0], path[k, 1] - path[0, 1]
        z = x * x + y * y
        step = 0.0
        if k > 0:
            step = np.sqrt((path[k, 0] - path[k - 1, 0]) ** 2 + (path[k, 1] - path[k - 1, 1]) ** 2)
        terms = (x, y, x * x, x * y, y * y, x * z, y * z, z, z * z, step)
        for c in range(10):
            sums[k + 1, c] = sums[k, c] + terms[c]


@inlined
def inside(first: int, last: int) -> Any:
    """The samples to which a piece is fitted: without its ends and, if it is long enough, their neighbours."""
    margin = 2 if last - first >= 14 else (1 if last - first >= 3 else 0)
    return first + margin, last - margin


@inlined
def covariance(products: float, one: float, other: float, count: int) -> Any:
    """Covariance of two terms, times the number of samples, from the sums of their products and of each."""
    return products - one * other / count


@inlined
def spread(sums: Array, low: int, high: int) -> Any:
    """Sums of x and y over samples low…high, and the covariances xx, yy and xy, times their number."""
    count = high - low + 1
    x, y = sums[high + 1, 0] - sums[low, 0], sums[high + 1, 1] - sums[low, 1]
    xx = covariance(sums[high + 1, 2] - sums[low, 2], x, x, count)
    xy = covariance(sums[high + 1, 3] - sums[low, 3], x, y, count)
    yy = covariance(sums[high + 1, 4] - sums[low, 4], y, y, count)
    return x, y, xx, yy, xy


@inlined
def line_through(sums: Array, low: int, high: int, place: Array) -> Any:
    """The line of least squares, relative to the first sample, in `place`; the sum of squared deviations."""
    count = high - low + 1
    x, y, xx, yy, xy = spread(sums, low, high)
    root = np.sqrt((xx - yy) ** 2 + 4 * xy * xy)
    angle = 0.5 * np.arctan2(2 * xy, xx - yy)
    place[0], place[1] = x / count, y / count
    place[2], place[3] = np.cos(angle), np.sin(angle)
    return max(0.5 * (xx + yy - root), 0.0)


@inlined
def circle_through(sums: Array, low: int, high: int, place: Array) -> Any:
    """The circle of least algebraic squares, its centre and radius in `place`; the sum of squared deviations, infinite for none."""
    count = high - low + 1
    x, y, xx, yy, xy = spread(sums, low, high)
    z = sums[high + 1, 7] - sums[low, 7]
    xz = covariance(sums[high + 1, 5] - sums[low, 5], x, z, count)
    yz = covariance(sums[high + 1, 6] - sums[low, 6], y, z, count)
    zz = covariance(sums[high + 1, 8] - sums[low, 8], z, z, count)
    determinant = xx * yy - xy * xy
    if determinant < 1e-9 * (xx + yy) ** 2:
        return np.inf
    a, b = (xz * yy - yz * xy) / determinant, (yz * xx - xz * xy) / determinant  # twice the centre
    mean_x, mean_y, mean_z = x / count, y / count, z / count
    squared = mean_z - a * mean_x - b * mean_y + 0.25 * (a * a + b * b)
    if squared < SMALLEST_RADIUS**2 or squared > LARGEST_RADIUS**2:
        return np.inf
    place[0], place[1], place[2] = 0.5 * a, 0.5 * b, np.sqrt(squared)
    return max(zz - a * xz - b * yz, 0.0) / (4 * squared)


@inlined
def gap_to(kind: int, place: Array, x: float, y: float) -> Any:
    """Distance of a point, relative to the first sample, from a piece."""
    if kind == LINE:
        return abs((x - place[0]) * place[3] - (y - place[1]) * place[2])
    return abs(np.sqrt((x - place[0]) ** 2 + (y - place[1]) ** 2) - place[2])
