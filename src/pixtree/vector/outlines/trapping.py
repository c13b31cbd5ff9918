"""Trapping: plain paths without gaps, in the way printers do it. Shapes are painted from large to small; a shape runs a little
under each neighbour that is painted after it, and over its holes, because what fills them is painted after it as well.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.pieces import Outlines

Array = NDArray[Any]
TRAP = 0.6  # pixels that a shape runs under its neighbours


def painting_order(arcs: PlanarMap, outlines: Outlines) -> NDArray[np.int64]:
    """Shapes (N,) by the area inside their outer outlines, holes included, largest first: contents of a hole follow its shape."""
    area = loop_areas(arcs.loops, arcs.loop_offsets, outlines.points, outlines.offsets)
    shape = np.repeat(np.arange(arcs.count), np.diff(arcs.shape_offsets))
    return np.argsort(-np.bincount(shape, np.maximum(area, 0), arcs.count), kind="stable")


def is_opaque(arcs: PlanarMap) -> bool:
    """Whether the shapes cover the whole canvas: the outside is met at its border only."""
    height, width = arcs.shape
    on_border = ((arcs.corners == 0) | (arcs.corners == [width, height])).any(axis=1)
    outside = (arcs.left < 0) | (arcs.right < 0)
    return all(on_border[a:b].all() for a, b in zip(arcs.offsets[:-1][outside], arcs.offsets[1:][outside], strict=True))


def trapped(arcs: PlanarMap, outlines: Outlines, order: Array, distance: float) -> tuple[PlanarMap, Outlines]:
    """Loops and outlines for shapes that are painted in `order` (N,): arcs A…2A−1 are arcs 0…A−1 moved under the later shape.

    distance: how far arcs are moved, in pixels of the outlines. Only loops, their offsets and the outlines are meant to be used.
    """
    rank = np.empty(arcs.count, np.int32)
    rank[order] = np.arange(arcs.count)
    count = len(arcs.left)
    inner = (arcs.left >= 0) & (arcs.right >= 0)
    towards_left = inner & (rank[arcs.left] > rank[arcs.right])
    side = np.where(inner, np.where(towards_left, -1.0, 1.0), 0.0) * distance * outlines.unit
    points, controls = moved(outlines.points, outlines.offsets, outlines.controls, outlines.curved, side)
    both = Outlines(
        np.concatenate((outlines.points, points)),
        np.concatenate((outlines.offsets, outlines.offsets[1:] + outlines.offsets[-1])),
        outlines.unit,
        np.concatenate((outlines.controls, controls)),
        np.concatenate((outlines.curved, outlines.curved)),
    )
    arc = np.where(arcs.loops >= 0, arcs.loops, ~arcs.loops)
    earlier = inner[arc] & (towards_left[arc] == (arcs.loops >= 0))  # the loop's shape is painted before its neighbour here
    loops = np.where(earlier, np.where(arcs.loops >= 0, arc + count, ~(arc + count)), arcs.loops).astype(np.int32)
    return _without_holes(replace(arcs, loops=loops), earlier, outlines), both


def _without_holes(arcs: PlanarMap, earlier: Array, outlines: Outlines) -> PlanarMap:
    """The map without the loops around holes whose contents are all painted later, if nothing in the image is transparent."""
    if not is_opaque(arcs):
        return arcs
    count = len(arcs.left)
    plain = np.where(arcs.loops >= 0, arcs.loops % count, ~(~arcs.loops % count))
    area = loop_areas(plain.astype(np.int32), arcs.loop_offsets, outlines.points, outlines.offsets)
    all_earlier = np.logical_and.reduceat(earlier, arcs.loop_offsets[:-1]) if len(area) else np.zeros(0, bool)
    kept = ~(all_earlier & (area < 0))
    length = np.diff(arcs.loop_offsets)
    shape = np.repeat(np.arange(arcs.count), np.diff(arcs.shape_offsets))
    return replace(
        arcs,
        loops=arcs.loops[np.repeat(kept, length)],
        loop_offsets=np.append(0, np.cumsum(length[kept])).astype(np.int32),
        shape_offsets=np.append(0, np.cumsum(np.bincount(shape[kept], minlength=arcs.count))).astype(np.int32),
    )


@kernel
def loop_areas(loops: Array, loop_offsets: Array, points: Array, offsets: Array) -> Array:
    """Signed areas (R,) of loops of arcs by their vertices, in units²: positive for outer ones."""
    areas = np.zeros(len(loop_offsets) - 1)
    for loop in range(len(areas)):
        for k in range(loop_offsets[loop], loop_offsets[loop + 1]):
            arc = loops[k] if loops[k] >= 0 else ~loops[k]
            sign = 0.5 if loops[k] >= 0 else -0.5
            for v in range(offsets[arc], offsets[arc + 1] - 1):
                x, y = float(points[v, 0]), float(points[v, 1])
                areas[loop] += sign * (x * points[v + 1, 1] - y * points[v + 1, 0])
    return areas


@inlined
def way(points: Array, controls: Array, curved: Array, k: int, east: bool) -> Any:
    """Direction in which the piece that ends at vertex k leaves its first vertex, or (`east` false) enters its last."""
    x0, y0, x1, y1 = points[k - 1, 0], points[k - 1, 1], points[k, 0], points[k, 1]
    if len(curved) > 0 and curved[k]:
        if east and (controls[k, 0] != x0 or controls[k, 1] != y0):
            x1, y1 = controls[k, 0], controls[k, 1]
        elif not east and (controls[k, 2] != x1 or controls[k, 3] != y1):
            x0, y0 = controls[k, 2], controls[k, 3]
    dx, dy = float(x1 - x0), float(y1 - y0)
    size = max(np.sqrt(dx * dx + dy * dy), 1e-9)
    return dx / size, dy / size


@kernel
def moved(points: Array, offsets: Array, controls: Array, curved: Array, side: Array) -> tuple[Array, Array]:
    """Vertices and control points moved by side[arc] units to the right of their arc's way."""
    new_points, new_controls = points.copy(), controls.copy()
    for arc in range(len(offsets) - 1):
        first, last = offsets[arc], offsets[arc + 1] - 1
        if side[arc] == 0.0:
            continue
        ring = points[first, 0] == points[last, 0] and points[first, 1] == points[last, 1]
        for k in range(first, last + 1):
            in_x, in_y, out_x, out_y = 0.0, 0.0, 0.0, 0.0
            if k > first or ring:
                in_x, in_y = way(points, controls, curved, k if k > first else last, False)
            if k < last or ring:
                out_x, out_y = way(points, controls, curved, (k if k < last else first) + 1, True)
            x, y = in_x + out_x, in_y + out_y
            size = max(np.sqrt(x * x + y * y), 0.5)
            shift_x, shift_y = int(np.rint(-y / size * side[arc])), int(np.rint(x / size * side[arc]))
            new_points[k, 0] += shift_x
            new_points[k, 1] += shift_y
            if len(curved) > 0:
                if k > first and curved[k]:
                    new_controls[k, 2] += shift_x
                    new_controls[k, 3] += shift_y
                if k < last and curved[k + 1]:
                    new_controls[k + 1, 0] += shift_x
                    new_controls[k + 1, 1] += shift_y
    return new_points, new_controls
