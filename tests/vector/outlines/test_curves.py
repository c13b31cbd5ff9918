"""Curves through samples: a circle is smooth all around, and a cubic is fitted by itself."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.beziers import fit_cubic, fit_curves, line_deviation, tangent
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
