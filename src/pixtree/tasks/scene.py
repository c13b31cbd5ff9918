"""Scene: the regions of an image as a graph that is precomputed for selection, the evidence of marks, and minimum cuts of it."""

from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.region_graph import RegionGraph, region_graph

PALETTE = 300  # regions of a coarse cut whose mean colours stand for all colours
COLOUR_WIDTH = 10.0  # standard deviation of a colour around its palette's, in Lab units
CONTOUR_WIDTH = 6.0  # contrast, in Lab units, over which the cost of an outline falls to 1/e
SHARE_OF_STRONG = 0.3  # of the cost of an outline, along the strongest contour of the tree
STEP = 0.002  # length of a path per pixel, in addition to the contours that it crosses
SOFTNESS = 8.0  # of the first guess by paths alone, from which colours are estimated
BORDER_DETOUR = 0.5  # the image border lies outside most objects, but is weaker evidence than a mark
RAREST = 1e-4  # density below which all colours are equally rare
FARTHEST = 200.0  # length of a path, in Lab units of contrast, beyond which all are equally far
LARGEST_TOTAL = 2**30  # SciPy's flows are 32-bit integers

Values = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Scene:
    """The regions of an image with contours, paths and colours; arrays as in `RegionGraph`. It lives as long as its tree."""

    graph: RegionGraph
    contrast: NDArray[np.float64]  # (E,) distance of the mean colours of two regions that touch
    strength: NDArray[np.float64]  # (E,) of the contour between them, from 1 (in the first cut) towards 0
    ways: Any  # (N, N) SciPy sparse matrix: the length of the path between two regions that touch
    at_border: NDArray[np.bool_]  # (N,) whether a region touches the border of the image or of the tree's mask
    palette: NDArray[np.int64]  # (N,) index of each region's palette colour
    likeness: NDArray[np.float32]  # (N, P) density of each region's colour under each of the palette's

    def density(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Density of every region's colour, (N,), among regions weighted by `weight` (N,)."""
        shares = np.bincount(self.palette, weight, self.likeness.shape[1])
        found: NDArray[np.float64] = (self.likeness @ (shares / max(shares.sum(), 1e-9)).astype(np.float32)).astype(np.float64)
        return found

    def distance(self, regions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Length of the shortest path from each region to one of `regions`, (N,); infinite where there is none."""
        from scipy.sparse.csgraph import dijkstra

        if regions.size == 0:
            return np.full(len(self.graph), np.inf)
        lengths: NDArray[np.float64] = dijkstra(self.ways, indices=regions, min_only=True)
        return lengths

    def cut_out(self, sure: NDArray[np.float64], fixed: NDArray[np.int8], smoothness: float) -> NDArray[np.bool_]:
        """The regions (N,) of an object by their log-odds (N,), with an outline along contours; see `minimum_cut`.

        smoothness: the cost of a pixel edge of the outline where there is no contrast, in log-odds of a region; less at contours.
        """
        contour = (1 - (1 - SHARE_OF_STRONG) * self.strength) * np.exp(-self.contrast / CONTOUR_WIDTH)
        return minimum_cut(sure * np.sqrt(self.graph.size), self.graph.pairs, smoothness * (self.graph.length * contour), fixed)


_SCENES: WeakKeyDictionary[Hierarchy, Scene] = WeakKeyDictionary()


def scene_of(tree: Hierarchy) -> Scene:
    """The scene of a tree, computed once per tree (a tree never changes) and freed with it."""
    scene = _SCENES.get(tree)
    if scene is None:
        scene = _SCENES.setdefault(tree, _scene(region_graph(tree)))
    return scene


def _scene(graph: RegionGraph) -> Scene:
    from scipy.sparse import csr_matrix

    count, (first, second) = len(graph), graph.pairs.T
    contrast = np.linalg.norm(graph.mean[first] - graph.mean[second], axis=1).astype(np.float64)
    strength = 1 / np.log2(1.0 + graph.appears)
    apart = np.linalg.norm(graph.centre[first] - graph.centre[second], axis=1)
    way = contrast * strength + STEP * apart
    rows, columns = np.concatenate((first, second)), np.concatenate((second, first))
    palette, colours = _palette(graph)
    away = ((graph.mean[:, None] - colours[None]) ** 2).sum(axis=2)
    return Scene(
        graph=graph,
        contrast=contrast,
        strength=strength,
        ways=csr_matrix((np.concatenate((way, way)), (rows, columns)), shape=(count, count)),
        at_border=_touches_border(graph),
        palette=palette,
        likeness=np.exp(away / (-2 * COLOUR_WIDTH**2)),
    )


def _palette(graph: RegionGraph) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The palette index of every region, (N,), and the mean colours of the palette, (P, C)."""
    place = graph.cut(PALETTE)
    pixels = np.bincount(place, graph.size)
    sums = [np.bincount(place, graph.size * plane) for plane in graph.mean.T]
    return place, np.stack([total / pixels for total in sums], axis=1).astype(np.float32)


def _touches_border(graph: RegionGraph) -> NDArray[np.bool_]:
    """Whether a region has a pixel at the border of the image, or of the tree's mask."""
    around = np.pad(graph.labels >= 0, 1)
    inner = around[:-2, 1:-1] & around[2:, 1:-1] & around[1:-1, :-2] & around[1:-1, 2:]
    return graph.counts(~inner) > 0


class Weights(NamedTuple):
    """The weight of each kind of evidence, in log-odds; fitted by logistic regression (`benchmarks/click_weights.py`)."""

    bias: float
    nearer_way: float  # (out − in) / (out + in) of the path lengths to the marks
    way_inside: float  # log of the path length to the marks inside
    way_outside: float  # log of the path length to the marks outside
    way_border: float  # log of the path length to the image border
    colour: float  # log ratio of the densities of the region's colour
    nearer: float  # (out − in) / (out + in) of the straight distances to the marks
    distance: float  # straight distance to the marks inside, in diagonals of the image
    margin: float  # straight distance to the image border, in diagonals
    at_border: float  # whether the region touches the border


WITHOUT_OUTSIDE = Weights(0.03, 0.64, -0.94, 0.15, 0.83, 0.95, 1.98, -1.43, 0.63, 0.1)
WITH_OUTSIDE = Weights(-2.08, 0.93, -1.17, 0.47, 1.4, 1.37, 3.05, -2.33, 2.7, 0.48)


def evidence(scene: Scene, inside: NDArray[np.int64], outside: NDArray[np.int64]) -> Values:
    """Log-odds that each region lies in the object, (N,), from the regions that are marked inside and outside."""
    weights = WITH_OUTSIDE if outside.size else WITHOUT_OUTSIDE
    odds: Values = features(scene, inside, outside) @ np.array(weights)
    return odds


def features(scene: Scene, inside: NDArray[np.int64], outside: NDArray[np.int64]) -> Values:
    """The kinds of evidence about each region, (N, 10), in the order of `Weights`."""
    way_in, way_out = scene.distance(inside), scene.distance(outside)
    way_border = scene.distance(np.setdiff1d(np.flatnonzero(scene.at_border), inside))
    nearer_way = _nearer(way_in, np.minimum(way_out, way_border + BORDER_DETOUR))
    near_in, near_out = _straight(scene, inside), _straight(scene, outside)
    columns = (
        np.ones(len(scene.graph)),
        nearer_way,
        *(np.log1p(np.minimum(way, FARTHEST)) for way in (way_in, way_out, way_border)),
        _colour(scene, nearer_way),
        _nearer(near_in, near_out, 1e-3),
        near_in,
        _margin(scene),
        scene.at_border,
    )
    return np.stack(columns, axis=1)


def _nearer(inner: Values, outer: Values, least: float = 1e-9) -> Values:
    """From −1 at the outer marks to 1 at the inner ones."""
    far = np.isinf(inner) & np.isinf(outer)
    inner, outer = (np.minimum(np.where(far, 1.0, way), 1e9) for way in (inner, outer))
    return (outer - inner) / (outer + inner + least)


def _colour(scene: Scene, nearer_way: Values) -> Values:
    """Log ratio of the densities of each region's colour inside and outside, estimated from paths alone."""
    share, size = 1 / (1 + np.exp(-SOFTNESS * nearer_way)), scene.graph.size
    return log_ratio(scene.density(share * size), scene.density((1 - share) * size))


def log_ratio(inside: Values, outside: Values) -> Values:
    """Log ratio of two densities of colours, in which rare colours count little."""
    return np.log(inside + RAREST) - np.log(outside + RAREST)


def _straight(scene: Scene, regions: NDArray[np.int64]) -> Values:
    """Distance of each region's centre to the nearest centre of `regions`, (N,), in diagonals of the image; ½ without any."""
    from scipy.spatial import cKDTree

    if regions.size == 0:
        return np.full(len(scene.graph), 0.5)
    centre = scene.graph.centre
    apart: Values = cKDTree(centre[regions]).query(centre)[0] / np.hypot(*scene.graph.labels.shape)
    return apart


def _margin(scene: Scene) -> Values:
    height, width = scene.graph.labels.shape
    row, column = scene.graph.centre.T
    nearest: Values = np.minimum(np.minimum(row, height - 1 - row), np.minimum(column, width - 1 - column))
    return nearest / float(np.hypot(height, width))


def minimum_cut(
    evidence: NDArray[np.float64], pairs: NDArray[np.int64], cost: NDArray[np.float64], fixed: NDArray[np.int8]
) -> NDArray[np.bool_]:
    """Which of N regions are inside, (N,): the choice that maximises the evidence inside minus the cost of separated pairs.

    evidence: (N,), above 0 where a region is more likely inside. pairs: (E, 2), each once. cost: (E,) ≥ 0 of separating a pair.
    fixed: (N,), 1 for regions that are inside, −1 outside, 0 free. Exact up to rounding to integers. [Boykov & Jolly 2001]
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    count = evidence.size
    first, second = pairs.T
    around = np.bincount(first, cost, count) + np.bincount(second, cost, count)
    force = np.where(fixed == 0, evidence, fixed * (around + 1))  # more than any cut around it could cost
    scale = LARGEST_TOTAL / (np.abs(force).sum() + 2 * cost.sum() + 1)
    inner, outer = np.flatnonzero(force > 0), np.flatnonzero(force < 0)
    source, sink = np.full(inner.size, count), np.full(outer.size, count + 1)
    rows, columns = np.concatenate((first, second, source, outer)), np.concatenate((second, first, inner, sink))
    amounts = np.concatenate((cost, cost, force[inner], -force[outer])) * scale
    capacity = csr_matrix((np.ceil(amounts).astype(np.int32), (rows, columns)), shape=(count + 2, count + 2))
    left_over = capacity - maximum_flow(capacity, count, count + 1).flow
    left_over.data = np.maximum(left_over.data, 0)
    left_over.eliminate_zeros()
    reached = np.zeros(count + 2, bool)
    reached[breadth_first_order(left_over, count, return_predecessors=False)] = True
    return reached[:count]
