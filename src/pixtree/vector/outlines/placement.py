"""Where arcs run below the pixel: samples at the middles of cracks, shifted along their normal according to the colours.

A pixel at a boundary is a blend of the colours on both sides, and the share of each gives the place where the boundary crosses it.
Next to a corner two edges cross one pixel: it shows where one of them runs once the other's share is taken out.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel

Array = NDArray[Any]
UNKNOWN = np.empty((0, 0), np.int32)  # a label map that is not given
PURE = 0.08  # share of the other colour up to which a pixel counts as one colour
STEADY = 0.08  # difference of two pixels that one edge, along the line through both, divides alike
SAME = 0.01  # squared difference of two colours that count as one, as a share of the contrast of an edge
LEAST = 0.25  # share of its own colour below which a pixel proves too little


class Samples(NamedTuple):
    """Points (S, 2) float64 x, y of all arcs: first corner, a point per crack, last corner; offsets (A + 1,)."""

    points: NDArray[np.float64]
    offsets: NDArray[np.int32]


def place_samples(arcs: PlanarMap, planes: Array, colours: Array, *, labels: Array = UNKNOWN) -> Samples:
    """Samples where the blends of the pixels on both sides put them; planes (C, H, W), colours (N, C), one scale.

    Shift α(P) + α(Q) − 1 towards the left region, α(I) = clip((I − c_left)·d/|d|², 0, 1), d = c_right − c_left. The image's border
    and borders to the outside stay; junctions go to the mean of the samples next to them.

    labels: the label map (H, W) of flat artwork. Pixels that a second edge crosses then count by what this edge leaves of them:
    where the two pixels behind one on the line across the crack are blends alike, an edge runs along that line, as at the end of a
    stem or at a corner. Their share is what the pixel would hold if it were whole. A line one pixel wide has both of its edges in
    the same pixel, and each leaves half of what the line does not fill.
    """
    points, offsets = crack_middles(arcs.offsets, arcs.corners)
    shift_samples(labels, arcs.left, arcs.right, arcs.offsets, arcs.corners, planes, colours, points)
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


@inlined
def across(x: int, y: int, east: int, south: int) -> Any:
    """Pixels (column, row) on the right and on the left of the crack that leaves corner (x, y)."""
    if east == 1:
        return x, y, x, y - 1
    if east == -1:
        return x - 1, y - 1, x - 1, y
    if south == 1:
        return x - 1, y, x, y
    return x, y - 1, x - 1, y - 1


def along_border(arcs: PlanarMap) -> NDArray[np.bool_]:
    """Which arcs (A,) run along the border of the image."""
    here, after = arcs.corners[arcs.offsets[:-1]], arcs.corners[arcs.offsets[:-1] + 1]
    upright, (height, width) = here[:, 0] == after[:, 0], arcs.shape
    place, end = np.where(upright, here[:, 0], here[:, 1]), np.where(upright, width, height)
    return np.asarray((place == 0) | (place == end))


@inlined
def turn_cosine(path: Array, before: int, k: int, after: int) -> Any:
    """Cosine of the change of direction at sample k, between two others: 1 where the line goes straight on."""
    in_x, in_y = path[k, 0] - path[before, 0], path[k, 1] - path[before, 1]
    out_x, out_y = path[after, 0] - path[k, 0], path[after, 1] - path[k, 1]
    size = np.sqrt((in_x * in_x + in_y * in_y) * (out_x * out_x + out_y * out_y))
    return (in_x * out_x + in_y * out_y) / max(size, 1e-9)


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
def own_share(labels: Array, planes: Array, colours: Array, x: int, y: int, east: int, south: int, edge: Any) -> Any:
    """Share in pixel (x, y) of the colour base + step, relative to that of the pixels behind it in direction (east, south).

    edge: base and step (C,), and the squared length of the step.
    """
    base, step, squared = edge
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
def shift_samples(
    labels: Array, left: Array, right: Array, offsets: Array, corners: Array, planes: Array, colours: Array, points: Array
) -> None:
    """Shift crack middles as `place_samples` describes; `points` as `crack_middles` made them."""
    for arc in range(len(left)):
        squared = contrast(left[arc], right[arc], colours)
        if squared < 1.0:
            continue
        base, other = colours[left[arc]], colours[right[arc]]
        step = other - base
        for k in range(offsets[arc], offsets[arc + 1] - 1):
            east, south = corners[k + 1, 0] - corners[k, 0], corners[k + 1, 1] - corners[k, 1]
            right_x, right_y, left_x, left_y = across(corners[k, 0], corners[k, 1], east, south)
            if len(labels) == 0:
                on_right = share_of(planes, right_x, right_y, base, step, squared)
                on_left = share_of(planes, left_x, left_y, base, step, squared)
            else:
                on_right = own_share(labels, planes, colours, right_x, right_y, -south, east, (base, step, squared))
                on_left = 1.0 - own_share(labels, planes, colours, left_x, left_y, south, -east, (other, -step, squared))
            shift = on_right + on_left - 1.0
            points[k + arc + 1, 0] += south * shift
            points[k + arc + 1, 1] -= east * shift
