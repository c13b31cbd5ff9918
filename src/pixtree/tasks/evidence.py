"""Evidence: how much a few marks say about every region of a picture."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.tasks.scene import Scene

SOFTNESS = 8.0  # of the first guess by ways alone, from which colours are learnt
BORDER_DETOUR = 0.5  # the picture's border lies outside most objects, but a mark says so more surely
RAREST = 1e-4  # density below which all colours are equally strange
FARTHEST = 200.0  # length of a way, in Lab units of contrast, beyond which all are equally far

Values = NDArray[np.float64]


class Weights(NamedTuple):
    """What each kind of evidence counts, in log-odds; fitted by logistic regression (`benchmarks/click_weights.py`)."""

    bias: float
    nearer_way: float  # (out − in) / (out + in) of the ways to the marks
    way_inside: float  # log of the way to the marks inside
    way_outside: float  # log of the way to the marks outside
    way_border: float  # log of the way to the picture's border
    colour: float  # log ratio of the densities of the region's colour
    nearer: float  # (out − in) / (out + in) of the straight distances to the marks
    distance: float  # straight distance to the marks inside, in diagonals of the picture
    margin: float  # straight distance to the picture's border, in diagonals
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
    """Log ratio of the densities of each region's colour inside and outside, as the ways alone would have them."""
    share, size = 1 / (1 + np.exp(-SOFTNESS * nearer_way)), scene.graph.size
    return log_ratio(scene.density(share * size), scene.density((1 - share) * size))


def log_ratio(inside: Values, outside: Values) -> Values:
    """Log ratio of two densities of colours, in which rare colours say little."""
    return np.log(inside + RAREST) - np.log(outside + RAREST)


def _straight(scene: Scene, regions: NDArray[np.int64]) -> Values:
    """Distance of each region's centre to the nearest of those regions' centres, in diagonals of the picture, at most ½."""
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
