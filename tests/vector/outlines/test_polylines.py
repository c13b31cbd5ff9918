"""Polylines: what a chord costs, and that rings stay open."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.placement import Samples, crack_middles
from pixtree.vector.outlines.polylines import chord_error, fit_polylines


@pytest.mark.parametrize("direction", [(3.0, 1.0), (-0.5, 2.0), (0.0, 0.0)], ids=["flat", "steep", "a ring's, which is a point"])
def test_the_error_of_a_chord_is_the_sum_of_squared_distances_of_the_samples_between(direction):
    points = np.random.default_rng(0).uniform(0, 30, (12, 2))
    x, y = points.T
    sums = np.concatenate((np.zeros((1, 5)), np.cumsum(np.stack((x, y, x * x, x * y, y * y), axis=1), axis=0)))
    first, last, start = 2, 9, points[2]
    between, length = points[first + 1 : last] - start, np.hypot(*direction)
    away = between @ np.array([-direction[1], direction[0]]) / length if length else np.hypot(*between.T)
    assert chord_error(sums, first, last, *start, *direction) == pytest.approx((away**2).sum())
    assert chord_error(sums, 4, 5, *points[4], *direction) == 0  # nothing lies between


@pytest.mark.parametrize("price", [1.0, 100.0, 1e9])
def test_a_ring_never_becomes_a_point_and_has_its_area_while_vertices_are_cheap(price):
    y, x = np.mgrid[:40, :40] + 0.5
    arcs = planar_map((np.hypot(x - 20, y - 20) < 11).astype(np.int32))
    outlines = fit_polylines(
        Samples(*crack_middles(arcs.offsets, arcs.corners)), arcs, np.array([[0.0] * 3, [255.0] * 3]), unit=4, price=price
    )
    ring = int(np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0])
    points = outlines.points[outlines.offsets[ring] : outlines.offsets[ring + 1]] / outlines.unit
    assert points[0].tolist() == points[-1].tolist()
    assert len(np.unique(points, axis=0)) >= 2
    area = abs(points[:-1, 0] @ points[1:, 1] - points[1:, 0] @ points[:-1, 1]) / 2
    assert price > 100 or area == pytest.approx(np.pi * 11**2, rel=0.1)


def test_the_last_chord_of_a_ring_may_be_as_long_as_the_others():
    labels = np.zeros((30, 30), np.int32)
    labels[8:22, 8:22] = 1
    arcs = planar_map(labels)
    samples = Samples(*crack_middles(arcs.offsets, arcs.corners))
    outlines = fit_polylines(samples, arcs, np.array([[0.0] * 3, [255.0] * 3]), unit=4, price=100.0)
    ring = int(np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0])
    points = outlines.points[outlines.offsets[ring] : outlines.offsets[ring + 1]] / outlines.unit
    assert np.hypot(*(points[-1] - points[-2])) == 13.5
