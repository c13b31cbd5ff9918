"""Samples next to corners: a pixel that two edges cross says where one of them runs once the other's share is taken out."""

from typing import Any

from numpy.typing import NDArray

from pixtree.kernels.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.placement import Samples, beside, contrast, crack_middles, place_junctions

Array = NDArray[Any]
PURE = 0.08  # share of the other colour up to which a pixel counts as one colour
STEADY = 0.08  # difference of two pixels that one edge, along the line through both, divides alike
LEAST = 0.25  # share of the own colour below which a pixel says too little


def place_sharp_samples(arcs: PlanarMap, planes: Array, colours: Array) -> Samples:
    """As `place_samples`, but blends of pixels that a second edge crosses count by what this edge leaves of them.

    Where the two pixels behind one on the line across the crack are blends alike, an edge runs along that line: the end of a stem,
    or a corner. Their share is then what the pixel would hold if it were whole.
    """
    points, offsets = crack_middles(arcs.offsets, arcs.corners)
    shift_by_share(arcs.left, arcs.right, arcs.offsets, arcs.corners, planes, colours, points)
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
def own_share(planes: Array, x: int, y: int, east: int, south: int, base: Array, step: Array, squared: float) -> Any:
    """Share in pixel (x, y) of the colour base + step, relative to that of the pixels behind it in direction (east, south)."""
    share = share_of(planes, x, y, base, step, squared)
    far_x, far_y = x + 2 * east, y + 2 * south
    if not (0 <= far_x < planes.shape[2] and 0 <= far_y < planes.shape[1]):
        return share
    behind = share_of(planes, x + east, y + south, base, step, squared)
    farther = share_of(planes, far_x, far_y, base, step, squared)
    if LEAST <= behind < 1.0 - PURE and abs(behind - farther) <= STEADY:
        return min(share / behind, 1.0)
    return share


@kernel
def shift_by_share(left: Array, right: Array, offsets: Array, corners: Array, planes: Array, colours: Array, points: Array) -> None:
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
            on_right = own_share(planes, right_x, right_y, -south, east, base, step, squared)
            on_left = 1.0 - own_share(planes, left_x, left_y, south, -east, other, -step, squared)
            shift = on_right + on_left - 1.0
            points[k + arc + 1, 0] += south * shift
            points[k + arc + 1, 1] -= east * shift
