"""The planar map of a partition: junctions, arcs between two regions, each once, and the loops of arcs that bound every region.

Corner (x, y) is the upper left corner of pixel (row y, column x). Travelling along an arc, its `right` region lies on the right as
seen on screen (y grows downwards), its `left` region on the left; −1 stands for outside. Junctions are corners where three or four
cracks meet, and where the image's border is left or turns; an arc without junctions is a closed ring.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined, kernel

Array = NDArray[Any]


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


def planar_map(labels: NDArray[np.int32]) -> PlanarMap:
    """The planar map of a label map (H, W) int32 with regions 0…N−1, −1 outside. Linear time."""
    height, width = labels.shape
    framed = np.full((height + 2, width + 2), -1, np.int32)
    framed[1:-1, 1:-1] = labels
    left, right, offsets, corners = trace_arcs(framed)
    count = int(labels.max()) + 1
    loops, loop_offsets, shape_offsets = chain_loops(left, right, offsets, corners, count, height, width)
    return PlanarMap((height, width), left, right, offsets, corners, loops, loop_offsets, shape_offsets)


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
def is_crack(framed: Array, x: int, y: int, direction: int) -> Any:
    """Whether the labels left and right of the step differ: left of a direction is right of the one before it."""
    return side_right(framed, x, y, direction) != side_right(framed, x, y, (direction + 3) % 4)


@inlined
def step_x(direction: int) -> Any:
    """Columns that a step goes east."""
    return 1 if direction == 0 else (-1 if direction == 2 else 0)


@inlined
def step_y(direction: int) -> Any:
    """Rows that a step goes south."""
    return 1 if direction == 1 else (-1 if direction == 3 else 0)


@kernel
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
    left: Array, right: Array, offsets: Array, corners: Array, count: int, height: int, width: int
) -> tuple[Array, Array, Array]:
    """Closed loops of signed arcs per region, the region on the right of each.

    Where a region touches itself at a corner, either way on closes a loop; both cover the same pixels.
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
            corner = first
            while True:
                taken = waiting[corner]
                waiting[corner] = following[taken]
                loops[used] = half[taken]
                used += 1
                corner = end_corner(half[taken], offsets, corners, width, True)
                if corner == first:
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
