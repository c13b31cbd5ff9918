"""Crack following: the boundaries of a label map as arcs between two regions, as loops around a region, and as rings of corners.

A crack is a unit edge of the lattice of pixel corners between two pixels of different label (or a pixel and the outside, −1).
Corner (x, y) is the upper left corner of pixel (row y, column x). Travelling along an arc, its `right` region lies on the right as
seen on screen (y grows downwards) and its `left` region on the left. Junctions are corners where three or four cracks meet, and
where the image's border is left or turns; an arc without junctions is a closed ring. Every crack is followed once; loops and rings
are chains of arcs, with their region on the right, so that outer rings have positive area in the shoelace formula over (x, y) and
holes a negative one.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined, kernel, part

Array = NDArray[Any]
Integers = NDArray[np.integer]
EITHER, TURN_RIGHT, TURN_LEFT = 0, 1, 3  # which way a loop takes where its region touches itself at a corner


def boundary_pixels(labels: Integers) -> NDArray[np.bool_]:
    """Pixels (H, W) whose right or lower neighbour has another label: thin closed lines."""
    found = np.zeros(labels.shape, dtype=bool)
    found[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    found[:-1] |= labels[1:] != labels[:-1]
    return found


@dataclass(frozen=True, eq=False)
class PlanarMap:
    """Arcs and shapes of a label map; every arc is part of one or two shapes, and the shapes tile the labelled pixels.

    corners[offsets[i]:offsets[i + 1]] are the lattice corners of arc i, first and last included. Shape r has the loops
    loop_offsets[shape_offsets[r]:shape_offsets[r + 1] + 1] into `loops`, whose entry i ≥ 0 is arc i forwards and ~i is arc i
    backwards.
    """

    shape: tuple[int, int]
    left: NDArray[np.int32]  # (A,)
    right: NDArray[np.int32]  # (A,)
    offsets: NDArray[np.int32]  # (A + 1,)
    corners: NDArray[np.int32]  # (P, 2) x, y
    loops: NDArray[np.int32]
    loop_offsets: NDArray[np.int32]
    shape_offsets: NDArray[np.int32]  # (N + 1,)

    @property
    def count(self) -> int:
        """Number of shapes."""
        return len(self.shape_offsets) - 1


def planar_map(labels: NDArray[np.int32], turn: int = EITHER) -> PlanarMap:
    """The planar map of a label map (H, W) int32 with regions 0…N−1, −1 outside. Linear time.

    turn: which way loops take where a region touches itself at a corner; either covers the same pixels.
    """
    height, width = labels.shape
    framed = np.full((height + 2, width + 2), -1, np.int32)
    framed[1:-1, 1:-1] = labels
    arcs = trace_arcs(framed)
    return PlanarMap((height, width), *arcs, *chain_loops(*arcs, int(labels.max()) + 1, height, width, turn))


class Rings(NamedTuple):
    """Closed rings of all regions, sorted by region; of a 4-connected region the outer ring comes first, then its holes.

    Ring i has the corners `corners[offsets[i]:offsets[i + 1]]`; the last is joined to the first, which is not repeated.
    """

    corners: NDArray[np.int64]  # (K, 2) x, y
    offsets: NDArray[np.int64]  # (R + 1,)
    region: NDArray[np.int64]  # (R,) label
    area: NDArray[np.int64]  # (R,) signed, in pixels: positive outer rings, negative holes

    def ring(self, index: int) -> NDArray[np.int64]:
        """Corners (x, y) of one ring."""
        return self.corners[self.offsets[index] : self.offsets[index + 1]]


def rings(labels: Integers, *, simple: bool = False) -> Rings:
    """Outlines of every region of a label map (H, W); negative labels are outside and have none.

    Where two pixels of one region touch at a corner only, the outline turns so that the touch does not join them: every
    4-connected piece has one outer ring. Such a ring may pass a corner twice. With `simple=True` the two passes are
    exchanged: for 4-connected regions no ring then meets itself, rings only touch at corners (what polygon formats ask
    for). Each ring starts at its first crack by pixel and direction, and rings are sorted by region and first crack. Linear time
    but for sorting the rings.
    """
    if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer):
        got = f"{labels.dtype} of shape {labels.shape}"
        raise ValueError(f"a label map is an integer array of shape (H, W), got {got}; pass one image's labels")
    outside = labels < 0
    present, numbers = np.unique(np.where(outside, labels.max(initial=0), labels), return_inverse=True)
    numbered = np.where(outside, -1, numbers.reshape(labels.shape)).astype(np.int32)
    arcs = planar_map(numbered, TURN_LEFT if simple else TURN_RIGHT)
    corners, offsets = _loop_corners(arcs)
    region = np.repeat(np.arange(arcs.count), np.diff(arcs.shape_offsets))
    found = _from_first_crack(corners, offsets, region, labels.shape[1])
    return found._replace(region=present[found.region].astype(np.int64))


def _loop_corners(arcs: PlanarMap) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Corners (K, 2) of all loops, each once per passage, and offsets (R + 1,) of the loops."""
    arc = np.where(arcs.loops >= 0, arcs.loops, ~arcs.loops)
    length = (arcs.offsets[arc + 1] - arcs.offsets[arc] - 1).astype(np.int64)  # the last corner is the next arc's first
    ends = np.append(0, np.cumsum(length))
    along = np.arange(ends[-1]) - np.repeat(ends[:-1], length)
    forwards = np.repeat(arcs.loops >= 0, length)
    begin, end = np.repeat(arcs.offsets[arc], length), np.repeat(arcs.offsets[arc + 1] - 1, length)
    return arcs.corners[np.where(forwards, begin + along, end - along)].astype(np.int64), ends[arcs.loop_offsets]


def _from_first_crack(corners: NDArray[np.int64], offsets: NDArray[np.int64], region: NDArray[np.int64], width: int) -> Rings:
    """Rings that start at their first crack, by pixel on its right and direction, sorted by region and first crack."""
    if len(offsets) == 1:
        return Rings(corners, offsets, region, np.zeros(0, np.int64))
    step = corners[_next_in_ring(offsets)] - corners
    direction = np.where(step[:, 0] != 0, 1 - step[:, 0], 2 - step[:, 1])  # 0 east, 1 south, 2 west, 3 north
    column = corners[:, 0] - np.isin(direction, (1, 2))
    row = corners[:, 1] - np.isin(direction, (2, 3))
    crack = (row * width + column) * 4 + direction
    first = np.minimum.reduceat(crack, offsets[:-1])
    order = np.lexsort((first, region))
    length = np.diff(offsets)
    start = np.flatnonzero(crack == np.repeat(first, length)) - offsets[:-1]  # a crack is in one ring only
    moved = np.append(0, np.cumsum(length[order]))
    along = np.arange(moved[-1]) - np.repeat(moved[:-1], length[order])
    turned = (along + np.repeat(start[order], length[order])) % np.repeat(length[order], length[order])
    sorted_corners = corners[np.repeat(offsets[:-1][order], length[order]) + turned]
    return Rings(sorted_corners, moved, region[order], ring_areas(sorted_corners, moved))


def ring_areas(corners: NDArray[np.int64], offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Signed areas (R,) of rings by the shoelace formula; exact, as rings on the lattice have an even double area."""
    if len(offsets) == 1:
        return np.zeros(0, dtype=np.int64)
    x, y = corners.T
    following = _next_in_ring(offsets)
    doubled: NDArray[np.int64] = np.add.reduceat(x * y[following] - x[following] * y, offsets[:-1])
    return doubled // 2


def without_collinear(found: Rings) -> Rings:
    """The same rings with only the corners where they turn."""
    following = _next_in_ring(found.offsets)
    step = found.corners[following] - found.corners
    turns = np.zeros(len(step), dtype=bool)
    turns[following] = (step != step[following]).any(axis=1)
    offsets = np.append(0, np.cumsum(turns))[found.offsets]
    return found._replace(corners=found.corners[turns], offsets=offsets)


def _next_in_ring(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index (K,) of the corner after each corner, the last of a ring being followed by its first."""
    following = np.arange(1, offsets[-1] + 1)
    following[offsets[1:] - 1] = offsets[:-1]
    return following


# Directions 0 east, 1 south, 2 west, 3 north. `framed` has a frame of −1, so pixel (row, column) is framed[row + 1, column + 1].
@inlined
def side_right(framed: Array, x: int, y: int, direction: int) -> Any:
    """Label on the right of the crack that leaves corner (x, y)."""
    if direction == 0:
        return framed[y + 1, x + 1]
    if direction == 1:
        return framed[y + 1, x]
    if direction == 2:
        return framed[y, x]
    return framed[y, x + 1]


@inlined
def step_x(direction: int) -> Any:
    """Columns that a step goes east."""
    return 1 if direction == 0 else (-1 if direction == 2 else 0)


@inlined
def step_y(direction: int) -> Any:
    """Rows that a step goes south."""
    return 1 if direction == 1 else (-1 if direction == 3 else 0)


@part(allocates=True)
def crack_bits(framed: Array) -> tuple[Array, int]:
    """Which of the four steps from each corner are cracks, as bits (H + 1, W + 1) uint8, and the number of cracks."""
    height, width = framed.shape[0] - 2, framed.shape[1] - 2
    bits = np.zeros((height + 1, width + 1), np.uint8)
    total = 0
    for y in range(height + 1):
        for x in range(width + 1):
            north_west, north_east = framed[y, x], framed[y, x + 1]
            south_west, south_east = framed[y + 1, x], framed[y + 1, x + 1]
            found = 0
            if north_east != south_east:
                found |= 1
                total += 1
            if south_west != south_east:
                found |= 2
                total += 1
            if north_west != south_west:
                found |= 4
            if north_west != north_east:
                found |= 8
            bits[y, x] = found
    return bits, total


@inlined
def is_junction(bits: int, x: int, y: int, width: int, height: int) -> Any:
    """Three or four cracks; on the border of the image, all but straight on."""
    upright, level = x == 0 or x == width, y == 0 or y == height
    if upright and level:
        return bits != 0
    if upright or level:
        return bits not in (0, 10 if upright else 5)
    return bits in (7, 11, 13, 14, 15)


@kernel
def trace_arcs(framed: Array) -> tuple[Array, Array, Array, Array]:
    """Arcs from junctions first, then the rings that touch none; each crack is followed once."""
    bits, total = crack_bits(framed)
    height, width = bits.shape[0] - 1, bits.shape[1] - 1
    unseen = bits.copy()
    corners = np.empty((2 * total + 4, 2), np.int32)
    offsets = np.empty(total + 2, np.int32)
    left, right = np.empty(total + 1, np.int32), np.empty(total + 1, np.int32)
    points, arcs = 0, 0
    for rings in range(2):
        for start_y in range(height + 1):
            for start_x in range(width + 1):
                if unseen[start_y, start_x] == 0:
                    continue
                if rings == 0 and not is_junction(bits[start_y, start_x], start_x, start_y, width, height):
                    continue
                for first in range(4):
                    if unseen[start_y, start_x] & (1 << first) == 0:
                        continue
                    x, y, direction = start_x, start_y, first
                    offsets[arcs] = points
                    right[arcs] = side_right(framed, x, y, direction)
                    left[arcs] = side_right(framed, x, y, (direction + 3) % 4)
                    corners[points, 0], corners[points, 1] = x, y
                    points += 1
                    while True:
                        unseen[y, x] &= ~(1 << direction) & 15
                        x += step_x(direction)
                        y += step_y(direction)
                        back = (direction + 2) % 4
                        unseen[y, x] &= ~(1 << back) & 15
                        corners[points, 0], corners[points, 1] = x, y
                        points += 1
                        if (x == start_x and y == start_y) or is_junction(bits[y, x], x, y, width, height):
                            break
                        onward = bits[y, x] & ~(1 << back) & 15
                        direction = 0
                        while onward >> direction & 1 == 0:
                            direction += 1
                    arcs += 1
    offsets[arcs] = points
    return left[:arcs].copy(), right[:arcs].copy(), offsets[: arcs + 1].copy(), corners[:points].copy()


@kernel
def chain_loops(
    left: Array, right: Array, offsets: Array, corners: Array, count: int, height: int, width: int, turn: int
) -> tuple[Array, Array, Array]:
    """Closed loops of signed arcs per region, the region on the right of each; `turn`: how they continue where regions touch.

    One function, because its seven arrays would otherwise be arguments of every part.
    """
    arcs = len(left)
    start = np.zeros(count + 1, np.int32)
    for arc in range(arcs):
        if right[arc] >= 0:
            start[right[arc] + 1] += 1
        if left[arc] >= 0:
            start[left[arc] + 1] += 1
    for region in range(count):
        start[region + 1] += start[region]
    half = np.empty(start[count], np.int32)
    place = start[:-1].copy()
    for arc in range(arcs):
        if right[arc] >= 0:
            half[place[right[arc]]] = arc
            place[right[arc]] += 1
        if left[arc] >= 0:
            half[place[left[arc]]] = ~arc
            place[left[arc]] += 1
    waiting = np.full((height + 1) * (width + 1), -1, np.int32)  # half-arcs of the region that start at a corner
    following = np.empty(len(half), np.int32)
    loops = np.empty(len(half), np.int32)
    loop_offsets = np.empty(len(half) + 1, np.int32)
    shape_offsets = np.empty(count + 1, np.int32)
    used, closed = 0, 0
    for region in range(count):
        shape_offsets[region] = closed
        for k in range(start[region + 1] - 1, start[region] - 1, -1):
            corner = end_corner(half[k], offsets, corners, width, False)
            following[k] = waiting[corner]
            waiting[corner] = k
        for k in range(start[region], start[region + 1]):
            first = end_corner(half[k], offsets, corners, width, False)
            if waiting[first] < 0:
                continue
            loop_offsets[closed] = used
            closed += 1
            corner, wanted, start_direction = first, -1, -1
            while True:
                taken = waiting[corner]
                other = following[taken]
                if other >= 0 and wanted >= 0 and end_direction(half[other], offsets, corners, False) == wanted:
                    following[taken] = following[other]
                    taken = other
                else:
                    waiting[corner] = other
                if used == loop_offsets[closed - 1]:
                    start_direction = end_direction(half[taken], offsets, corners, False)
                loops[used] = half[taken]
                used += 1
                corner = end_corner(half[taken], offsets, corners, width, True)
                if turn != EITHER:
                    wanted = (end_direction(half[taken], offsets, corners, True) + turn) % 4
                if corner == first and (turn == EITHER or wanted == start_direction or waiting[corner] < 0):
                    break
    shape_offsets[count] = closed
    loop_offsets[closed] = used
    return loops, loop_offsets[: closed + 1].copy(), shape_offsets


@inlined
def end_corner(half: int, offsets: Array, corners: Array, width: int, last: bool) -> Any:
    """Number of the first or last corner of a signed arc."""
    arc = half if half >= 0 else ~half
    point = offsets[arc + 1] - 1 if (half >= 0) == last else offsets[arc]
    return corners[point, 1] * (width + 1) + corners[point, 0]


@inlined
def end_direction(half: int, offsets: Array, corners: Array, last: bool) -> Any:
    """Direction of travel along the first or last crack of a signed arc."""
    arc = half if half >= 0 else ~half
    point = offsets[arc + 1] - 2 if (half >= 0) == last else offsets[arc]
    east, south = corners[point + 1, 0] - corners[point, 0], corners[point + 1, 1] - corners[point, 1]
    direction = 1 - east if east != 0 else 2 - south
    return direction if half >= 0 else (direction + 2) % 4
