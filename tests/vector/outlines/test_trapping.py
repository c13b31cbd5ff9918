"""Trapping: which holes a shape may cover, since what fills them is painted later and hides it."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.pieces import Outlines, exact_outlines, flattened
from pixtree.vector.outlines.trapping import _moved_radii as moved_radii
from pixtree.vector.outlines.trapping import loop_areas, moved, outer_areas, painting_order, trapped


def nested():
    """A square with two holes in it, of which the first, filled by shape 1, has a hole of its own, filled by shape 3."""
    labels = np.zeros((14, 14), np.int32)
    labels[2:7, 2:7], labels[9:12, 9:12], labels[4, 4] = 1, 2, 3
    return planar_map(labels)


@pytest.mark.parametrize(
    ("alpha", "loops"),
    [
        ((1, 1, 1, 1), [1, 1, 1, 1]),
        ((1, 1, 0.5, 1), [2, 1, 1, 1]),  # light shines through what fills the second hole,
        ((1, 1, 1, 0.5), [2, 2, 1, 1]),  # or through a part of what fills the first one,
        ((0.5, 1, 1, 1), [3, 1, 1, 1]),  # or through the shape itself, which would show under what fills its holes
    ],
)
def test_a_shape_covers_the_holes_that_opaque_shapes_fill_and_no_others(alpha, loops):
    arcs = nested()
    outlines = exact_outlines(arcs)
    found, _ = trapped(arcs, outlines, painting_order(arcs, outlines), np.array(alpha, float), 0.5)
    assert np.diff(found.shape_offsets).tolist() == loops


def test_what_lies_in_a_hole_is_painted_after_its_shape():
    arcs = nested()
    assert painting_order(arcs, exact_outlines(arcs)).tolist() == [0, 1, 2, 3]


def test_the_loops_of_shapes_without_holes_have_the_arcs_that_they_had_or_their_moved_copies():
    labels = np.repeat(np.repeat([[0, 1], [2, 2]], 3, axis=0), 3, axis=1).astype(np.int32)
    arcs = planar_map(labels)
    outlines, count = exact_outlines(arcs), len(arcs.left)
    found, both = trapped(arcs, outlines, painting_order(arcs, outlines), np.ones(3), 0.5)
    assert len(both.offsets) == 2 * count + 1
    assert np.where(found.loops >= 0, found.loops % count, ~(~found.loops % count)).tolist() == arcs.loops.tolist()
    inner = (arcs.left >= 0) & (arcs.right >= 0)
    used = np.where(found.loops >= 0, found.loops, ~found.loops)
    assert np.bincount(used, minlength=2 * count).tolist() == [1] * count + inner.astype(int).tolist()


def test_the_border_of_the_picture_is_never_moved_whatever_is_painted_first():
    arcs = nested()
    border = np.flatnonzero((arcs.left < 0) | (arcs.right < 0))
    found, _ = trapped(arcs, exact_outlines(arcs), np.array([3, 2, 1, 0]), np.ones(4), 0.5)
    used = np.where(found.loops >= 0, found.loops, ~found.loops)
    assert np.bincount(used)[border].tolist() == [1] * len(border)


def test_the_ends_of_a_curve_move_at_right_angles_to_its_tangents():
    points = np.array([[0, 0], [90, 60]], np.int32)
    controls = np.array([[0, 0, 0, 0], [30, 0, 90, 20]], np.int32)  # leaves eastwards, arrives southwards
    new_points, _ = moved(points, np.array([0, 2], np.int32), controls, np.array([False, True]), np.array([10.0]))
    assert new_points.tolist() == [[0, 10], [80, 60]]


def areas_of(arcs, outlines):
    """Areas of the loops of a map, by the exact outlines."""
    return loop_areas(arcs.loops, arcs.loop_offsets, *flattened(outlines)).tolist()


def test_areas_of_loops_are_positive_outside_and_negative_around_holes():
    arcs = nested()
    assert areas_of(arcs, exact_outlines(arcs)) == [196, -25, -9, 25, -1, 9, 1]


@pytest.mark.parametrize("margin", [0, 2], ids=["the whole image", "with an outside"])
def test_areas_of_shapes_count_pixels(margin):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.repeat(rng.permutation(12).reshape(3, 4), rng.integers(1, 4, 3), axis=0), rng.integers(1, 4, 4), axis=1)
    arcs = planar_map(np.pad(labels.astype(np.int32), margin, constant_values=-1))
    assert areas_of(arcs, exact_outlines(arcs)) == np.bincount(labels.ravel()).tolist()
    assert outer_areas(arcs, exact_outlines(arcs)).tolist() == np.bincount(labels.ravel()).tolist()


def test_a_shape_runs_under_later_ones_if_these_are_opaque_and_both_are_drawn():
    arcs = planar_map(np.repeat([[0, 1, 2, 3]], 4, axis=0).repeat(4, axis=1).astype(np.int32))
    outlines = exact_outlines(arcs)
    alpha = np.array([1.0, 0.0, 0.5, 1.0])  # opaque, not drawn, translucent, opaque
    count = len(arcs.left)
    for order, expected in (([0, 1, 2, 3], {(2, 3)}), ([3, 2, 1, 0], set()), ([3, 0, 1, 2], set()), ([1, 2, 3, 0], {(2, 3)})):
        found, _ = trapped(arcs, outlines, np.array(order), alpha, 0.5)
        used = np.where(found.loops >= 0, found.loops, ~found.loops)
        moved_arcs = {tuple(sorted((int(arcs.left[arc]), int(arcs.right[arc])))) for arc in used[used >= count] - count}
        assert moved_arcs == expected


@pytest.mark.parametrize("own", [0, 1, 2], ids=["the first shape", "one between", "the last shape"])
def test_the_backing_has_the_outline_of_all_opaque_shapes_that_hang_together_and_others_keep_theirs(own):
    labels = np.full((10, 16), -1, np.int32)
    labels[2:8, 2:6], labels[2:8, 6:10], labels[2:8, 12:14] = 0, 1, 2  # the last stands apart
    arcs = planar_map(labels)
    outlines = exact_outlines(arcs)
    order = np.array([own, *(shape for shape in range(3) if shape != own)])
    found, both = trapped(arcs, outlines, order, np.ones(3), 1.0, backing=True)
    expected = [24.0, 24.0, 12.0]
    # Its own sides stay, the other's three move inwards by a pixel; where it has none, the first runs under the next.
    expected[own % 2] += 3 * 4 if own < 2 else 6
    assert [sum(ring_areas(found, both, shape)) for shape in range(3)] == expected
    assert len(found.loop_offsets) == found.shape_offsets[-1] + 1
    assert found.loop_offsets[-1] == len(found.loops)


def ring_areas(arcs, outlines, shape):
    """Areas of the loops of a shape as they are drawn: lines lead from the end of one arc to the next."""
    found = []
    for loop in range(arcs.shape_offsets[shape], arcs.shape_offsets[shape + 1]):
        points = []
        for half in arcs.loops[arcs.loop_offsets[loop] : arcs.loop_offsets[loop + 1]].tolist():
            arc = half if half >= 0 else ~half
            points += outlines.points[outlines.offsets[arc] : outlines.offsets[arc + 1]].tolist()[:: 1 if half >= 0 else -1]
        x, y = np.array(points, float).T / outlines.unit
        found.append(float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2)
    return found


@pytest.mark.parametrize(("side", "radius"), [(2.0, 8), (-2.0, 12)], ids=["inwards", "outwards"])
@pytest.mark.parametrize("sense", [1, -1], ids=["clockwise", "counterclockwise"])
def test_an_arc_of_a_circle_that_moves_to_its_side_has_the_radius_of_a_circle_about_the_same_centre(side, radius, sense):
    unit = 100
    angle = sense * np.deg2rad([0, 60, 120])
    points = np.rint(1000 * np.stack((np.cos(angle), np.sin(angle)), axis=1)).astype(np.int32)
    outlines = Outlines(points, np.array([0, 3], np.int32), unit, radii=np.array([0, sense * 1000, sense * 1000], np.int32))
    found = np.rint(radius * 100 * np.stack((np.cos(angle), np.sin(angle)), axis=1)).astype(np.int32)
    moved_by = np.array([side * sense * unit])
    assert moved_radii(outlines, found, moved_by).tolist() == [0, sense * radius * 100, sense * radius * 100]


def test_an_arc_whose_ends_no_circle_of_the_moved_radius_reaches_becomes_a_line_and_maps_without_arcs_have_none():
    points = np.array([[0, 0], [1000, 0]], np.int32)
    outlines = Outlines(points, np.array([0, 2], np.int32), 100, radii=np.array([0, 600], np.int32))
    assert moved_radii(outlines, points, np.array([20.0])).tolist() == [0, 580]
    assert moved_radii(outlines, points, np.array([60.0])).tolist() == [0, 0]
    assert moved_radii(exact_outlines(nested()), points, np.zeros(1)).tolist() == []


def test_moving_an_arc_keeps_its_lines_parallel_and_the_others_in_place():
    points = np.array([[0, 0], [100, 0], [100, 80], [7, 7], [9, 9], [50, 50], [90, 50], [90, 90], [50, 90], [50, 50]], np.int32)
    offsets = np.array([0, 3, 5, 10], np.int32)
    empty = np.empty((0, 4), np.int32), np.empty(0, bool)
    found, _ = moved(points, offsets, *empty, np.array([10.0, 0.0, -10.0]))
    corner = 10 / np.sqrt(2)
    assert found[:5].tolist() == [[0, 10], [round(100 - corner), round(corner)], [90, 80], [7, 7], [9, 9]]
    ring = np.array([[50, 50], [90, 50], [90, 90], [50, 90], [50, 50]]) + np.rint(
        corner * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1], [-1, -1]])
    )
    assert found[5:].tolist() == ring.tolist()  # a ring has no ends: to the left is outwards


def test_control_points_move_with_the_vertex_that_they_belong_to_and_those_of_lines_stay():
    points = np.array([[0, 0], [60, 0], [120, 60], [120, 120]], np.int32)
    controls = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [90, 0, 120, 30], [0, 0, 0, 0]], np.int32)
    curved = np.array([False, False, True, False])
    found, new = moved(points, np.array([0, 4], np.int32), controls, curved, np.array([10.0]))
    assert found.tolist() == [[0, 10], [60, 10], [110, 60], [110, 120]]
    assert new.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [90, 10, 110, 30], [0, 0, 0, 0]]
