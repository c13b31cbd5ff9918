"""Polylines: what a chord costs, and that rings stay open."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.placement import Samples, crack_middles
from pixtree.vector.outlines.polylines import CLOSING, LARGEST_DEVIATION, chord_error, fit_polylines


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


def written(east, south):
    """Characters of two integers in path data."""
    return len(str(east)) + len(str(south)) + (south >= 0)


def cost_of(chain, points, unit, weight, price):
    """What `fit_polylines` minimises for a chain of samples, by its definition."""
    grid = np.rint(points * unit).astype(int)
    total = 0.0
    for a, b in pairwise(chain):
        step = (grid[b] - grid[a]) / unit
        away = points[a + 1 : b] - grid[a] / unit
        size = np.hypot(*step)
        distance = np.abs(away @ (-step[1], step[0])) / size if size > 0 else np.hypot(*away.T)
        total += weight * (distance**2).sum() + price * 2 * (written(*(grid[b] - grid[a]).tolist()) + CLOSING)
        if len(distance) and (distance**2).mean() > LARGEST_DEVIATION**2:
            return np.inf
    return total


@pytest.mark.parametrize("price", [1.0, 300.0, 5_000.0, 100_000.0])
def test_a_polyline_is_the_cheapest_of_all_through_its_samples(price):
    labels = np.zeros((8, 9), np.int32)
    for column, height in enumerate((2, 3, 3, 5, 6, 5, 5, 3, 2)):
        labels[height:, column] = 1
    arcs = planar_map(labels[:, :5].copy())
    (arc,) = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))
    samples = Samples(*crack_middles(arcs.offsets, arcs.corners))
    own = slice(samples.offsets[arc], samples.offsets[arc + 1])
    samples.points[own][1:-1] += np.random.default_rng(0).uniform(-0.3, 0.3, samples.points[own][1:-1].shape)
    colours = np.array([[20.0, 30, 40], [120, 60, 10]])
    outlines = fit_polylines(samples, arcs, colours, unit=4, price=price)
    points, count = samples.points[own], own.stop - own.start
    weight = ((colours[0] - colours[1]) ** 2).sum()
    chains = ((0, *middle, count - 1) for size in range(count - 1) for middle in combinations(range(1, count - 1), size))
    best = min(chains, key=lambda chain: cost_of(chain, points, 4, weight, price))
    found = outlines.points[outlines.offsets[arc] : outlines.offsets[arc + 1]].tolist()
    assert found == np.rint(points[list(best)] * 4).astype(int).tolist()


def test_a_deviation_costs_by_the_contrast_of_the_two_regions_whatever_their_numbers():
    y, x = np.mgrid[:30, :30] + 0.5
    disc = (np.hypot(x - 15, y - 15) < 9).astype(np.int32)
    fitted = []
    for labels, colours, price in (
        (disc, [[0.0] * 3, [60.0] * 3], 25.0),
        (disc, [[60.0] * 3, [0.0] * 3], 25.0),
        (disc, [[0.0] * 3, [240.0] * 3], 400.0),  # four times the contrast at sixteen times the price
        (disc + 1, [[9.0] * 3, [0.0] * 3, [60.0] * 3], 25.0),
    ):
        labels = np.where(np.arange(30) == 0, 0, labels).astype(np.int32)  # a region of its own in the last case
        arcs = planar_map(labels)
        samples = Samples(*crack_middles(arcs.offsets, arcs.corners))
        outlines = fit_polylines(samples, arcs, np.array(colours), unit=4, price=price)
        ring = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[-1]
        fitted.append(outlines.points[outlines.offsets[ring] : outlines.offsets[ring + 1]].tolist())
    assert all(one == fitted[0] for one in fitted)


def test_an_edge_against_transparency_costs_as_one_of_half_the_range():
    y, x = np.mgrid[:30, :30] + 0.5
    disc = np.hypot(x - 15, y - 15) < 9
    fitted = []
    for labels, colours in ((np.where(disc, 0, -1), [[77.0]]), (np.where(disc, 0, 1), [[128.0], [0.0]])):
        arcs = planar_map(labels.astype(np.int32))
        samples = Samples(*crack_middles(arcs.offsets, arcs.corners))
        outlines = fit_polylines(samples, arcs, np.array(colours), unit=4, price=500.0)
        (ring,) = (arc for arc in range(len(arcs.left)) if {arcs.left[arc], arcs.right[arc]} in ({0, -1}, {0, 1}))
        fitted.append(outlines.points[outlines.offsets[ring] : outlines.offsets[ring + 1]].tolist())
    assert fitted[0] == fitted[1]
