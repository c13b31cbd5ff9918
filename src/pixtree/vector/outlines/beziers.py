"""Smooth outlines: cubic Bézier curves through the samples of an arc, within a tolerance, that keep its corners."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.arithmetic.compiled import copy_values
from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel, part
from pixtree.vector.outlines.pieces import Outlines
from pixtree.vector.outlines.placement import Samples, along_border, turn_cosine

Array = NDArray[Any]
REACH = 4  # samples on either side by which a corner is judged
CORNER = 0.35  # cosine of the turn below which it is one (about 70°)
FLAT = 0.25  # share of the tolerance below which a line will do
SMOOTHING = 2  # passes of [1 2 1]/4 along the arc before fitting, against the steps of the pixel grid
ITERATIONS = 4


def fit_curves(samples: Samples, arcs: PlanarMap, *, unit: int, tolerance: float) -> Outlines:
    """Curves and lines no farther than `tolerance` pixels from the samples; split where that fails (Schneider's method)."""
    points, offsets, controls, curved = cheapest_curves(samples, along_border(arcs), unit, tolerance)
    return Outlines(points, offsets, unit, controls, curved)


@kernel
def cheapest_curves(placed: Samples, border: Array, unit: int, tolerance: float) -> tuple[Array, Array, Array, Array]:
    """Vertices, offsets, control points and kinds of `fit_curves`; arcs along the `border` (A,) of the image are one line."""
    samples, starts = placed
    arcs = len(starts) - 1
    total = starts[arcs]
    points, controls = np.empty((total, 2), np.int32), np.zeros((total, 4), np.int32)
    curved = np.zeros(total, np.bool_)
    offsets = np.empty(arcs + 1, np.int32)
    longest = 2
    for arc in range(arcs):
        longest = max(longest, starts[arc + 1] - starts[arc])
    path, parameter = np.empty((longest, 2)), np.empty(longest)
    is_corner = np.empty(longest, np.bool_)
    stack = np.empty((longest + 2, 2), np.int32)
    fitted = np.empty(4)
    used = 0
    for arc in range(arcs):
        offsets[arc] = used
        count = starts[arc + 1] - starts[arc]
        for k in range(count):
            copy_values(samples[starts[arc] + k], path[k])
        put_vertex(points, used, path[0], unit)
        used += 1
        if border[arc]:
            put_vertex(points, used, path[count - 1], unit)
            used += 1
            continue
        ring = path[0, 0] == path[count - 1, 0] and path[0, 1] == path[count - 1, 1]
        find_corners(path, count, is_corner)
        smooth_between(path, count, is_corner)
        stack[0, 0], stack[0, 1] = 0, count - 1
        depth = 1
        while depth > 0:
            depth -= 1
            first, last = stack[depth, 0], stack[depth, 1]
            split = next_split(path, first, last, is_corner, ring and first == 0 and last == count - 1)
            if split < 0:
                worst, split = line_deviation(path, first, last)
                if worst <= max(tolerance * FLAT, 0.05) or last - first <= 1:
                    put_vertex(points, used, path[last], unit)
                    used += 1
                    continue
                worst, split = fit_cubic(path, first, last, is_corner, count, ring, parameter, fitted)
                if worst <= tolerance or last - first <= 3:
                    put_vertex(points, used, path[last], unit)
                    for c in range(4):
                        controls[used, c] = int(np.rint(fitted[c] * unit))
                    curved[used] = True
                    used += 1
                    continue
            stack[depth, 0], stack[depth, 1] = split, last
            stack[depth + 1, 0], stack[depth + 1, 1] = first, split
            depth += 2
    offsets[arcs] = used
    return points[:used].copy(), offsets, controls[:used].copy(), curved[:used].copy()


@inlined
def put_vertex(points: Array, at: int, point: Array, unit: int) -> None:
    """A point in pixels onto the grid."""
    points[at, 0], points[at, 1] = int(np.rint(point[0] * unit)), int(np.rint(point[1] * unit))


@inlined
def find_corners(path: Array, count: int, is_corner: Array) -> None:
    """Where the directions to the samples before and after differ by a sharp turn, and more than at the neighbours."""
    for k in range(count):
        is_corner[k] = k == 0 or k == count - 1
    best, best_turn = -1, CORNER
    for k in range(1, count - 1):
        turn = turn_at(path, k, count)
        if turn < best_turn:
            best, best_turn = k, turn
        if best >= 0 and (turn >= CORNER or k - best > REACH or k == count - 2):
            is_corner[best] = True
            best, best_turn = -1, CORNER


@inlined
def turn_at(path: Array, k: int, count: int) -> Any:
    """Cosine of the change of direction at a sample, 1 next to the ends."""
    reach = min(REACH, k, count - 1 - k)
    if reach < 2:
        return 1.0
    return turn_cosine(path, k - reach, k, k + reach)


@inlined
def smooth_between(path: Array, count: int, is_corner: Array) -> None:
    """[1 2 1]/4 along the arc, corners and ends fixed."""
    for _ in range(SMOOTHING):
        before_x, before_y = path[0, 0], path[0, 1]
        for k in range(1, count - 1):
            here_x, here_y = path[k, 0], path[k, 1]
            if not is_corner[k]:
                path[k, 0] = 0.25 * (before_x + path[k + 1, 0]) + 0.5 * here_x
                path[k, 1] = 0.25 * (before_y + path[k + 1, 1]) + 0.5 * here_y
            before_x, before_y = here_x, here_y


@inlined
def next_split(path: Array, first: int, last: int, is_corner: Array, whole_ring: bool) -> Any:
    """A corner strictly between, or the sample farthest from the start of a whole ring; −1 for none."""
    for k in range(first + 1, last):
        if is_corner[k]:
            return k
    if not whole_ring:
        return -1
    far, split = -1.0, -1
    for k in range(first + 1, last):
        distance = (path[k, 0] - path[first, 0]) ** 2 + (path[k, 1] - path[first, 1]) ** 2
        if distance > far:
            far, split = distance, k
    return split


@inlined
def line_deviation(path: Array, first: int, last: int) -> Any:
    """Largest distance of the samples between from the chord, and where."""
    east, south = path[last, 0] - path[first, 0], path[last, 1] - path[first, 1]
    size = np.sqrt(east * east + south * south)
    worst, split = 0.0, (first + last) // 2
    for k in range(first + 1, last):
        x, y = path[k, 0] - path[first, 0], path[k, 1] - path[first, 1]
        distance = abs(x * south - y * east) / size if size > 1e-9 else np.sqrt(x * x + y * y)
        if distance > worst:
            worst, split = distance, k
    return worst, split


@inlined
def tangent(path: Array, k: int, towards: int, limit: int, is_corner: Array, count: int, ring: bool) -> Any:
    """Unit direction of the curve at sample k, away from it; central where the arc goes smoothly on, so pieces join smoothly."""
    sign = 1 if towards > k else -1
    reach = min(3, abs(limit - k))
    x, y = path[k + sign * reach, 0], path[k + sign * reach, 1]
    from_x, from_y = path[k, 0], path[k, 1]
    if not is_corner[k]:
        back = min(3, k if sign > 0 else count - 1 - k)
        from_x, from_y = path[k - sign * back, 0], path[k - sign * back, 1]
    elif ring and (k == 0 or k == count - 1):
        other = count - 1 - 3 if k == 0 else 3
        if 0 < other < count - 1:
            from_x, from_y = path[other, 0], path[other, 1]
    size = max(np.sqrt((x - from_x) ** 2 + (y - from_y) ** 2), 1e-9)
    return (x - from_x) / size, (y - from_y) / size


@part()
def fit_cubic(
    path: Array, first: int, last: int, is_corner: Array, count: int, ring: bool, parameter: Array, fitted: Array
) -> tuple[float, int]:
    """Least-squares cubic with given end tangents; its control points in `fitted`; the largest deviation and where it is."""
    a_x, a_y = tangent(path, first, last, last, is_corner, count, ring)
    b_x, b_y = tangent(path, last, first, first, is_corner, count, ring)
    parameter[first] = 0.0
    for k in range(first + 1, last + 1):
        step = (path[k, 0] - path[k - 1, 0]) ** 2 + (path[k, 1] - path[k - 1, 1]) ** 2
        parameter[k] = parameter[k - 1] + np.sqrt(step)
    length = max(parameter[last], 1e-9)
    for k in range(first, last + 1):
        parameter[k] /= length
    x0, y0, x3, y3 = path[first, 0], path[first, 1], path[last, 0], path[last, 1]
    worst, split = np.inf, (first + last) // 2
    for _ in range(ITERATIONS):
        aa, ab, bb, ra, rb = 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(first + 1, last):
            t = parameter[k]
            s = 1.0 - t
            start, one, two, end = s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t
            rest_x = path[k, 0] - (start + one) * x0 - (two + end) * x3
            rest_y = path[k, 1] - (start + one) * y0 - (two + end) * y3
            aa += one * one
            bb += two * two
            ab += one * two * (a_x * b_x + a_y * b_y)
            ra += one * (rest_x * a_x + rest_y * a_y)
            rb += two * (rest_x * b_x + rest_y * b_y)
        determinant = aa * bb - ab * ab
        chord = np.sqrt((x3 - x0) ** 2 + (y3 - y0) ** 2)
        reach_a = (ra * bb - rb * ab) / determinant if abs(determinant) > 1e-9 else chord / 3
        reach_b = (rb * aa - ra * ab) / determinant if abs(determinant) > 1e-9 else chord / 3
        if not (0.02 * length < reach_a < 1.2 * length and 0.02 * length < reach_b < 1.2 * length):
            reach_a = reach_b = chord / 3
        x1, y1, x2, y2 = x0 + reach_a * a_x, y0 + reach_a * a_y, x3 + reach_b * b_x, y3 + reach_b * b_y
        largest, where = 0.0, (first + last) // 2
        for k in range(first + 1, last):
            t = parameter[k]
            s = 1.0 - t
            x = s * s * s * x0 + 3 * s * s * t * x1 + 3 * s * t * t * x2 + t * t * t * x3 - path[k, 0]
            y = s * s * s * y0 + 3 * s * s * t * y1 + 3 * s * t * t * y2 + t * t * t * y3 - path[k, 1]
            distance = np.sqrt(x * x + y * y)
            if distance > largest:
                largest, where = distance, k
            # One step of Newton's method towards the nearest point of the curve.
            dx = 3 * (s * s * (x1 - x0) + 2 * s * t * (x2 - x1) + t * t * (x3 - x2))
            dy = 3 * (s * s * (y1 - y0) + 2 * s * t * (y2 - y1) + t * t * (y3 - y2))
            ddx = 6 * (s * (x2 - 2 * x1 + x0) + t * (x3 - 2 * x2 + x1))
            ddy = 6 * (s * (y2 - 2 * y1 + y0) + t * (y3 - 2 * y2 + y1))
            slope = dx * dx + dy * dy + x * ddx + y * ddy
            if slope > 1e-9:
                parameter[k] = min(max(t - (x * dx + y * dy) / slope, 0.0), 1.0)
        if largest < worst:
            worst, split = largest, where
            fitted[0], fitted[1], fitted[2], fitted[3] = x1, y1, x2, y2
    return worst, split
