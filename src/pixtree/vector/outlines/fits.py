"""Lines and circles of least squares through a range of samples, in O(1) each by prefix sums, tidied as a person would draw them:
one line for an edge that only wobbles, and no tiny piece across a sharp corner.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined

Array = NDArray[Any]
LINE, CIRCLE = 0, 1
SMALLEST_RADIUS, LARGEST_RADIUS = 0.4, 3000.0
WOBBLE = 0.14  # pixels: half of the steps that a renderer with a grid of a quarter of a pixel gives to slanted edges
BENT = 0.6  # share of a line's squared deviations which a circle leaves if the samples are not bent
LARGEST_GAP = 0.8  # pixels from a piece to the samples at its ends
ROUNDING = 0.4  # pixels by which anti-aliasing may move a sample next to a corner
SHORT = 10  # samples of an arc that may be a wobble of a line
CUT = 4  # samples of a piece that may be a corner cut off by anti-aliasing,
CUT_DEPTH = 0.8  # and pixels from them to the corner
LONG = 4  # samples of the lines on both sides of such a corner


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
def centred(sums: Array, low: int, high: int, a: int, b: int, both: int) -> Any:
    """Covariance, times their number, of two of the terms over samples low…high."""
    count = high - low + 1
    return sums[high + 1, both] - sums[low, both] - (sums[high + 1, a] - sums[low, a]) * (sums[high + 1, b] - sums[low, b]) / count


@inlined
def line_through(sums: Array, low: int, high: int, place: Array) -> Any:
    """The line of least squares, relative to the first sample, in `place`; the sum of squared deviations."""
    count = high - low + 1
    xx, yy, xy = centred(sums, low, high, 0, 0, 2), centred(sums, low, high, 1, 1, 4), centred(sums, low, high, 0, 1, 3)
    root = np.sqrt((xx - yy) ** 2 + 4 * xy * xy)
    angle = 0.5 * np.arctan2(2 * xy, xx - yy)
    place[0], place[1] = (sums[high + 1, 0] - sums[low, 0]) / count, (sums[high + 1, 1] - sums[low, 1]) / count
    place[2], place[3] = np.cos(angle), np.sin(angle)
    return max(0.5 * (xx + yy - root), 0.0)


@inlined
def circle_through(sums: Array, low: int, high: int, place: Array) -> Any:
    """The circle of least algebraic squares, its centre and radius in `place`; the sum of squared deviations, infinite for none."""
    count = high - low + 1
    xx, yy, xy = centred(sums, low, high, 0, 0, 2), centred(sums, low, high, 1, 1, 4), centred(sums, low, high, 0, 1, 3)
    xz, yz, zz = centred(sums, low, high, 0, 7, 5), centred(sums, low, high, 1, 7, 6), centred(sums, low, high, 7, 7, 8)
    determinant = xx * yy - xy * xy
    if determinant < 1e-9 * (xx + yy) ** 2:
        return np.inf
    a, b = (xz * yy - yz * xy) / determinant, (yz * xx - xz * xy) / determinant  # twice the centre
    mean_x, mean_y = (sums[high + 1, 0] - sums[low, 0]) / count, (sums[high + 1, 1] - sums[low, 1]) / count
    mean_z = (sums[high + 1, 7] - sums[low, 7]) / count
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


@inlined
def wobbles_only(sums: Array, path: Array, first: int, last: int, place: Array, other: Array) -> Any:
    """Whether one line, left in `place`, passes all samples at that distance without being bent on the whole."""
    low, high = inside(first, last)
    error = line_through(sums, low, high, place)
    if error > WOBBLE * WOBBLE * (high - low + 1) or circle_through(sums, low, high, other) < BENT * error:
        return False
    for k in range(first, last + 1):
        allowed = LARGEST_GAP if k in (first, last) else (WOBBLE if low <= k <= high else ROUNDING)
        if gap_to(LINE, place, path[k, 0] - path[0, 0], path[k, 1] - path[0, 1]) > allowed:
            return False
    return True


@inlined
def join_lines(sums: Array, path: Array, pieces: Any, begin: int, end: int, place: Array, other: Array) -> Any:
    """Replace neighbouring lines begin…end − 1 by one wherever their samples only wobble around it; returns the new end.

    Renderers put edges on a grid of a quarter of a pixel or finer, so an edge that is nearly upright has steps.
    """
    firsts, lasts, kinds, places = pieces
    kept = begin
    piece = begin
    while piece < end:
        after = piece
        if kinds[piece] == LINE or lasts[piece] - firsts[piece] <= SHORT:
            for other_piece in range(piece + 1, end):
                if kinds[other_piece] != LINE and lasts[other_piece] - firsts[other_piece] > SHORT:
                    break
                if wobbles_only(sums, path, firsts[piece], lasts[other_piece], place, other):
                    after = other_piece
        firsts[kept], lasts[kept], kinds[kept] = firsts[piece], lasts[after], kinds[piece]
        if after > piece:
            kinds[kept] = LINE
            wobbles_only(sums, path, firsts[piece], lasts[after], place, other)
            places[kept] = place
        else:
            places[kept] = places[piece]
        kept += 1
        piece = after + 1
    return kept


@inlined
def sharpen_corners(path: Array, pieces: Any, begin: int, end: int) -> Any:
    """Drop tiny pieces of begin…end − 1 between two longer lines that meet next to them; returns the new end."""
    firsts, lasts, kinds, places = pieces
    kept = begin
    for piece in range(begin, end):
        if begin < piece < end - 1 and lasts[piece] - firsts[piece] <= CUT and kinds[kept - 1] == LINE and kinds[piece + 1] == LINE:
            longer = lasts[kept - 1] - firsts[kept - 1] >= LONG and lasts[piece + 1] - firsts[piece + 1] >= LONG
            if longer and meet_near(path, firsts[piece], lasts[piece], places[kept - 1], places[piece + 1]):
                lasts[kept - 1] = lasts[piece]
                continue
        firsts[kept], lasts[kept], kinds[kept] = firsts[piece], lasts[piece], kinds[piece]
        places[kept] = places[piece]
        kept += 1
    return kept


@inlined
def meet_near(path: Array, first: int, last: int, one: Array, two: Array) -> Any:
    """Whether two lines meet next to one of the samples first…last."""
    across = one[2] * two[3] - one[3] * two[2]
    if abs(across) < 0.2:
        return False
    along = ((two[0] - one[0]) * two[3] - (two[1] - one[1]) * two[2]) / across
    x, y = path[0, 0] + one[0] + along * one[2], path[0, 1] + one[1] + along * one[3]
    nearest = np.inf
    for k in range(first, last + 1):
        nearest = min(nearest, (path[k, 0] - x) ** 2 + (path[k, 1] - y) ** 2)
    return nearest <= CUT_DEPTH * CUT_DEPTH
