"""Pieces of arcs: lines and circles end where a person would end them."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.fits import CIRCLE, LINE, add_sums
from pixtree.vector.outlines.placement import Samples, crack_middles
from pixtree.vector.outlines.primitives import (
    BULGE,
    WOBBLE,
    Prices,
    cosine_at,
    fit_piece,
    join_lines,
    meet_near,
    pieces_of,
    sense_of,
    sharpen_corners,
    sharpest_turn,
    turned,
)

PRICES = Prices(noise=0.04, line=6.0, circle=6.0)


def free(path):
    """No fixed samples."""
    return np.zeros(len(path), np.bool_)


def summed(path):
    """Prefix sums of samples (S, 2)."""
    sums = np.zeros((len(path) + 1, 10))
    add_sums(sums, path, len(path))
    return sums


def fitted(path, first=0, last=None):
    """Cost, kind, whether longer pieces may fit, and the place of the piece of samples first…last."""
    place = np.empty(4)
    last = len(path) - 1 if last is None else last
    return *fit_piece(summed(path), path, first, last, PRICES, place, np.empty(4)), place


def around(radius, first, last, count):
    """Samples of a part of a circle about (20, 30), by angles in radians."""
    angle = np.linspace(first, last, count)
    return np.array([20.0, 30.0]) + radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)


def test_samples_of_a_line_are_a_line_at_its_price():
    cost, kind, going_on, place = fitted(np.stack((5 + 0.8 * np.arange(12), 7 + 0.6 * np.arange(12)), axis=1))
    assert (kind, going_on) == (LINE, True)
    assert cost == pytest.approx(PRICES.line, abs=1e-4)
    assert abs(place[2:] @ (0.8, 0.6)) == pytest.approx(1)


@pytest.mark.parametrize(("first", "last"), [(0.0, 2.0), (0.0, 5.9)])
def test_samples_of_a_circle_are_a_circle_at_its_price(first, last):
    path = around(6.0, first, last, 24)
    cost, kind, going_on, place = fitted(path)
    assert (kind, going_on) == (CIRCLE, True)
    assert cost == pytest.approx(PRICES.circle, abs=1e-4)
    assert place[:2] + path[0] == pytest.approx([20, 30])
    assert place[2] == pytest.approx(6)


def test_no_piece_of_a_circle_turns_by_nearly_a_whole_one():
    assert fitted(around(6.0, 0, 6.1, 40))[1] == LINE


def test_a_few_samples_are_a_line_whatever_they_do_and_many_that_bend_at_random_are_nothing():
    wild = np.array([[0.0, 0], [3, 4], [1, 7]])
    assert fitted(wild)[1] == LINE
    assert np.isfinite(fitted(wild)[0])
    wild = np.random.default_rng(0).uniform(0, 9, (14, 2))
    cost, _, going_on, _ = fitted(wild)
    assert (cost, going_on) == (np.inf, False)


def test_a_sample_that_strays_near_an_end_costs_by_what_rounding_does_not_explain():
    path = np.stack((np.arange(20.0), np.zeros(20)), axis=1)
    costs = []
    for gap in (0.0, 0.4, 0.7):
        strayed = path.copy()
        strayed[1, 1] = gap  # neither an end nor fitted to
        costs.append(fitted(strayed)[0])
    assert costs == pytest.approx([6, 6, 6 + (0.3 / PRICES.noise) ** 2], abs=1e-3)


def test_a_line_that_misses_its_own_end_by_a_pixel_is_none():
    path = np.stack((np.arange(20.0), np.zeros(20)), axis=1)
    path[-1, 1] = 1.0
    assert fitted(path)[0] == np.inf
    path[-1, 1] = 0.7
    assert fitted(path)[0] < np.inf


@pytest.mark.parametrize(("angles", "sense"), [((0.2, 2.0), 1.0), ((2.0, 0.2), -1.0)])
def test_a_circle_is_clockwise_on_the_screen_if_its_angle_grows(angles, sense):
    assert sense_of(around(6.0, *angles, 9), 0, 8, np.array([20.0, 30.0, 6.0, 0.0])) == sense


def square(side, start):
    """The ring of a square, a sample per pixel, from sample `start` after its corner at (0, 0); the last repeats the first."""
    along = np.arange(side, dtype=float)
    zero, full = np.zeros(side), np.full(side, float(side))
    ring = np.stack((np.concatenate((along, full, side - along, zero)), np.concatenate((zero, along, full, side - along))), axis=1)
    ring = np.roll(ring, -start, axis=0)
    return np.concatenate((ring, ring[:1]))


def test_a_ring_begins_at_its_sharpest_turn():
    path = square(12, 5)
    path[7 + 12] += (0.6, 0.6)  # the second corner is sharper than the others
    assert sharpest_turn(path, len(path), free(path)) == 19
    assert cosine_at(path, len(path), 7) == pytest.approx(0)
    assert cosine_at(path, len(path), 1) == pytest.approx(1)
    before = path[:-1].copy()
    turned(path, free(path), len(path), 19, np.empty((len(path), 3)))
    assert path.tolist() == np.concatenate((before[19:], before[:20])).tolist()


def pieces_of_mask(inside, move=lambda points: points):
    """The pieces of the ring around a mask (H, W), its samples moved by `move`."""
    arcs = planar_map(inside.astype(np.int32))
    (ring,) = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))
    points, offsets = crack_middles(arcs.offsets, arcs.corners)
    own = slice(offsets[ring], offsets[ring + 1])
    points[own] = move(points[own])
    pieces = pieces_of(Samples(points, offsets), arcs, PRICES, free(points))
    chosen = slice(pieces.offsets[ring], pieces.offsets[ring + 1])
    return pieces, chosen, points[own]


def test_the_ring_of_a_box_is_four_lines_and_the_border_of_the_image_one_line_a_side():
    inside = np.zeros((20, 24), bool)
    inside[4:15, 5:19] = True
    pieces, own, points = pieces_of_mask(inside)
    assert pieces.kind.tolist() == [LINE] * len(pieces.kind)
    assert own.stop - own.start == 4
    assert sorted(pieces.length[own].tolist()) == pytest.approx([11, 11, 14, 14], abs=1.5)  # corners are cut
    assert sorted(np.abs(pieces.place[own, 2]).round(6).tolist()) == [0, 0, 1, 1]
    upright = np.abs(pieces.place[own, 2]) < 0.5
    assert sorted(pieces.place[own][upright, 0].tolist()) == pytest.approx([5, 19])
    assert sorted(pieces.place[own][~upright, 1].tolist()) == pytest.approx([4, 15])
    first, last = pieces.first[own], pieces.last[own]
    assert (first[1:] == last[:-1]).all()
    assert last[-1] - first[0] == len(points) - 1  # all the way around


def test_a_disc_is_one_circle_a_little_larger_than_its_samples_lie_since_pixels_average_over_the_curve():
    y, x = np.mgrid[:30, :30] + 0.5
    centre = np.array([14.6, 15.3])

    def onto(points):
        way = points - centre
        return centre + 9 * way / np.hypot(*way.T)[:, None]

    pieces, own, points = pieces_of_mask(np.hypot(x - centre[0], y - centre[1]) < 9, onto)
    assert pieces.kind[own].tolist() == [CIRCLE]
    assert pieces.place[own][0, :3] == pytest.approx([*centre, 9 + BULGE / 9])
    area = points[:-1, 0] @ points[1:, 1] - points[:-1, 1] @ points[1:, 0]
    assert pieces.place[own][0, 3] == np.sign(area)


def stadium_pieces():
    """The pieces of two half circles of radius 7 with lines of length 12 between them, samples exactly on it."""
    y, x = np.mgrid[:30, :40] + 0.5
    left, right, radius = np.array([14.0, 15.0]), np.array([26.0, 15.0]), 7.0
    inside = np.hypot(np.maximum(np.abs(x - 20) - 6, 0), y - 15) < radius

    def onto(points):
        core = np.stack((np.clip(points[:, 0], left[0], right[0]), np.full(len(points), 15.0)), axis=1)
        way = points - core
        return core + radius * way / np.hypot(*way.T)[:, None]

    return pieces_of_mask(inside, onto)


def test_two_half_circles_and_two_lines_are_found_as_such():
    pieces, own, _ = stadium_pieces()
    kinds = pieces.kind[own]
    assert sorted(kinds.tolist()) == [LINE, LINE, CIRCLE, CIRCLE]
    circles = pieces.place[own][kinds == CIRCLE]
    assert sorted(circles[:, 0].tolist()) == pytest.approx([14, 26], abs=0.05)
    assert circles[:, 1] == pytest.approx([15, 15], abs=0.05)
    assert circles[:, 2] == pytest.approx([7 + BULGE / 7] * 2, abs=0.05)
    lines = pieces.place[own][kinds == LINE]
    assert sorted(lines[:, 1].tolist()) == pytest.approx([8, 22])
    assert pieces.length[own].sum() == pytest.approx(2 * np.pi * 7 + 24, rel=0.02)


def joined(path, spans, kinds):
    """First samples, last samples and kinds of pieces after neighbouring lines were joined."""
    firsts, lasts = np.array(spans, np.int32).T.copy()
    pieces = (firsts, lasts, np.array(kinds, np.int8), np.zeros((len(spans), 4)))
    end = join_lines(summed(path), path, free(path), pieces, 0, len(spans), np.empty(4), np.empty(4))
    return list(zip(*(one[:end].tolist() for one in pieces[:3]), strict=True))


def steps(height):
    """A level line of 31 samples with a step in the middle."""
    x = np.arange(31.0)
    return np.stack((x, np.where(x > 15, height, 0.0)), axis=1)


def test_lines_that_only_wobble_around_one_become_one_and_a_visible_step_stays():
    spans, kinds = [(0, 15), (15, 16), (16, 30)], [LINE] * 3
    assert joined(steps(0.2), spans, kinds) == [(0, 30, LINE)]
    assert joined(steps(0.5), spans, kinds) == [(0, 16, LINE), (16, 30, LINE)]


@pytest.mark.parametrize(("share", "expected"), [(0.98, 1), (1.02, 2)])
def test_samples_may_all_lie_as_far_from_their_line_as_a_wobble_and_no_farther(share, expected):
    x = np.arange(32.0)
    path = np.stack((x, share * WOBBLE * np.where(x % 4 < 2, 1, -1)), axis=1)
    path[:, 1] = np.roll(path[:, 1], 1)  # neither shifted nor slanted on the whole
    assert len(joined(path, [(0, 15), (15, 31)], [LINE] * 2)) == expected


def test_a_short_arc_within_a_wobble_is_joined_and_a_long_one_never():
    assert joined(steps(0.0), [(0, 10), (10, 20), (20, 30)], [LINE, CIRCLE, LINE]) == [(0, 30, LINE)]
    kept = joined(steps(0.0), [(0, 5), (5, 25), (25, 30)], [LINE, CIRCLE, LINE])
    assert kept == [(0, 5, LINE), (5, 25, CIRCLE), (25, 30, LINE)]


def test_lines_along_a_gentle_curve_are_not_joined():
    x = np.arange(31.0)
    bent = np.stack((x, 0.0008 * (x - 15) ** 2), axis=1)
    assert len(joined(bent, [(0, 15), (15, 30)], [LINE] * 2)) == 2


EAST, SOUTH, FAR_SOUTH = (5.0, 0.0, 1.0, 0.0), (10.0, 5.0, 0.0, 1.0), (14.0, 5.0, 0.0, 1.0)


def corner_path():
    """Ten samples east, a corner that anti-aliasing cut off, ten samples south."""
    east = np.stack((np.arange(10.0), np.zeros(10)), axis=1)
    return np.concatenate((east, [[9.7, 0.3]], np.stack((np.full(10, 10.0), np.arange(1.0, 11.0)), axis=1)))


@pytest.mark.parametrize(
    ("spans", "kinds", "places", "expected"),
    [
        ([(0, 9), (9, 11), (11, 20)], [LINE] * 3, (EAST, EAST, SOUTH), [(0, 11), (11, 20)]),
        ([(0, 9), (9, 11), (11, 20)], [LINE, CIRCLE, LINE], (EAST, EAST, SOUTH), [(0, 11), (11, 20)]),
        ([(0, 9), (9, 11), (11, 20)], [LINE, LINE, CIRCLE], (EAST, EAST, SOUTH), [(0, 9), (9, 11), (11, 20)]),
        ([(0, 9), (9, 11), (11, 20)], [CIRCLE, LINE, LINE], (EAST, EAST, SOUTH), [(0, 9), (9, 11), (11, 20)]),
        ([(0, 9), (9, 11), (11, 20)], [LINE] * 3, (EAST, EAST, FAR_SOUTH), [(0, 9), (9, 11), (11, 20)]),
        ([(0, 8), (8, 13), (13, 20)], [LINE] * 3, (EAST, EAST, SOUTH), [(0, 8), (8, 13), (13, 20)]),  # not tiny
        ([(6, 9), (9, 11), (11, 20)], [LINE] * 3, (EAST, EAST, SOUTH), [(6, 9), (9, 11), (11, 20)]),  # too short a line before it,
        ([(0, 9), (9, 11), (11, 14)], [LINE] * 3, (EAST, EAST, SOUTH), [(0, 9), (9, 11), (11, 14)]),  # or behind it
        ([(0, 9), (9, 11)], [LINE] * 2, (EAST, SOUTH), [(0, 9), (9, 11)]),  # the last piece
    ],
)
def test_a_tiny_piece_between_longer_lines_that_meet_next_to_it_is_dropped(spans, kinds, places, expected):
    firsts, lasts = np.array(spans, np.int32).T.copy()
    pieces = (firsts, lasts, np.array(kinds, np.int8), np.array(places))
    path = corner_path()
    end = sharpen_corners(path, free(path), pieces, 0, len(spans))
    assert list(zip(firsts[:end].tolist(), lasts[:end].tolist(), strict=True)) == expected
    assert pieces[3][end - 1].tolist() == list(places[-1])


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ((2.0, 1.0, 1.0, 0.0), (9.0, 7.0, 0.0, 1.0), True),  # at (9, 1) from the first sample
        ((2.0, 1.0, 0.8, 0.6), (9.0, 7.0, 0.0, 1.0), False),  # at (9, 6.25)
        ((9.0, 7.0, 0.0, 1.0), (2.0, 1.0, 1.0, 0.0), True),
        ((2.0, 1.0, 1.0, 0.0), (9.0, 1.0, 0.995, 0.1), False),  # hardly a corner, though they meet there
    ],
)
def test_lines_meet_near_samples_within_most_of_a_pixel(one, two, expected):
    path = np.array([[50.0, 60.0], [58.0, 61.0], [59.5, 61.5], [60.0, 64.0]])
    assert meet_near(path, 1, 3, np.array(one), np.array(two)) == expected
