"""Contours of a picture: the arcs between its regions, and how strong each of them is at every sample.

Strength is what a draughtsman sees: the difference in colour just beside the line, in CIELAB, times how far up the tree the two
regions stay apart. Edges of texture are merged early, so fur and grass are weak however sharp their edges are; regions of a smooth
gradient stay apart long, but nothing differs just beside the line between them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap, planar_map
from pixtree.trees.features import image_planes
from pixtree.vector.outlines.placement import Samples, place_samples
from pixtree.vector.regions.blends import without_blends
from pixtree.vector.regions.colours import mean_colours
from pixtree.vector.regions.growing import grow_regions
from pixtree.vector.regions.merging import Agglomeration

Array = NDArray[Any]
REGIONS = 3  # of the finest cut, per stroke asked for
FAINT = 1000.0  # squared error (grey levels²) below which two regions are one: an even area has no arcs to break others
RATIO = 0.8  # of the numbers of regions of one cut and the next
BLUR = 1.0  # pixels, of the picture whose colours are compared
BESIDE = 2.0  # pixels from the line to the colours compared
SMOOTH = 2.0  # samples along the line over which its position is averaged, against the steps of the pixels,
STEADY = 4.0  # and its strength


@dataclass(frozen=True, eq=False)
class Contours:
    """Arcs between regions with the strength (S,) of every sample, in units of ΔE; 0 along the border of the picture."""

    shape: tuple[int, int]
    samples: Samples
    strength: NDArray[np.float64]


def contours_of(planes: NDArray[np.float32], strokes: int) -> Contours:
    """The contours of planes (3, H, W) in 0…255, from as many regions as so many strokes need."""
    most = min(REGIONS * strokes, planes[0].size)
    regions = grow_regions(torch.from_numpy(without_blends(planes)), most=most, cells=1)
    labels = regions.labels(min(most, regions.fewest + int(np.count_nonzero(regions.growth > FAINT))))
    arcs = planar_map(labels)
    placed = place_samples(arcs, planes, mean_colours(labels, planes, arcs.count))
    samples = Samples(np.stack([along(values, placed, SMOOTH) for values in placed.points.T], axis=1), placed.offsets)
    for ends in (placed.offsets[:-1], placed.offsets[1:] - 1):  # where arcs meet, all of them stay
        ends = ends[~is_ring(placed)]
        samples.points[ends] = placed.points[ends]
    strength = contrast_beside(samples, planes) * np.repeat(heights(regions, labels, arcs), np.diff(samples.offsets))
    return Contours(arcs.shape, samples, along(strength, samples, STEADY))


def heights(regions: Agglomeration, labels: NDArray[np.int32], arcs: PlanarMap) -> NDArray[np.float64]:
    """How far up the tree the two sides of every arc (A,) stay apart: 0 not at all, 1 to the top; 0 at the border."""
    values, places = np.unique(labels, return_index=True)
    first = places[values >= 0]  # a pixel of every region
    apart, count, cuts = np.zeros(len(arcs.left)), float(len(first)), 0
    while count >= max(regions.fewest, 2):
        own = regions.labels(int(count)).ravel()[first]
        apart += own[arcs.left] != own[arcs.right]
        count, cuts = count * RATIO, cuts + 1
    return np.where((arcs.left >= 0) & (arcs.right >= 0), apart / max(cuts, 1), 0.0)


def contrast_beside(samples: Samples, planes: NDArray[np.float32]) -> NDArray[np.float64]:
    """The difference ΔE (S,) of the colours on both sides of every sample."""
    from scipy.ndimage import gaussian_filter, map_coordinates

    lab = image_planes(torch.from_numpy(np.clip(planes / 255, 0, 1)), 0.0)[0].reshape(planes.shape).numpy()
    across = BESIDE * normals(samples)
    squared = np.zeros(len(samples.points))
    for plane in lab:
        soft = gaussian_filter(plane, BLUR)
        # (x, y) on the lattice of corners is (y − ½, x − ½) on that of pixels.
        one, two = (
            map_coordinates(soft, (samples.points + side * across - 0.5).T[::-1], order=1, mode="nearest") for side in (-1, 1)
        )
        squared += (one - two) ** 2
    return np.sqrt(squared)


def normals(samples: Samples) -> NDArray[np.float64]:
    """Unit normals (S, 2) of the lines at every sample."""
    points, starts, ends = samples.points, samples.offsets[:-1], samples.offsets[1:] - 1
    direction = np.gradient(points, axis=0)
    direction[starts] = points[starts + 1] - points[starts]
    direction[ends] = points[ends] - points[ends - 1]
    size = np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-9)
    return np.asarray(np.stack((-direction[:, 1], direction[:, 0]), axis=1) / size)


def is_ring(samples: Samples) -> NDArray[np.bool_]:
    """Which arcs (A,) end where they begin."""
    return np.asarray((samples.points[samples.offsets[:-1]] == samples.points[samples.offsets[1:] - 1]).all(axis=1))


def along(values: Array, samples: Samples, reach: float) -> NDArray[np.float64]:
    """Values (S,) averaged along every arc by a Gaussian of so many samples; rings go around."""
    from scipy.ndimage import gaussian_filter1d

    found = np.empty(len(values))
    spans = zip(samples.offsets[:-1].tolist(), samples.offsets[1:].tolist(), is_ring(samples).tolist(), strict=True)
    for begin, end, ring in spans:
        last = end - 1 if ring else end  # the last sample of a ring repeats its first
        found[begin:last] = gaussian_filter1d(
            values[begin:last], min(reach, (last - begin) / 4), mode="wrap" if ring else "nearest"
        )
        found[end - 1] = found[begin] if ring else found[end - 1]
    return found
