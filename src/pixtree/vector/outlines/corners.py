"""Samples next to corners: a pixel that two edges cross says where one of them runs once the other's share is taken out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.placement import Samples, beside, contrast, crack_middles, place_junctions

Array = NDArray[Any]
PURE = 0.08  # share of the other colour up to which a pixel counts as one colour
STEADY = 0.08  # difference of two pixels that one edge, along the line through both, divides alike
SAME = 0.01  # squared difference of two colours that count as one, as a share of the contrast of an edge
LEAST = 0.25  # share of the own colour below which a pixel says too little


def place_sharp_samples(labels: NDArray[np.int32], arcs: PlanarMap, planes: Array, colours: Array) -> Samples:
    """As `place_samples`, but blends of pixels that a second edge crosses count by what this edge leaves of them.

    Where the two pixels behind one on the line across the crack are blends alike, an edge runs along that line: the end of a stem,
    or a corner. Their share is then what the pixel would hold if it were whole. A line one pixel wide has both of its edges in the
    same pixel, and each leaves half of what the line does not fill.
    """
    points, offsets = crack_middles(arcs.offsets, arcs.corners)
    shift_by_share(labels, arcs.left, arcs.right, arcs.offsets, arcs.corners, planes, colours, points)
    place_junctions(arcs.offsets, arcs.corners, points, offsets, *arcs.shape)
    return Samples(points, offsets)


@inlined
def share_of(planes: Array, x: int, y: int, base: Array, step: Array, squared: float) -> Any:
    """Share 0…1 of the colour base + step in the blend of a pixel with the colour base."""
    total = 0.0
    for c in range(planes.shape[0]):
        total += (planes[c, y, x] - base[c]) * step[c]
    return min(max(total / squared, 0.0), 1.0)


@inlined
def is_like(labels: Array, x: int, y: int, colours: Array, base: Array, squared: float) -> Any:
    """Whether the region of a pixel has the colour `base`; not outside the image."""
    if not (0 <= x < labels.shape[1] and 0 <= y < labels.shape[0]) or labels[y, x] < 0:
        return False
    difference = 0.0
    for c in range(colours.shape[1]):
        difference += (colours[labels[y, x], c] - base[c]) ** 2
    return difference <= SAME * squared


@inlined
def own_share(
    labels: Array,
    planes: Array,
    colours: Array,
    x: int,
    y: int,
    east: int,
    south: int,
    base: Array,
    step: Array,
    squared: float,
) -> Any:
    """Share in pixel (x, y) of the colour base + step, relative to that of the pixels behind it in direction (east, south)."""
    share = share_of(planes, x, y, base, step, squared)
    if is_like(labels, x + east, y + south, colours, base, squared):  # a line one pixel wide
        return 0.5 * (1.0 + share)
    far_x, far_y = x + 2 * east, y + 2 * south
    if not (0 <= far_x < planes.shape[2] and 0 <= far_y < planes.shape[1]):
        return share
    behind = share_of(planes, x + east, y + south, base, step, squared)
    farther = share_of(planes, far_x, far_y, base, step, squared)
    if LEAST <= behind < 1.0 - PURE and abs(behind - farther) <= STEADY:
        return min(share / behind, 1.0)
    return share


@kernel
def shift_by_share(
    labels: Array, left: Array, right: Array, offsets: Array, corners: Array, planes: Array, colours: Array, points: Array
) -> None:
    """Shift crack middles; `points` as `crack_middles` made them."""
    for arc in range(len(left)):
        squared = contrast(left[arc], right[arc], colours)
        if squared < 1.0:
            continue
        base, other = colours[left[arc]], colours[right[arc]]
        step = other - base
        for k in range(offsets[arc], offsets[arc + 1] - 1):
            east, south = corners[k + 1, 0] - corners[k, 0], corners[k + 1, 1] - corners[k, 1]
            right_x, right_y, left_x, left_y = beside(corners[k, 0], corners[k, 1], east, south)
            on_right = own_share(labels, planes, colours, right_x, right_y, -south, east, base, step, squared)
            on_left = 1.0 - own_share(labels, planes, colours, left_x, left_y, south, -east, other, -step, squared)
            shift = on_right + on_left - 1.0
            points[k + arc + 1, 0] += south * shift
            points[k + arc + 1, 1] -= east * shift
