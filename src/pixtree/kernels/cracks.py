"""Crack following: the exact outlines of the regions of a label map.

A crack is a unit edge of the lattice of pixel corners between two pixels of different label (or a pixel and the outside).
Every region has its own directed copy of each of its cracks, with the region on the right as seen on screen (y grows
downwards), so outer rings have positive area in the shoelace formula over (x, y) and holes a negative one. Corner (x, y) is the
upper left corner of pixel (row y, column x). The successor of a crack is index arithmetic; nothing walks pixel by pixel.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.integer]

# Directions as (row, column) steps: east along a pixel's upper side, south along its right side, west along its lower, north.
STEPS = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])
# From a pixel to the corner where its crack of each direction starts.
STARTS = np.array([(0, 0), (0, 1), (1, 1), (1, 0)])


def boundary_pixels(labels: Integers) -> NDArray[np.bool_]:
    """Pixels (H, W) whose right or lower neighbour has another label: thin closed lines."""
    found = np.zeros(labels.shape, dtype=bool)
    found[:, :-1] |= labels[:, 1:] != labels[:, :-1]
    found[:-1] |= labels[1:] != labels[:-1]
    return found


class Cracks(NamedTuple):
    """Directed cracks of all regions, sorted by pixel and then direction; E of them.

    A crack of direction d (0 east, 1 south, 2 west, 3 north) bounds its pixel on the upper, right, lower, left side.
    """

    pixel: NDArray[np.int64]  # (E,) row * W + column of the pixel on the right of the crack
    direction: NDArray[np.int64]  # (E,) 0..3


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


def checked_labels(labels: Integers) -> NDArray[np.int64]:
    """A label map (H, W) as signed integers, so that negative labels can mean outside."""
    if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer):
        got = f"{labels.dtype} of shape {labels.shape}"
        raise ValueError(f"a label map is an integer array of shape (H, W), got {got}; pass one image's labels")
    return labels.astype(np.int64, copy=False)


def rings(labels: Integers, *, simple: bool = False) -> Rings:
    """Outlines of every region of a label map (H, W); negative labels are outside and have none.

    Where two pixels of one region touch at a corner only, the outline turns so that the touch does not join them: every
    4-connected piece has one outer ring. Such a ring may pass a corner twice. With `simple=True` the two passes are
    exchanged: for 4-connected regions no ring then meets itself, rings only touch at corners (what polygon formats ask
    for). O(E log E).
    """
    signed = checked_labels(labels)
    cracks = find_cracks(signed)
    order, offsets = cycles(successors(signed, cracks, simple=simple))
    corners = starts(cracks, signed.shape[1])[order]
    region = signed.ravel()[cracks.pixel[order[offsets[:-1]]]]
    found = Rings(corners, offsets, region, ring_areas(corners, offsets))
    return _sorted_by_region(found)


def find_cracks(labels: NDArray[np.int64]) -> Cracks:
    """Directed cracks of a label map (H, W): where a pixel's neighbour has another label or is not there."""
    sides = np.ones((*labels.shape, 4), dtype=bool)  # HW -> HWD
    across, along = labels[:, 1:] != labels[:, :-1], labels[1:] != labels[:-1]
    sides[1:, :, 0] = sides[:-1, :, 2] = along
    sides[:, :-1, 1] = sides[:, 1:, 3] = across
    sides[labels < 0] = False
    edges = np.flatnonzero(sides)
    return Cracks(edges // 4, edges % 4)


def starts(cracks: Cracks, width: int) -> NDArray[np.int64]:
    """Corners (E, 2) as x, y where the cracks start."""
    row_column: NDArray[np.int64] = np.stack(np.divmod(cracks.pixel, width), axis=1) + STARTS[cracks.direction]
    return row_column[:, ::-1]


def successors(labels: NDArray[np.int64], cracks: Cracks, *, simple: bool = False) -> NDArray[np.int64]:
    """Index (E,) of the crack that follows each crack around its region: a permutation.

    Ahead of a crack lie a pixel on the right and one on the left. Right not of the region: turn right, around the crack's
    own pixel; both of the region: turn left; else go straight on. Only left of the region is a touch at a corner, which
    `simple` crosses by turning left as well.
    """
    row, column = np.divmod(cracks.pixel, labels.shape[1])
    region = labels.ravel()[cracks.pixel]
    direction = cracks.direction
    padded = np.pad(labels, 1, constant_values=-1)  # cracks belong to labels >= 0, so the frame equals none of them
    step, left = STEPS[direction], STEPS[direction - 1]
    ahead = np.stack((row, column), axis=1) + step
    right_same = padded[ahead[:, 0] + 1, ahead[:, 1] + 1] == region
    left_same = padded[ahead[:, 0] + left[:, 0] + 1, ahead[:, 1] + left[:, 1] + 1] == region
    turn_left = left_same if simple else left_same & right_same
    straight = right_same & ~turn_left
    target = np.where(turn_left[:, None], ahead + left, np.where(straight[:, None], ahead, ahead - step))
    turned = np.where(turn_left, direction + 3, np.where(straight, direction, direction + 1)) % 4
    index = np.empty(labels.size * 4, dtype=np.int64)
    index[cracks.pixel * 4 + direction] = np.arange(len(direction))
    following: NDArray[np.int64] = index[(target[:, 0] * labels.shape[1] + target[:, 1]) * 4 + turned]
    return following


def cycles(successor: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cycles of a permutation (E,): all elements cycle after cycle (E,), and where each cycle begins (R + 1,).

    Each cycle starts at its smallest element; cycles are sorted by it. Pointer doubling, O(E log longest).
    """
    count = len(successor)
    leader, jump = np.arange(count), successor
    while True:
        smaller = np.minimum(leader, leader[jump])
        if np.array_equal(smaller, leader):
            break
        leader, jump = smaller, jump[jump]
    order = np.lexsort((-_steps_to_end(successor, leader), leader))
    first = np.flatnonzero(np.diff(leader[order], prepend=-1))
    return order, np.append(first, count)


def _steps_to_end(successor: NDArray[np.int64], leader: NDArray[np.int64]) -> NDArray[np.int64]:
    """Steps (E,) from each element to the last of its cycle, the one before the leader."""
    itself = np.arange(len(successor))
    last = leader[successor] == successor
    jump = np.where(last, itself, successor)
    steps: NDArray[np.int64] = (~last).astype(np.int64)
    while not np.array_equal(jump[jump], jump):
        steps, jump = steps + steps[jump], jump[jump]
    return steps


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


def degrees(labels: Integers) -> NDArray[np.int64]:
    """Number of undirected cracks (H + 1, W + 1) that meet at each corner, the frame of the image included.

    0 inside a region, 2 on a boundary, 3 or 4 at the junctions where arcs between regions end.
    """
    padded = np.pad(np.maximum(checked_labels(labels), -1), 1, constant_values=-1)
    upright: NDArray[np.int64] = (padded[:, 1:] != padded[:, :-1]).astype(np.int64)
    level: NDArray[np.int64] = (padded[1:] != padded[:-1]).astype(np.int64)
    meeting: NDArray[np.int64] = upright[1:] + upright[:-1] + level[:, 1:] + level[:, :-1]
    return meeting


def _next_in_ring(offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Index (K,) of the corner after each corner, the last of a ring being followed by its first."""
    following = np.arange(1, offsets[-1] + 1)
    following[offsets[1:] - 1] = offsets[:-1]
    return following


def _sorted_by_region(found: Rings) -> Rings:
    """Rings by region; within one they keep their order, by first pixel."""
    order = np.argsort(found.region, kind="stable")
    lengths = np.diff(found.offsets)[order]
    offsets = np.append(0, np.cumsum(lengths))
    moved = np.repeat(found.offsets[order] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Rings(found.corners[moved], offsets, found.region[order], found.area[order])
