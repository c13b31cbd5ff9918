"""Trapping: which holes a shape may cover, since what fills them is painted later and hides it."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.pieces import exact_outlines
from pixtree.vector.outlines.trapping import moved, painting_order, trapped


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
