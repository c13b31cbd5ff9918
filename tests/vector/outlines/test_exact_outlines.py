"""Outlines along pixel edges keep the corners alone, and curves become lines that lie on them."""

import numpy as np

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.pieces import COARSEST, Outlines, exact_outlines, flattened


def test_exact_outlines_have_a_vertex_where_they_turn_and_at_the_ends_of_arcs():
    labels = np.zeros((6, 7), np.int32)
    labels[1:4, 2:6], labels[4, 2:4] = 1, 1  # an L
    arcs = planar_map(labels)
    outlines = exact_outlines(arcs)
    ring = int(np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0])
    corners = outlines.points[outlines.offsets[ring] : outlines.offsets[ring + 1]].tolist()
    assert corners[0] == corners[-1]
    assert {tuple(corner) for corner in corners} == {(2, 1), (6, 1), (6, 4), (4, 4), (4, 5), (2, 5)}
    assert len(corners) == 7


def test_a_line_across_the_image_has_its_two_ends():
    arcs = planar_map(np.repeat([[0], [1]], 5, axis=1).repeat(3, axis=0).astype(np.int32))
    outlines = exact_outlines(arcs)
    middle = int(np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0])
    assert sorted(outlines.points[outlines.offsets[middle] : outlines.offsets[middle + 1]].tolist()) == [[0, 3], [5, 3]]


def cubics(radii):
    """Two arcs: a curve and a line, and a line and a curve."""
    points = np.array([[0, 0], [40, 0], [40, 30], [5, 5], [9, 9], [90, 60]], np.int32)
    controls = np.zeros((6, 4), np.int32)
    controls[1], controls[5] = (0, 30, 40, -20), (30, 0, 90, 20)
    return Outlines(points, np.array([0, 3, 6], np.int32), 10, controls, np.array([False, True, False, False, False, True]), radii)


def test_a_curve_is_flattened_into_points_of_it_and_lines_stay():
    outlines = cubics(np.empty(0, np.int32))
    points, offsets = flattened(outlines)
    assert offsets.tolist() == [0, 10, 20]
    t = np.linspace(0, 1, 9)[:, None]
    for begin, ends, curve in ((0, (0, 1), 1), (11, (4, 5), 5)):
        a, b = outlines.points[list(ends)]
        one, two = outlines.controls[curve].reshape(2, 2)
        expected = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * one + 3 * (1 - t) * t**2 * two + t**3 * b
        np.testing.assert_allclose(points[begin : begin + 9] * 10, expected)
    assert (points[[9, 10]] * 10).tolist() == [[40, 30], [5, 5]]


def test_large_arcs_of_circles_have_as_many_lines_as_keep_them_near():
    reach, side = 4 / 3 * np.tan(np.pi / 8), 20_000  # a quarter of a circle of 2,000 pixels
    control = round(side * reach)
    points = np.array([[side, 0], [0, side]], np.int32)
    controls = np.array([[0, 0, 0, 0], [side, control, control, side]], np.int32)
    radii = np.array([0, side], np.int32)
    points, _ = flattened(Outlines(points, np.array([0, 2], np.int32), 10, controls, np.array([False, True]), radii))
    middles = np.hypot(*((points[1:] + points[:-1]) / 2).T)
    cubic = 0.001 * 2000  # how far a cubic curve may be from the circle that it stands for
    assert np.abs(middles - 2000).max() < COARSEST + cubic
    assert len(points) < 200
