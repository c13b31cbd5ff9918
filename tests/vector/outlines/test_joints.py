"""Where pieces meet: directions made equal, corners, junctions, and arcs of circles in the vertices of an outline."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.fits import CIRCLE, LINE
from pixtree.vector.outlines.joints import fit_shapes, meeting, outlines_of, snap_directions
from pixtree.vector.outlines.placement import Samples, crack_middles
from pixtree.vector.outlines.primitives import Pieces, Prices

UNIT = 1000


def snapped(*lines):
    """Directions, in degrees within ±90, of lines of given direction and length after snapping."""
    degrees, length = np.array(lines, float).T
    place = np.zeros((len(lines), 4))
    place[:, 2], place[:, 3] = np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))
    snap_directions(np.full(len(lines), LINE, np.int8), place, length, np.argsort(-length, kind="stable"))
    found = np.rad2deg(np.arctan2(place[:, 3], place[:, 2]))
    return np.round((found + 90) % 180 - 90, 6).tolist()


@pytest.mark.parametrize("axis", [-45.0, 0.0, 45.0])
@pytest.mark.parametrize("off", [-1.0, 1.0])
def test_a_line_that_is_nearly_on_an_axis_or_diagonal_takes_its_direction(axis, off):
    assert snapped((axis + off, 12.0)) == [axis]


def test_a_line_keeps_a_direction_that_would_move_its_ends_visibly():
    assert snapped((5.0, 6.0)) == [5.0]  # four degrees at most
    assert snapped((1.0, 40.0)) == [1.0]  # half of its length times the angle is a third of a pixel


def test_a_line_takes_the_direction_of_a_longer_one_and_of_its_normal():
    assert snapped((20.0, 30.0), (22.0, 7.0), (-68.0, 7.0)) == [20.0, 20.0, -70.0]
    assert snapped((22.0, 7.0), (20.0, 30.0)) == [20.0, 20.0]  # wherever it stands


def test_the_nearest_of_several_directions_is_taken():
    assert snapped((20.0, 30.0), (26.0, 30.0), (22.0, 6.0), (24.0, 6.0)) == [20.0, 26.0, 20.0, 26.0]


def test_the_shortest_lines_and_circles_keep_their_directions():
    assert snapped((1.0, 1.4)) == [1.0]
    place = np.array([[3.0, 4.0, 1.0, 0.01]])
    snap_directions(np.array([CIRCLE], np.int8), place, np.array([10.0]), np.array([0]))
    assert place.tolist() == [[3.0, 4.0, 1.0, 0.01]]


LEVEL, UPRIGHT, DISC = (0.0, 3.0, 1.0, 0.0), (7.0, 0.0, 0.0, 1.0), (7.0, 8.0, 5.0, 1.0)


@pytest.mark.parametrize(
    ("first", "second", "near", "expected"),
    [
        ((LINE, LEVEL), (LINE, UPRIGHT), (6.5, 2.0), (7.0, 3.0)),
        ((LINE, (0.0, 0.0, 0.8, 0.6)), (LINE, UPRIGHT), (7.5, 5.0), (7.0, 5.25)),
        ((LINE, UPRIGHT), (CIRCLE, DISC), (7.3, 2.5), (7.0, 3.0)),
        ((CIRCLE, DISC), (LINE, UPRIGHT), (7.3, 12.5), (7.0, 13.0)),
        ((CIRCLE, DISC), (CIRCLE, (13.0, 8.0, 5.0, 1.0)), (10.3, 4.4), (10.0, 4.0)),
    ],
    ids=["two lines", "two slanted lines", "a line and a circle", "a circle and a line", "two circles"],
)
def test_pieces_meet_where_both_pass(first, second, near, expected):
    kind, place = np.array([first[0], second[0]], np.int8), np.array([first[1], second[1]])
    assert meeting(kind, place, np.array([9.0, 9.0]), 0, 1, *near) == pytest.approx(expected, abs=1e-3)


def test_pieces_that_meet_far_away_end_between_their_nearest_points():
    kind, place = np.zeros(2, np.int8), np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 0.4, 1.0, 0.0]])
    assert meeting(kind, place, np.array([9.0, 9.0]), 0, 1, 5.0, 0.0) == pytest.approx((5.0, 0.2))


def arc_outlines(first, last, sense, centre=(30.0, 20.0), radius=8.0):
    """Outlines of one piece of a circle, from one angle (degrees) to another, clockwise on the screen for sense 1."""
    ends = [[f(np.deg2rad(angle)) for f in (np.cos, np.sin)] for angle in (first, last)]
    ends = (np.array(ends) * radius + centre).reshape(1, 4)
    length = radius * np.deg2rad((sense * (last - first)) % 360 or 360)
    one = (np.array([0, 1], np.int32), np.zeros(1, np.int32), np.ones(1, np.int32), np.array([CIRCLE], np.int8))
    return outlines_of(Pieces(*one, np.array([[*centre, radius, sense]]), np.array([length])), ends, UNIT)


@pytest.mark.parametrize(
    ("first", "last", "sense", "arcs"),
    [
        (10, 100, 1.0, 1),
        (100, 10, -1.0, 1),
        (-70, 130, 1.0, 2),
        (130, -70, -1.0, 2),
        (-160, 140, 1.0, 3),
        (45, 45, 1.0, 4),
        (45, 45, -1.0, 4),
    ],
)
def test_a_part_of_a_circle_becomes_few_curves_on_the_circle_in_its_sense(first, last, sense, arcs):
    points, offsets, controls, curved, radii = arc_outlines(first, last, sense)
    assert offsets.tolist() == [0, arcs + 1]
    assert curved.tolist() == [False] + [True] * arcs
    assert radii[1:] / UNIT == pytest.approx([sense * 8.0] * arcs, abs=0.002)
    points, controls = points / UNIT - (30, 20), controls / UNIT - (30, 20, 30, 20)
    covered = 0.0
    for k in range(1, arcs + 1):
        cubic = np.stack((points[k - 1], controls[k, :2], controls[k, 2:], points[k]))
        t = np.linspace(0, 1, 21)[:, None]
        x, y = ((1 - t) ** 3 * cubic[0] + 3 * (1 - t) ** 2 * t * cubic[1] + 3 * (1 - t) * t**2 * cubic[2] + t**3 * cubic[3]).T
        assert np.hypot(x, y) == pytest.approx(np.full(21, 8.0), abs=0.02)
        turn = np.diff(np.unwrap(np.arctan2(y, x)))
        assert (turn * sense > 0).all()
        covered += np.rad2deg(turn.sum())
    assert covered == pytest.approx(sense * ((sense * (last - first)) % 360 or 360), abs=0.1)


def test_an_arc_that_hardly_rises_over_its_chord_is_a_line():
    _, _, controls, curved, radii = arc_outlines(0, 10, 1.0)  # 8 (1 − cos 5°) is 0.03 pixels
    assert not curved.any()
    assert not radii.any()
    assert not controls.any()


def test_ends_that_have_passed_each_other_leave_a_tiny_arc_and_not_nearly_a_whole_circle():
    place = np.array([[30.0, 20.0, 8.0, 1.0]])
    ends = np.array([[*(30 + 8 * np.cos(0.2), 20 + 8 * np.sin(0.2)), 38.0, 20.0]])  # turned back by a fifth of a radian
    one = (np.array([0, 1], np.int32), np.zeros(1, np.int32), np.ones(1, np.int32), np.array([CIRCLE], np.int8))
    points, *_ = outlines_of(Pieces(*one, place, np.array([1.6])), ends, UNIT)
    assert len(points) == 2


def test_of_very_many_directions_the_first_forty_six_are_remembered_next_to_axes_and_diagonals():
    long = [(1 + 0.9 * k, 100.0) for k in range(48)]
    for known, expected in ((0, long[0][0]), (45, long[45][0]), (46, long[46][0] + 0.3)):
        assert snapped(*long, (long[known][0] + 0.3, 50.0))[-1] == pytest.approx(expected)


def fitted_map(labels, move):
    """Ends (2, 2) in pixels of every arc of a map, after its samples were moved by `move(points, arc)`; and the map."""
    arcs = planar_map(labels)
    points, offsets = crack_middles(arcs.offsets, arcs.corners)
    for arc in range(len(arcs.left)):
        own = slice(offsets[arc], offsets[arc + 1])
        if arcs.left[arc] >= 0 and arcs.right[arc] >= 0:
            points[own] = move(points[own], {int(arcs.left[arc]), int(arcs.right[arc])})
    outlines = fit_shapes(Samples(points, offsets), arcs, unit=UNIT, prices=Prices(0.04, 6.0, 6.0))
    ends = [outlines.points[[outlines.offsets[arc], outlines.offsets[arc + 1] - 1]] / UNIT for arc in range(len(arcs.left))]
    return arcs, ends


def turned(points, turns, shape):
    """Points (…, 2) of an image (H, W) where np.rot90 takes them, by quarters."""
    for k in range(turns % 4):
        points = np.stack((points[..., 1], shape[1 - k % 2] - points[..., 0]), axis=-1)
    return points


def fitted_turned(labels, turns, move):
    """Like `fitted_map`, of an image that was turned; `move` and the ends are those of the image before."""
    shape, after = labels.shape, np.rot90(labels, turns)
    arcs, ends = fitted_map(
        np.ascontiguousarray(after),
        lambda points, sides: turned(move(turned(points, -turns, after.shape), sides), turns, shape),
    )
    return arcs, [np.round(turned(pair, -turns, after.shape), 3) for pair in ends]


@pytest.mark.parametrize("turns", range(4))
def test_lines_of_three_regions_meet_in_one_point_and_end_on_the_border_of_the_image(turns):
    labels = np.zeros((16, 24), np.int32)
    labels[:8, 12:], labels[8:, 12:] = 1, 2
    arcs, ends = fitted_turned(labels, turns, lambda points, sides: points + ((0.0, 0.2) if sides == {1, 2} else (0.3, 0.0)))
    border = {(12.3, 0.0), (12.3, 16.0), (24.0, 8.2)}
    corners = {(0.0, 0.0), (24.0, 0.0), (0.0, 16.0), (24.0, 16.0)}
    found = {True: [], False: []}
    for arc, pair in enumerate(ends):
        found[bool(arcs.left[arc] >= 0 and arcs.right[arc] >= 0)] += [tuple(end) for end in pair.tolist()]
    assert set(found[True]) == {(12.3, 8.2)} | border
    assert found[True].count((12.3, 8.2)) == 3
    assert set(found[False]) == border | corners


@pytest.mark.parametrize("turns", range(4))
def test_all_corners_of_a_grid_lie_where_its_lines_cross_and_those_on_the_border_on_it(turns):
    labels = np.arange(16, dtype=np.int32).reshape(4, 4).repeat(6, axis=0).repeat(6, axis=1)
    labels = np.unique(np.rot90(labels, turns), return_inverse=True)[1].reshape(24, 24).astype(np.int32)
    off = np.array([0.3, 0.2])  # of the pixels' edges, to where the lines really lie

    def move(points, sides):
        return points + np.where(np.ptp(points, axis=0) < 1, off, 0.0)  # a line moves across itself

    arcs, ends = fitted_map(labels, move)
    for arc, pair in enumerate(ends):
        corners = arcs.corners[[arcs.offsets[arc], arcs.offsets[arc + 1] - 1]]
        expected = corners + np.where((corners == 0) | (corners == 24), 0.0, off)
        np.testing.assert_allclose(pair, expected, atol=0.003)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("turns", range(4))
def test_a_line_that_is_nearly_along_the_border_ends_on_it(turns, mirrored):
    y, x = np.mgrid[:12, :48] + 0.5
    start, normal = np.array([8.0, 0.0]), np.array([0.2, -1.0]) / np.hypot(0.2, 1.0)
    labels = (y > 0.2 * (x - start[0])).astype(np.int32)  # meets the upper border at x = 8
    if mirrored:
        labels, start, normal = labels[:, ::-1].copy(), np.array([40.0, 0.0]), normal * (-1, 1)
    arcs, ends = fitted_turned(labels, turns, lambda points, sides: points - ((points - start) @ normal)[:, None] * normal)
    (inner,) = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))
    begin = ends[inner][ends[inner][:, 1].argmin()]
    assert begin[1] == 0.0
    assert begin[0] == pytest.approx(start[0], abs=0.8)
    assert begin.tolist() in [end.tolist() for arc, pair in enumerate(ends) for end in pair if arc != inner]


def test_a_junction_that_its_lines_miss_by_far_stays_where_it_is():
    labels = np.zeros((16, 24), np.int32)
    labels[:8, 12:], labels[8:, 12:] = 1, 2

    def move(points, sides):  # the lower half of the upright line lies three pixels farther to the right
        return points + ((0.0, 0.0) if sides == {1, 2} else (3.0, 0.0) if sides == {0, 2} else (-3.0, 0.0))

    arcs, ends = fitted_map(labels, move)
    met = [end for arc, pair in enumerate(ends) for end in pair.tolist() if arcs.left[arc] >= 0 and arcs.right[arc] >= 0]
    assert sum(abs(x - 12) < 3.01 and abs(y - 8) < 0.01 for x, y in met) == 3
