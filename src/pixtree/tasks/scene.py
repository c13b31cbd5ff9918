"""Scene: what a tree tells about its picture before anybody marks anything, kept as long as the tree lives."""

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.region_graph import RegionGraph, region_graph

PALETTE = 300  # regions of a coarse cut whose mean colours stand for all colours
COLOUR_WIDTH = 10.0  # standard deviation of a colour around its palette's, in Lab units
CONTOUR_WIDTH = 6.0  # contrast, in Lab units, over which the cost of an outline falls to 1/e
SHARE_OF_STRONG = 0.3  # of the cost of an outline, along the strongest contour of the tree
STEP = 0.002  # length of a way per pixel, beside the contours that it crosses


@dataclass(frozen=True, eq=False, kw_only=True)
class Scene:
    """The regions of a picture with contours, ways and colours; arrays as in `RegionGraph`."""

    graph: RegionGraph
    contrast: NDArray[np.float64]  # (E,) distance of the mean colours of two regions that touch
    strength: NDArray[np.float64]  # (E,) of the contour between them, from 1 (in the first cut) towards 0
    ways: Any  # (N, N) SciPy sparse matrix: the length of the way between two regions that touch
    at_border: NDArray[np.bool_]  # (N,) whether a region touches the border of the picture or of the tree's mask
    palette: NDArray[np.int64]  # (N,) the region's place in the palette
    likeness: NDArray[np.float32]  # (N, P) density of each region's colour under each of the palette's

    def density(self, weight: NDArray[np.float64]) -> NDArray[np.float64]:
        """Density of every region's colour, (N,), among regions of that weight (N,)."""
        shares = np.bincount(self.palette, weight, self.likeness.shape[1])
        found: NDArray[np.float64] = (self.likeness @ (shares / max(shares.sum(), 1e-9)).astype(np.float32)).astype(np.float64)
        return found

    def distance(self, regions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Length of the shortest way from each region to one of those, (N,); infinite where no way leads there."""
        from scipy.sparse.csgraph import dijkstra

        if regions.size == 0:
            return np.full(len(self.graph), np.inf)
        lengths: NDArray[np.float64] = dijkstra(self.ways, indices=regions, min_only=True)
        return lengths


def outline_cost(scene: Scene) -> NDArray[np.float64]:
    """The cost of an outline between the two regions of each pair, (E,): 1 per pixel edge where nothing is, less at contours."""
    contour = (1 - (1 - SHARE_OF_STRONG) * scene.strength) * np.exp(-scene.contrast / CONTOUR_WIDTH)
    return scene.graph.length * contour


_SCENES: WeakKeyDictionary[Hierarchy, Scene] = WeakKeyDictionary()


def scene_of(tree: Hierarchy) -> Scene:
    """The scene of a tree, made once per tree; a tree never changes, and its scene goes with it."""
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
    """The place of every region in the palette, (N,), and its mean colours (P, C)."""
    place = graph.cut(PALETTE)
    pixels = np.bincount(place, graph.size)
    sums = [np.bincount(place, graph.size * plane) for plane in graph.mean.T]
    return place, np.stack([total / pixels for total in sums], axis=1).astype(np.float32)


def _touches_border(graph: RegionGraph) -> NDArray[np.bool_]:
    """Whether a region has a pixel at the border of the picture, or of the tree's mask."""
    around = np.pad(graph.labels >= 0, 1)
    inner = around[:-2, 1:-1] & around[2:, 1:-1] & around[1:-1, :-2] & around[1:-1, 2:]
    return graph.counts(~inner) > 0
