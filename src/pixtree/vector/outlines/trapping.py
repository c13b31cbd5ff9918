"""Trapping: plain paths without gaps, in the way printers do it. Shapes are painted from large to small; a shape runs a little
under each neighbour that is painted after it, and over its holes, because what fills them is painted after it as well.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import EITHER, PlanarMap, chain_loops
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.pieces import Outlines, flattened

Array = NDArray[Any]
TRAP = 0.6  # pixels that a shape runs under its neighbours


def painting_order(arcs: PlanarMap, outlines: Outlines) -> NDArray[np.int64]:
    """Shapes (N,) by the area inside their outer outlines, holes included, largest first: contents of a hole follow its shape."""
    return np.argsort(-outer_areas(arcs, outlines), kind="stable")


def outer_areas(arcs: PlanarMap, outlines: Outlines) -> NDArray[np.float64]:
    """Areas (N,) inside the outer outlines of shapes, holes included, in square pixels of the outlines."""
    area = loop_areas(arcs.loops, arcs.loop_offsets, *flattened(outlines))
    shape = np.repeat(np.arange(arcs.count), np.diff(arcs.shape_offsets))
    return np.bincount(shape, np.maximum(area, 0), arcs.count).astype(np.float64)


def trapped(
    arcs: PlanarMap, outlines: Outlines, order: Array, alpha: Array, distance: float, *, backing: bool = False
) -> tuple[PlanarMap, Outlines]:
    """Loops and outlines for shapes that are painted in `order` (N,): arcs A…2A−1 are arcs 0…A−1 moved under the later shape.

    alpha: (N,) opacity of the shapes, 0 for those that are not drawn. distance: how far arcs are moved under opaque shapes, in
    pixels of the outlines. backing: whether the first opaque shape runs under all opaque shapes that hang together with it, so that
    nothing shows through where many meet. Only loops, their offsets and the outlines of the result are meant to be used.
    """
    rank = np.empty(arcs.count, np.int32)
    rank[order] = np.arange(arcs.count)
    count = len(arcs.left)
    inner = (arcs.left >= 0) & (arcs.right >= 0)
    inner &= (alpha[arcs.left] > 0) & (alpha[arcs.right] > 0)
    towards_left = inner & (rank[arcs.left] > rank[arcs.right])
    inner &= alpha[np.where(towards_left, arcs.left, arcs.right)] == 1  # under a shape that lets light through it would show
    side = np.where(inner, np.where(towards_left, -1.0, 1.0), 0.0)
    own = next((shape for shape in order.tolist() if alpha[shape] == 1), -1) if backing else -1
    below = _hanging_together(arcs, own, alpha)
    inset = _inset(arcs, below, own)
    side = np.where(inset != 0, inset, side) * distance * outlines.unit
    points, controls = moved(outlines.points, outlines.offsets, outlines.controls, outlines.curved, side)
    both = Outlines(
        np.concatenate((outlines.points, points)),
        np.concatenate((outlines.offsets, outlines.offsets[1:] + outlines.offsets[-1])),
        outlines.unit,
        np.concatenate((outlines.controls, controls)),
        np.concatenate((outlines.curved, outlines.curved)),
        np.concatenate((outlines.radii, _moved_radii(outlines, points, side))),
    )
    arc = np.where(arcs.loops >= 0, arcs.loops, ~arcs.loops)
    earlier = inner[arc] & (towards_left[arc] == (arcs.loops >= 0))  # the loop's shape is painted before its neighbour here
    kept = ~_fillable(arcs, earlier, alpha, outlines)
    loops = np.where(earlier, np.where(arcs.loops >= 0, arc + count, ~(arc + count)), arcs.loops).astype(np.int32)
    found = _with_loops(replace(arcs, loops=loops), kept)
    return (_with_backing(found, below, own, inset) if own >= 0 else found), both


def _moved_radii(outlines: Outlines, points: Array, side: Array) -> NDArray[np.int32]:
    """Radii (V,) of arcs after their arc moved by `side` (A,) to its right; 0 where no such circle reaches both `points` (V, 2)."""
    if not len(outlines.radii):
        return outlines.radii
    moved_by = np.repeat(side, np.diff(outlines.offsets))
    radius = np.abs(outlines.radii) - np.sign(outlines.radii) * moved_by
    chord = np.hypot(*(points - np.roll(points, 1, axis=0)).T)
    return np.asarray(np.where(radius > 0.55 * chord, np.sign(outlines.radii) * np.rint(radius), 0), np.int32)


def _hanging_together(arcs: PlanarMap, own: int, alpha: Array) -> NDArray[np.bool_]:
    """The opaque shapes (N,) that are connected with shape `own` through opaque shapes; none for −1."""
    found = np.zeros(arcs.count, np.bool_)
    if own < 0:
        return found
    neighbours, waiting = _neighbours(arcs), [own]
    while waiting:
        shape = waiting.pop()
        if not found[shape] and alpha[shape] == 1:
            found[shape] = True
            waiting += neighbours[shape]
    return found


def _inset(arcs: PlanarMap, below: Array, own: int) -> NDArray[np.float64]:
    """Where arcs (A,) at the rim of the backing move: 1 to their right, −1 to their left; 0 next to its own shape and elsewhere."""
    left, right = below[arcs.left] & (arcs.left >= 0), below[arcs.right] & (arcs.right >= 0)
    side = np.where(right & ~left & (arcs.right != own), 1.0, 0.0)
    return np.where(left & ~right & (arcs.left != own), -1.0, side)


def _with_backing(arcs: PlanarMap, below: Array, own: int, inset: Array) -> PlanarMap:
    """The map in which shape `own` has the outline of all shapes `below`, moved by `inset`."""
    count = len(inset)
    left, right = (np.where((side >= 0) & below[side], 0, -1).astype(np.int32) for side in (arcs.left, arcs.right))
    both = (left == 0) & (right == 0)
    left[both], right[both] = -1, -1
    loops, loop_offsets, _ = chain_loops(left, right, arcs.offsets, arcs.corners, 1, *arcs.shape, EITHER)
    arc = np.where(loops >= 0, loops, ~loops)
    rim = np.where(inset[arc] != 0, np.where(loops >= 0, arc + count, ~(arc + count)), loops).astype(np.int32)
    first, last = arcs.shape_offsets[own], arcs.shape_offsets[own + 1]
    begin, end = arcs.loop_offsets[first], arcs.loop_offsets[last]
    added = len(rim) - (end - begin)
    shape_offsets = arcs.shape_offsets.copy()
    shape_offsets[own + 1 :] += len(loop_offsets) - 1 - (last - first)
    return replace(
        arcs,
        loops=np.concatenate((arcs.loops[:begin], rim, arcs.loops[end:])),
        loop_offsets=np.concatenate(
            (arcs.loop_offsets[:first], begin + loop_offsets, arcs.loop_offsets[last + 1 :] + added)
        ).astype(np.int32),
        shape_offsets=shape_offsets,
    )


def _fillable(arcs: PlanarMap, earlier: Array, alpha: Array, outlines: Outlines) -> NDArray[np.bool_]:
    """Loops (R,) around holes that their shape may cover: all that lies inside is opaque and painted later."""
    area = loop_areas(arcs.loops, arcs.loop_offsets, *flattened(outlines))
    if not len(area):
        return np.zeros(0, np.bool_)
    holes: NDArray[np.bool_] = np.logical_and.reduceat(earlier, arcs.loop_offsets[:-1]) & (area < 0)
    if alpha.min() == 1:
        return holes
    neighbours = _neighbours(arcs)
    shape = np.repeat(np.arange(arcs.count), np.diff(arcs.shape_offsets))
    for loop in np.flatnonzero(holes).tolist():
        own, seen = int(shape[loop]), {int(shape[loop])}
        signed = arcs.loops[arcs.loop_offsets[loop] : arcs.loop_offsets[loop + 1]]
        waiting = [int(arcs.left[half] if half >= 0 else arcs.right[~half]) for half in signed.tolist()]
        while waiting and holes[loop]:
            region = waiting.pop()
            if region not in seen:
                seen.add(region)
                holes[loop] = alpha[region] == 1 and alpha[own] == 1
                waiting += neighbours[region]
    return holes


def _neighbours(arcs: PlanarMap) -> list[list[int]]:
    """The shapes that every shape touches."""
    found: list[list[int]] = [[] for _ in range(arcs.count)]
    for left, right in zip(arcs.left.tolist(), arcs.right.tolist(), strict=True):
        if left >= 0 and right >= 0:
            found[left].append(right)
            found[right].append(left)
    return found


def _with_loops(arcs: PlanarMap, kept: Array) -> PlanarMap:
    """The map with some of its loops (R,) only."""
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
    """Signed areas (R,) of loops of arcs by their vertices, in the points' units squared: positive for outer ones."""
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
