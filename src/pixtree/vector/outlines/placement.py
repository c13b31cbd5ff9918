"""Where arcs run below the pixel: samples at the middles of cracks, shifted along their normal according to the colours.

A pixel at a boundary is a blend of the colours on both sides; how much of either it holds says where the boundary crosses it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Samples:
    """Points (S, 2) float64 x, y of all arcs: first corner, a point per crack, last corner; offsets (A + 1,)."""

    points: NDArray[np.float64]
    offsets: NDArray[np.int32]


def place_samples(arcs: PlanarMap, planes: Array, colours: Array) -> Samples:
    """Samples where the blends of the pixels on both sides put them; planes (3, H, W), colours (N, 3), one scale.

    Shift α(P) + α(Q) − 1 towards the left region, α(I) = clip((I − c_left)·d/|d|², 0, 1), d = c_right − c_left. The image's border
    and borders to the outside stay; junctions go to the mean of the samples next to them.
    """
    points, offsets = crack_middles(arcs.offsets, arcs.corners)
    shift_by_blend(arcs.left, arcs.right, arcs.offsets, arcs.corners, planes, colours, points)
    place_junctions(arcs.offsets, arcs.corners, points, offsets, *arcs.shape)
    return Samples(points, offsets)


@kernel
def crack_middles(offsets: Array, corners: Array) -> tuple[Array, Array]:
    """End corners and crack middles; an arc of k corners has k + 1 samples."""
    arcs = len(offsets) - 1
    points = np.empty((offsets[arcs] + arcs, 2))
    starts = np.empty(arcs + 1, np.int32)
    for arc in range(arcs):
        begin, end = offsets[arc], offsets[arc + 1]
        starts[arc] = begin + arc
        for c in range(2):
            points[begin + arc, c] = corners[begin, c]
            for k in range(begin, end - 1):
                points[k + arc + 1, c] = 0.5 * (corners[k, c] + corners[k + 1, c])
            points[end + arc, c] = corners[end - 1, c]
    starts[arcs] = offsets[arcs] + arcs
    return points, starts


@inlined
def contrast(left: int, right: int, colours: Array) -> Any:
    """Squared distance of the colours of two regions; 0 where one is the outside."""
    if left < 0 or right < 0:
        return 0.0
    squared = 0.0
    for c in range(colours.shape[1]):
        step = colours[right, c] - colours[left, c]
        squared += step * step
    return squared


@kernel
def shift_by_blend(left: Array, right: Array, offsets: Array, corners: Array, planes: Array, colours: Array, points: Array) -> None:
    """Shift crack middles; `points` as `crack_middles` made them."""
    for arc in range(len(left)):
        squared = contrast(left[arc], right[arc], colours)
        if squared < 1.0:
            continue
        for k in range(offsets[arc], offsets[arc + 1] - 1):
            east, south = corners[k + 1, 0] - corners[k, 0], corners[k + 1, 1] - corners[k, 1]
            right_x, right_y, left_x, left_y = beside(corners[k, 0], corners[k, 1], east, south)
            on_right, on_left = 0.0, 0.0
            for c in range(colours.shape[1]):
                base, step = colours[left[arc], c], colours[right[arc], c] - colours[left[arc], c]
                on_right += (planes[c, right_y, right_x] - base) * step
                on_left += (planes[c, left_y, left_x] - base) * step
            shift = min(max(on_right / squared, 0.0), 1.0) + min(max(on_left / squared, 0.0), 1.0) - 1.0
            points[k + arc + 1, 0] += south * shift
            points[k + arc + 1, 1] -= east * shift


@inlined
def beside(x: int, y: int, east: int, south: int) -> Any:
    """Pixels (column, row) on the right and on the left of the crack that leaves corner (x, y)."""
    if east == 1:
        return x, y, x, y - 1
    if east == -1:
        return x - 1, y - 1, x - 1, y
    if south == 1:
        return x - 1, y, x, y
    return x, y - 1, x - 1, y - 1


@kernel
def place_junctions(offsets: Array, corners: Array, points: Array, starts: Array, height: int, width: int) -> None:
    """Arc ends to the mean of the samples next to them; those on the border of the image stay."""
    near = np.zeros(((height + 1) * (width + 1), 3), np.float32)
    arcs = len(offsets) - 1
    for arc in range(arcs):
        for last in range(2):
            corner = corners[offsets[arc + 1] - 1] if last else corners[offsets[arc]]
            sample = starts[arc + 1] - 2 if last else starts[arc] + 1
            place = corner[1] * (width + 1) + corner[0]
            near[place, 0] += points[sample, 0] - corner[0]
            near[place, 1] += points[sample, 1] - corner[1]
            near[place, 2] += 1
    for arc in range(arcs):
        for last in range(2):
            corner = corners[offsets[arc + 1] - 1] if last else corners[offsets[arc]]
            sample = starts[arc + 1] - 1 if last else starts[arc]
            place = corner[1] * (width + 1) + corner[0]
            inside = 0 < corner[0] < width and 0 < corner[1] < height
            points[sample, 0] = corner[0] + (near[place, 0] / near[place, 2] if inside else 0.0)
            points[sample, 1] = corner[1] + (near[place, 1] / near[place, 2] if inside else 0.0)
