"""Curves through samples: a circle is smooth all around, and a cubic is fitted by itself."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.beziers import (
    cheapest_curves,
    fit_cubic,
    fit_curves,
    line_deviation,
    next_split,
    smooth_between,
    tangent,
)
from pixtree.vector.outlines.pieces import flattened
from pixtree.vector.outlines.placement import Samples, crack_middles

CENTRE, RADIUS = np.array([20.0, 20.0]), 11.0


def circle():
    """The map of a disc and its ring of samples, all of them exactly on the circle."""
    y, x = np.mgrid[:40, :40] + 0.5
    arcs = planar_map((np.hypot(x - CENTRE[0], y - CENTRE[1]) < RADIUS).astype(np.int32))
    points, offsets = crack_middles(arcs.offsets, arcs.corners)
    ring = int(np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0])
    own = slice(offsets[ring], offsets[ring + 1])
    way = points[own] - CENTRE
    points[own] = CENTRE + RADIUS * way / np.hypot(*way.T)[:, None]
    return arcs, Samples(points, offsets), ring


def fitted_to(path):
    """What the fit of one curve to samples (S, 2) gives: largest deviation, control points and parameters."""
    count = len(path)
    is_corner, parameter, fitted = np.zeros(count, bool), np.empty(count), np.empty(4)
    is_corner[[0, -1]] = True
    worst, _ = fit_cubic(path, 0, count - 1, is_corner, count, False, parameter, fitted)
    return worst, fitted, parameter


def test_a_circle_is_a_few_curves_that_join_smoothly_also_where_it_begins():
    arcs, samples, ring = circle()
    outlines = fit_curves(samples, arcs, unit=1000, tolerance=0.1)
    own = slice(outlines.offsets[ring], outlines.offsets[ring + 1])
    points, controls = outlines.points[own], outlines.controls[own][1:]
    assert 3 <= len(controls) <= 8
    assert outlines.curved[own][1:].all()
    assert points[0].tolist() == points[-1].tolist()
    into, out = points[1:] - controls[:, 2:], np.roll(controls[:, :2] - points[:-1], -1, axis=0)
    turn = np.arctan2(into[:, 0] * out[:, 1] - into[:, 1] * out[:, 0], (into * out).sum(axis=1))
    assert np.abs(turn).max() < 0.01
    flat, offsets = flattened(outlines)
    assert np.abs(np.hypot(*(flat[offsets[ring] : offsets[ring + 1]] - CENTRE).T) - RADIUS).max() < 0.2


@pytest.mark.parametrize("cubic", [[(0, 0), (10, 30), (30, -20), (40, 10)], [(0, 0), (0, 22), (40, 22), (40, 0)]], ids=str)
def test_the_samples_of_a_cubic_are_fitted_by_it(cubic):
    t = np.linspace(0, 1, 800)
    weights = np.stack(((1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t**2, t**3), axis=1)
    worst, fitted, parameter = fitted_to(weights @ np.array(cubic, float))
    assert worst < 0.06
    assert np.abs(fitted - np.ravel(cubic[1:3])).max() < 0.2
    assert np.abs(parameter - t).max() < 0.002


def test_where_samples_do_not_tell_control_points_stand_at_thirds_of_the_chord():
    worst, fitted, _ = fitted_to(np.array([[0.0, 0], [6, 6], [12, 12]]))
    assert worst < 1e-9
    assert fitted == pytest.approx([4, 4, 8, 8])


@pytest.mark.parametrize(("end", "expected"), [((8.0, 0.0), (4.0, 2)), ((0.0, 0.0), (5.0, 2))], ids=["a line", "a point"])
def test_the_deviation_from_a_chord_is_the_largest_distance_of_the_samples_between(end, expected):
    path = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, -4.0], end])
    assert line_deviation(path, 0, 3) == pytest.approx(expected)


@pytest.mark.parametrize(("k", "towards", "way"), [(4, 6, (1.0, 0.0)), (6, 4, (-1.0, 0.0))])
def test_the_tangent_of_a_short_piece_looks_no_farther_than_its_end(k, towards, way):
    path = np.array([[0, -8], [0, -6], [0, -4], [0, -2], [0, 0], [1, 0], [2, 0], [2, 2], [2, 4], [2, 6]], float)
    is_corner = np.zeros(10, bool)
    is_corner[[0, 4, 6, 9]] = True
    assert tangent(path, k, towards, towards, is_corner, 10, False) == pytest.approx(way)


def bend(count=12):
    """Samples of a quarter of a circle, none of them a corner but the ends."""
    angle = np.linspace(0, np.pi / 2, count)
    is_corner = np.zeros(count, bool)
    is_corner[[0, -1]] = True
    return 30 * np.stack((np.cos(angle), np.sin(angle)), axis=1), is_corner


def test_parameters_stay_between_the_ends_and_the_deviation_is_the_distance_of_the_farthest_sample():
    path, is_corner = bend()
    path[3] += (0.4, 0.9)  # two samples that no smooth curve passes
    path[-2] += (-1.0, 4.0)  # beyond the end
    parameter, fitted = np.empty(12), np.empty(4)
    worst, split = fit_cubic(path, 0, 11, is_corner, 12, False, parameter, fitted)
    assert parameter.min() >= 0
    assert parameter.max() <= 1
    t = np.linspace(0, 1, 4001)[:, None]
    one, two = fitted.reshape(2, 2)
    curve = (1 - t) ** 3 * path[0] + 3 * (1 - t) ** 2 * t * one + 3 * (1 - t) * t**2 * two + t**3 * path[-1]
    nearest = np.array([np.hypot(*(curve - sample).T).min() for sample in path])
    assert split == nearest.argmax()
    assert worst == pytest.approx(nearest.max(), rel=0.05)


def test_a_part_of_an_arc_is_fitted_like_the_same_samples_alone():
    path, is_corner = bend()
    before = np.array([[31.0, -9.0], [30.5, -5.0]])
    longer = np.concatenate((before, path, [[-3.0, 31.0]]))
    corners = np.concatenate(([True, False], is_corner, [True]))
    alone, within = np.empty(4), np.empty(4)
    expected = fit_cubic(path, 0, 11, is_corner, 12, False, np.empty(12), alone)
    worst, split = fit_cubic(longer, 2, 13, corners, 15, False, np.empty(15), within)
    assert (worst, split - 2) == expected
    assert within.tolist() == alone.tolist()


@pytest.mark.parametrize(
    ("corners", "whole_ring", "expected"), [((1, 4), False, 1), ((4,), True, 4), ((), False, -1), ((), True, 3)]
)
def test_an_arc_is_split_at_its_first_corner_or_if_it_is_a_whole_ring_at_the_farthest_sample(corners, whole_ring, expected):
    path = np.array([[0, 0], [2, -2], [4, -1], [5, 1], [3, 2], [0, 0]], float)
    is_corner = np.zeros(6, bool)
    is_corner[[0, 5, *corners]] = True
    assert next_split(path, 0, 5, is_corner, whole_ring) == expected


@pytest.mark.parametrize(("k", "towards"), [(0, 9), (9, 0)])
def test_a_ring_is_smooth_where_it_closes_and_has_a_corner_where_an_open_arc_ends(k, towards):
    angle = np.linspace(0, 2 * np.pi, 10)
    path = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    path[9] = path[0]
    is_corner = np.zeros(10, bool)
    is_corner[[0, 9]] = True
    way = 1.0 if k == 0 else -1.0
    assert tangent(path, k, towards, towards, is_corner, 10, True) == pytest.approx((0.0, way))
    step = path[3 if k == 0 else 6] - path[0]
    assert tangent(path, k, towards, towards, is_corner, 10, False) == pytest.approx(step / np.hypot(*step))


def test_the_tangent_at_a_corner_inside_a_ring_looks_to_one_side_only():
    path = np.array([[0, 0], [2, 0], [4, 0], [6, 0], [6, 2], [6, 4], [4, 4], [2, 4], [0, 4], [0, 2], [0, 0]], float)
    is_corner = np.zeros(11, bool)
    is_corner[[0, 3, 10]] = True
    assert tangent(path, 3, 5, 5, is_corner, 11, True) == pytest.approx((0.0, 1.0))


def test_a_curve_may_be_as_far_from_its_samples_as_the_tolerance_and_no_farther():
    path, is_corner = bend(16)
    path += np.stack((0.3 * np.sin(np.arange(16.0)), 0.2 * np.cos(2 * np.arange(16.0))), axis=1)
    samples = Samples(path.copy(), np.array([0, 16], np.int32))
    smooth_between(path, 16, is_corner)
    worst, _ = fit_cubic(path, 0, 15, is_corner, 16, False, np.empty(16), np.empty(4))
    pieces = [
        len(cheapest_curves(samples, np.zeros(1, bool), 10, tolerance)[0]) - 1 for tolerance in (worst, np.nextafter(worst, 0.0))
    ]
    assert pieces[0] == 1
    assert pieces[1] > 1
