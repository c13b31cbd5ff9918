"""Paint: a model of renderers, and the layers in which shapes are painted.

Shapes that do not touch share a layer, so six layers hold them all. Painting all layers with a stroke in reverse, then without one
forwards, leaves in a pixel that shapes A (below) and B share the colour a·A + b·B, a and b their areas: A's stroke underneath gives
back exactly what B's soft edge lets through. No hairline remains, and edges lie where they should at any zoom.

Coverage is the exact area of every shape in every pixel. An arc is rasterised once into entries (row, column, step): along a row,
the running sum of the steps of a closed loop is the share of each pixel that it covers. The entries serve the shape on the arc's
right as they are and the one on its left negated, so a rendering costs the length of the outlines and one visit per pixel.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import kernel, part

Array = NDArray[Any]
COVERED, NOT_COVERED = 0.9995, 0.0005


class Coverage(NamedTuple):
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
    """The rendering (H, W, 3) float32 of a watertight drawing; colours (N, 3), order (N,) in which shapes are painted."""
    canvas = np.full((shape[0] * shape[1], 3), background, np.float32)
    paint_runs(coverage, colours.astype(np.float32), order, canvas)
    return canvas.reshape(*shape, 3)


@kernel
def paint_runs(coverage: Coverage, colours: Array, order: Array, canvas: Array) -> None:
    """The first pass goes backwards, and its strokes fill every pixel that a shape touches; the second blends by coverage.

    Pixels covered whole are painted in the first pass only: no stroke of a neighbour survives the second pass there.
    """
    offsets, begin, end, share = coverage
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
    return Coverage(*shape_runs(arc_entries(points, offsets, *shape), shape_loops, order, *shape))


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
        fresh = 0  # of this arc alone: entries of different arcs never join
        r, c, s = row[used:], column[used:], step[used:]
        for k in range(offsets[arc], offsets[arc + 1] - 1):
            fresh = line_entries(points[k, 0], points[k, 1], points[k + 1, 0], points[k + 1, 1], height, width, r, c, s, fresh)
        used += fresh
    starts[arcs] = used
    return row[:used], column[:used], step[:used], starts


@part()
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


@part()
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
def shape_runs(entries: Any, shape_loops: Any, order: Array, height: int, width: int) -> tuple[Array, Array, Array, Array]:
    """Runs of all shapes: the `arc_entries` of each, sorted by row and column, then summed along the rows."""
    row, column, step, starts = entries
    loops, loop_offsets, shape_offsets = shape_loops
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


@part()
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


@part()
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
        if covered > 1.0:  # even–odd: covered twice is not covered
            covered = max(2.0 - covered, 0.0)
        if covered > NOT_COVERED and x < width:
            begin[used], end[used], share[used] = y * width + x, y * width + min(until, width), covered
            used += 1
    return used


def layers_of(arcs: PlanarMap) -> NDArray[np.int32]:
    """The layer (N,) int32 of every shape, from 0: no two shapes with a common arc share one. O(A)."""
    inner = (arcs.left >= 0) & (arcs.right >= 0)
    return np.asarray(colour_smallest_last(arcs.left[inner], arcs.right[inner], arcs.count))


@kernel
def colour_smallest_last(first: Array, second: Array, count: int) -> Array:
    """Colours of a planar graph's vertices, at most six: take away a vertex of least degree (at most 5), again and again; give
    colours in the opposite order, each the first that its neighbours do not have."""
    start = np.zeros(count + 1, np.int32)
    for edge in range(len(first)):
        start[first[edge] + 1] += 1
        start[second[edge] + 1] += 1
    for vertex in range(count):
        start[vertex + 1] += start[vertex]
    neighbour, place = np.empty(2 * len(first), np.int32), start[:-1].copy()
    for edge in range(len(first)):
        for a, b in ((first[edge], second[edge]), (second[edge], first[edge])):
            neighbour[place[a]] = b
            place[a] += 1
    seen, degree = np.full(count, -1, np.int32), np.zeros(count, np.int32)
    for vertex in range(count):  # two shapes may share several arcs: count each neighbour once
        end = start[vertex]
        for k in range(start[vertex], start[vertex + 1]):
            if seen[neighbour[k]] != vertex:
                seen[neighbour[k]] = vertex
                neighbour[end] = neighbour[k]
                end += 1
        degree[vertex] = end - start[vertex]
    # A small degree is found by looking at the vertices whose degree has just fallen below six.
    ready, order = np.empty(count + 1, np.int32), np.empty(count, np.int32)
    queued, removed = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    left = degree.copy()
    waiting, taken = 0, 0
    for vertex in range(count):
        if left[vertex] <= 5:
            ready[waiting] = vertex
            queued[vertex] = True
            waiting += 1
    while waiting > 0:
        waiting -= 1
        vertex = ready[waiting]
        removed[vertex] = True
        order[taken] = vertex
        taken += 1
        for k in range(start[vertex], start[vertex] + degree[vertex]):
            other = neighbour[k]
            if not removed[other]:
                left[other] -= 1
                if left[other] <= 5 and not queued[other]:
                    ready[waiting] = other
                    queued[other] = True
                    waiting += 1
    colour = np.full(count, -1, np.int32)
    for k in range(taken - 1, -1, -1):
        vertex = order[k]
        used = 0
        for j in range(start[vertex], start[vertex] + degree[vertex]):
            if colour[neighbour[j]] >= 0:
                used |= 1 << colour[neighbour[j]]
        found = 0
        while used >> found & 1:
            found += 1
        colour[vertex] = found
    return colour
