"""Contours of an image: the arcs between its regions, their strength at every sample, and the strong ones chained to long lines.

Strength is what a draughtsman sees: the difference in colour across the line, in CIELAB, times how far up the tree the two regions
stay apart. Edges of texture are merged early, so fur and grass are weak however sharp their edges are; regions of a smooth
gradient stay apart long, but their colours hardly differ next to the line between them.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap, planar_map
from pixtree.trees.build import image_planes
from pixtree.vector.outlines.placement import Samples, place_samples
from pixtree.vector.regions.colours import mean_colours
from pixtree.vector.regions.growing import grow_regions, without_blends
from pixtree.vector.regions.merging import Agglomeration

Array = NDArray[Any]
REGIONS = 3  # of the finest cut, per stroke asked for
FAINT = 1000.0  # squared error (grey levels²) below which two regions are one: an even area has no arcs to break others
RATIO = 0.8  # of the numbers of regions of one cut and the next
BLUR = 1.0  # pixels, of the image whose colours are compared
ASIDE = 2.0  # pixels from the line to the colours compared
SMOOTH = 2.0  # samples along the line over which its position is averaged, against the steps of the pixels,
STEADY = 4.0  # and its strength
End = tuple[int, int]  # the number of a part, and 1 for its last point or 0 for its first
FEWEST = 3  # samples of a part
STRAIGHT = 0.5  # least cosine between two lines that go on as one through a junction
REACH = 6  # samples by which the direction of an end is judged
WORM = 8  # samples over which a line is averaged to see whether it winds
UPPER = 0.7  # quantile of the strength along a line that counts as its own
GRID, NEAR = 2, 1  # pixels of a cell, and cells from a line within which another is its echo
MOST_ECHOED = 0.5  # share of a line that may run along stronger ones


@dataclass(frozen=True, eq=False)
class Contours:
    """Arcs between regions with the strength (S,) of every sample, in units of ΔE; 0 along the border of the image."""

    shape: tuple[int, int]
    samples: Samples
    strength: NDArray[np.float64]


def contours_of(planes: NDArray[np.float32], strokes: int) -> Contours:
    """The contours of planes (3, H, W) in 0…255, from as many regions as that number of strokes needs."""
    most = min(REGIONS * strokes, planes[0].size)
    regions = grow_regions(torch.from_numpy(without_blends(planes)), most=most, cells=1)
    labels = regions.labels(min(most, regions.fewest + int(np.count_nonzero(regions.growth > FAINT))))
    arcs = planar_map(labels)
    placed = place_samples(arcs, planes, mean_colours(labels, planes, arcs.count))
    samples = Samples(np.stack([along(values, placed, SMOOTH) for values in placed.points.T], axis=1), placed.offsets)
    for ends in (placed.offsets[:-1], placed.offsets[1:] - 1):  # where arcs meet, all of them stay
        ends = ends[~is_ring(placed)]
        samples.points[ends] = placed.points[ends]
    strength = contrast_across(samples, planes) * np.repeat(heights(regions, labels, arcs), np.diff(samples.offsets))
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


def contrast_across(samples: Samples, planes: NDArray[np.float32]) -> NDArray[np.float64]:
    """The difference ΔE (S,) of the colours on both sides of every sample."""
    from scipy.ndimage import gaussian_filter, map_coordinates

    lab = image_planes(torch.from_numpy(np.clip(planes / 255, 0, 1)), 0.0)[0].reshape(planes.shape).numpy()
    across = ASIDE * normals(samples)
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
    """Values (S,) averaged along every arc by a Gaussian whose σ is `reach` samples; rings wrap around."""
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


@dataclass(frozen=True, eq=False)
class Chain:
    """A line: points (P, 2) x, y in pixels and the strength (P,) along it, in units of ΔE."""

    points: NDArray[np.float64]
    strength: NDArray[np.float64]

    @property
    def length(self) -> float:
        """Length in pixels."""
        return length_of(self.points)

    @property
    def force(self) -> float:
        """The strength of the whole line, less where it winds: 1 for straight or evenly bent lines, about ½ for worms."""
        from scipy.ndimage import gaussian_filter1d

        reach = min(WORM, len(self.points) / 8)
        even = length_of(gaussian_filter1d(self.points, reach, axis=0, mode="nearest"))
        shrunk = even + 2 * reach  # averaging moves both ends inwards
        return float(np.quantile(self.strength, UPPER)) * min(shrunk / max(self.length, 1e-9), 1.0) ** 2

    def reversed(self) -> "Chain":
        """The same line from its other end."""
        return Chain(self.points[::-1], self.strength[::-1])


def length_of(points: Array) -> float:
    """Length of a polyline (P, 2)."""
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def chains_of(contours: Contours, *, weak: float, strong: float, shortest: float) -> list[Chain]:
    """Lines that are nowhere weaker than `weak` and as a whole `strong`, no shorter than `shortest` pixels; the best first."""
    joined = through_junctions(strong_parts(contours, weak))
    worth = [(chain.force, chain) for chain in joined if chain.length >= shortest]
    worth = [(force, chain) for force, chain in worth if force >= strong]
    worth.sort(key=lambda pair: -pair[0] * pair[1].length)
    return without_echoes([chain for _, chain in worth], contours.shape)


def strong_parts(contours: Contours, weak: float) -> list[Chain]:
    """The longest runs of samples of every arc that are not below `weak`."""
    parts = []
    for begin, end in pairwise(contours.samples.offsets.tolist()):
        strength = contours.strength[begin:end]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], strength >= weak, [False])).astype(np.int8)))
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if b - a >= FEWEST:
                parts.append(Chain(contours.samples.points[begin + a : begin + b], strength[a:b]))
    return parts


def through_junctions(parts: list[Chain]) -> list[Chain]:
    """Chains of parts that end in the same point, each with the one that goes on straightest."""
    meetings: dict[tuple[float, float], list[End]] = {}
    for number, part in enumerate(parts):
        for late in range(2):
            x, y = part.points[-1 if late else 0].tolist()
            meetings.setdefault((x, y), []).append((number, late))
    following: dict[End, End] = {}
    for ends in meetings.values():
        pairs = [(straightness(parts, a, b), a, b) for k, a in enumerate(ends) for b in ends[k + 1 :]]
        for straight, a, b in sorted(pairs, key=lambda pair: -pair[0]):
            if straight >= STRAIGHT and a not in following and b not in following:
                following[a], following[b] = b, a
    seen: set[int] = set()
    heads = [(number, late) for number in range(len(parts)) for late in range(2) if (number, late) not in following]
    rings = [(number, 0) for number in range(len(parts))]  # what no head leads to
    return [followed(parts, head, following, seen) for head in heads + rings if head[0] not in seen]


def straightness(parts: list[Chain], a: End, b: End) -> float:
    """Cosine of the turn from one end of a part into an end of another, 1 straight on; the ends of one part do not join."""
    into, out = (outwards(parts[number].points, late) for number, late in (a, b))
    return -float(into @ out) if a[0] != b[0] else -1.0


def outwards(points: Array, late: int) -> Array:
    """The direction in which a line arrives at one of its ends."""
    reach = min(REACH, len(points) - 1)
    step = points[-1] - points[-1 - reach] if late else points[0] - points[reach]
    return np.asarray(step / max(float(np.linalg.norm(step)), 1e-9))


def followed(parts: list[Chain], head: End, following: dict[End, End], seen: set[int]) -> Chain:
    """The chain that begins with one end of a part."""
    found: list[Chain] = []
    at: End | None = head
    while at is not None and at[0] not in seen:
        number, late = at
        seen.add(number)
        found.append(parts[number].reversed() if late else parts[number])
        at = following.get((number, 1 - late))
    points = [found[0].points, *(part.points[1:] for part in found[1:])]
    strength = [found[0].strength, *(part.strength[1:] for part in found[1:])]
    return Chain(np.concatenate(points), np.concatenate(strength))


def without_echoes(chains: list[Chain], shape: tuple[int, int]) -> list[Chain]:
    """The chains, best first, without those that mostly run along a better one: a soft edge has two contours."""
    taken = np.zeros((shape[0] // GRID + 2, shape[1] // GRID + 2), np.bool_)
    kept = []
    for chain in chains:
        x, y = np.rint(chain.points.T / GRID).astype(np.int64)
        if taken[y, x].mean() > MOST_ECHOED:
            continue
        kept.append(chain)
        for down in range(-NEAR, NEAR + 1):
            for right in range(-NEAR, NEAR + 1):
                taken[np.clip(y + down, 0, taken.shape[0] - 1), np.clip(x + right, 0, taken.shape[1] - 1)] = True
    return kept
