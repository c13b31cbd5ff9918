"""Coverage: a model of renderers. It has the exact area of every shape in every pixel, and paints as our documents ask for:
backwards with strokes, then forwards without.

An arc is rasterised once into entries (row, column, step): along a row, the running sum of the steps of a closed loop is the share
of each pixel that it covers. The entries serve the shape on the arc's right as they are and the one on its left negated, so a
picture costs the length of the outlines and one visit per pixel.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import kernel

Array = NDArray[Any]
COVERED, NOT_COVERED = 0.9995, 0.0005


@dataclass(frozen=True, eq=False)
class Coverage:
    """Runs of equal coverage of all shapes in painting order: shape k has runs offsets[k]:offsets[k + 1].

    A run is pixels `begin` to `end` (row · W + column, exclusive), of which `share` (0…1) is covered.
    """

    offsets: NDArray[np.int64]
    begin: NDArray[np.int32]
    end: NDArray[np.int32]
    share: NDArray[np.float32]


def composite(
    coverage: Coverage, colours: Array, order: Array, shape: tuple[int, int], background: float = 255.0
) -> NDArray[np.float32]:
    """The picture (H, W, 3) float32 of a watertight drawing; colours (N, 3), order (N,) in which shapes are painted."""
    canvas = np.full((shape[0] * shape[1], 3), background, np.float32)
    paint_runs(coverage.offsets, coverage.begin, coverage.end, coverage.share, colours.astype(np.float32), order, canvas)
    return canvas.reshape(*shape, 3)


@kernel
def paint_runs(offsets: Array, begin: Array, end: Array, share: Array, colours: Array, order: Array, canvas: Array) -> None:
    """The first pass goes backwards, and its strokes fill every pixel that a shape touches; the second blends by coverage.

    Pixels covered whole are painted in the first pass only: no stroke of a neighbour survives the second pass there.
    """
    for k in range(len(order) - 1, -1, -1):
        red, green, blue = colours[order[k], 0], colours[order[k], 1], colours[order[k], 2]
        for run in range(offsets[k], offsets[k + 1]):
            for pixel in range(begin[run], end[run]):
                canvas[pixel, 0], canvas[pixel, 1], canvas[pixel, 2] = red, green, blue
    for k in range(len(order)):
        red, green, blue = colours[order[k], 0], colours[order[k], 1], colours[order[k], 2]
        for run in range(offsets[k], offsets[k + 1]):
            part = share[run]
            if part < COVERED:
                for pixel in range(begin[run], end[run]):
                    canvas[pixel, 0] += part * (red - canvas[pixel, 0])
                    canvas[pixel, 1] += part * (green - canvas[pixel, 1])
                    canvas[pixel, 2] += part * (blue - canvas[pixel, 2])


def cover(points: Array, offsets: Array, shape_loops: tuple[Array, Array, Array], order: Array, shape: tuple[int, int]) -> Coverage:
    """Coverage of the shapes of a planar map; points (V, 2) float64 in pixels with arc i at offsets[i]:offsets[i + 1].

    shape_loops: the map's loops, loop_offsets and shape_offsets; order (N,) in which shapes are painted.
    """
    row, column, step, starts = arc_entries(points, offsets, *shape)
    return Coverage(*shape_runs(row, column, step, starts, *shape_loops, order, *shape))


@kernel
def emit(row: Array, column: Array, step: Array, used: int, y: int, x: int, value: float) -> Any:
    """Add an entry, to the one before if that is of the same pixel; the new count."""
    if used > 0 and row[used - 1] == y and column[used - 1] == x:
        step[used - 1] += value
        return used
    row[used], column[used], step[used] = y, x, value
    return used + 1


@kernel
def arc_entries(points: Array, offsets: Array, height: int, width: int) -> tuple[Array, Array, Array, Array]:
    """Entries of every arc, arc after arc: row and column (E,) int32, step (E,) float32, starts (A + 1,) int64."""
    room = 0
    for k in range(len(points) - 1):
        room += 6 + 2 * int(abs(points[k + 1, 0] - points[k, 0]) + 2 * abs(points[k + 1, 1] - points[k, 1]))
    row, column, step = np.empty(room + 8, np.int32), np.empty(room + 8, np.int32), np.empty(room + 8, np.float32)
    arcs = len(offsets) - 1
    starts = np.empty(arcs + 1, np.int64)
    used = 0
    for arc in range(arcs):
        starts[arc] = used
        if used > 0:  # entries of different arcs never join: this one gets a pixel that no arc has
            row[used], column[used], step[used] = -1, -1, 0.0
        fresh = 0
        r, c, s = row[used:], column[used:], step[used:]
        for k in range(offsets[arc], offsets[arc + 1] - 1):
            fresh = line_entries(points[k, 0], points[k, 1], points[k + 1, 0], points[k + 1, 1], height, width, r, c, s, fresh)
        used += fresh
    starts[arcs] = used
    return row[:used], column[:used], step[:used], starts


@kernel
def line_entries(
    x0: float, y0: float, x1: float, y1: float, height: int, width: int, row: Array, column: Array, step: Array, used: int
) -> Any:
    """Entries of one line; the covered side is its right when it goes up, as for loops with the shape on their right."""
    if y0 == y1:
        return used
    sign = -1.0
    if y0 > y1:
        x0, y0, x1, y1 = x1, y1, x0, y0
        sign = 1.0
    slope = (x1 - x0) / (y1 - y0)
    low, high = max(y0, 0.0), min(y1, float(height))
    y = int(low)
    while y < high:
        top, bottom = max(low, float(y)), min(high, y + 1.0)
        rise = (bottom - top) * sign
        a, b = x0 + (top - y0) * slope, x0 + (bottom - y0) * slope
        used = row_entries(min(a, b), max(a, b), rise, y, width, row, column, step, used)
        y += 1
    return used


@kernel
def row_entries(a: float, b: float, rise: float, y: int, width: int, row: Array, column: Array, step: Array, used: int) -> Any:
    """Entries of a piece of a line inside one row, from x = a to x = b ≥ a, with signed height `rise`."""
    a, b = min(max(a, 0.0), float(width)), min(max(b, 0.0), float(width))
    first, last = int(a), int(b)
    if first == last:
        middle = 0.5 * (a + b) - first
        used = emit(row, column, step, used, y, first, rise * (1.0 - middle))
        return emit(row, column, step, used, y, first + 1, rise * middle)
    density = rise / (b - a)
    covered = 0.0  # what the row's running sum has reached
    for x in range(first, last + 1):
        begin, end = max(a, float(x)), min(b, x + 1.0)
        # right of the piece's part within the pixel, and whole from here on for the parts of the pixels before
        within = density * (end - begin) * (x + 1.0 - 0.5 * (begin + end))
        before = density * (begin - a)
        used = emit(row, column, step, used, y, x, before + within - covered)
        covered = before + within
    return emit(row, column, step, used, y, last + 1, rise - covered)


@kernel
def shape_runs(
    row: Array,
    column: Array,
    step: Array,
    starts: Array,
    loops: Array,
    loop_offsets: Array,
    shape_offsets: Array,
    order: Array,
    height: int,
    width: int,
) -> tuple[Array, Array, Array, Array]:
    """Runs of all shapes: their entries sorted by row and column, then summed along the rows."""
    total, largest = 0, 0
    for region in range(len(shape_offsets) - 1):
        size = 0
        for k in range(loop_offsets[shape_offsets[region]], loop_offsets[shape_offsets[region + 1]]):
            arc = loops[k] if loops[k] >= 0 else ~loops[k]
            size += starts[arc + 1] - starts[arc]
        total += size
        largest = max(largest, size)
    begin, end, share = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total, np.float32)
    offsets = np.empty(len(order) + 1, np.int64)
    bucket = np.zeros(height + 1, np.int32)
    sorted_column, sorted_step = np.empty(largest, np.int32), np.empty(largest, np.float32)
    used = 0
    for k in range(len(order)):
        offsets[k] = used
        region = order[k]
        first, last = loop_offsets[shape_offsets[region]], loop_offsets[shape_offsets[region + 1]]
        low, high = height, -1
        for j in range(first, last):
            arc = loops[j] if loops[j] >= 0 else ~loops[j]
            for e in range(starts[arc], starts[arc + 1]):
                bucket[row[e]] += 1
                low, high = min(low, row[e]), max(high, row[e])
        position = 0
        for y in range(low, high + 1):
            position += bucket[y]
            bucket[y] = position - bucket[y]
        for j in range(first, last):
            arc = loops[j] if loops[j] >= 0 else ~loops[j]
            sign = np.float32(1.0) if loops[j] >= 0 else np.float32(-1.0)
            for e in range(starts[arc], starts[arc + 1]):
                place = bucket[row[e]]
                bucket[row[e]] = place + 1
                sorted_column[place], sorted_step[place] = column[e], sign * step[e]
        before = 0
        for y in range(low, high + 1):
            sort_row(sorted_column, sorted_step, before, bucket[y])
            used = row_runs(sorted_column, sorted_step, before, bucket[y], y, width, begin, end, share, used)
            before = bucket[y]
            bucket[y] = 0
    offsets[len(order)] = used
    return offsets, begin[:used], end[:used], share[:used]


@kernel
def sort_row(column: Array, step: Array, first: int, last: int) -> None:
    """Shell sort by column; for the few entries that a row mostly has, this is insertion."""
    gap = 1
    while 9 * gap < last - first:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(first + gap, last):
            x, value = column[i], step[i]
            j = i
            while j >= first + gap and column[j - gap] > x:
                column[j], step[j] = column[j - gap], step[j - gap]
                j -= gap
            column[j], step[j] = x, value
        gap //= 3


@kernel
def row_runs(
    column: Array, step: Array, first: int, last: int, y: int, width: int, begin: Array, end: Array, share: Array, used: int
) -> Any:
    """Runs of one row from its sorted entries, by the even–odd rule; the new count."""
    total = 0.0
    k = first
    while k < last:
        x = column[k]
        while k < last and column[k] == x:
            total += step[k]
            k += 1
        until = column[k] if k < last else width
        covered = abs(total)
        if covered > 1.0:  # even–odd: what is covered twice is not covered
            covered = max(2.0 - covered, 0.0)
        if covered > NOT_COVERED and x < width:
            begin[used], end[used], share[used] = y * width + x, y * width + min(until, width), covered
            used += 1
    return used
