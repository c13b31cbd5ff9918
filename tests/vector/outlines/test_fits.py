"""Lines and circles of least squares: the same as by numpy's solvers, from prefix sums."""

import numpy as np
import pytest

from pixtree.vector.outlines.fits import CIRCLE, LINE, add_sums, circle_through, gap_to, inside, line_through


def summed(path):
    """Prefix sums of samples (S, 2)."""
    sums = np.zeros((len(path) + 1, 10))
    add_sums(sums, path, len(path))
    return sums


def around(centre, radius, first, last, count):
    """Samples (count, 2) on a part of a circle, from one angle to another."""
    angle = np.linspace(first, last, count)
    return np.asarray(centre) + radius * np.stack((np.cos(angle), np.sin(angle)), axis=1)


@pytest.mark.parametrize(("low", "high"), [(0, 11), (3, 9)], ids=["all samples", "those inside"])
def test_a_line_of_least_squares_runs_through_the_mean_along_the_first_principal_axis(low, high):
    path = np.random.default_rng(0).uniform(0, 30, (12, 2)) * (3, 1) + (50, 80)
    place = np.empty(4)
    error = line_through(summed(path), low, high, place)
    chosen = path[low : high + 1] - path[0]
    mean = chosen.mean(axis=0)
    spread, axes = np.linalg.svd(chosen - mean)[1:]
    assert error == pytest.approx(spread[1] ** 2)
    assert place[:2] == pytest.approx(mean)
    assert abs(place[2:] @ axes[0]) == pytest.approx(1)


@pytest.mark.parametrize(("low", "high"), [(0, 15), (2, 12)], ids=["all samples", "those inside"])
def test_a_circle_of_least_squares_solves_the_linear_equations_of_its_centre(low, high):
    path = around((40, 25), 9.0, 0.3, 2.6, 16) + np.random.default_rng(1).normal(0, 0.2, (16, 2))
    place = np.empty(4)
    error = circle_through(summed(path), low, high, place)
    chosen = path[low : high + 1] - path[0]
    squares = (chosen**2).sum(axis=1)
    (a, b, c), (rest,) = np.linalg.lstsq(np.column_stack((chosen, np.ones(len(chosen)))), squares, rcond=None)[:2]
    radius = np.sqrt(c + (a * a + b * b) / 4)
    assert place[:3] == pytest.approx([a / 2, b / 2, radius])
    assert error == pytest.approx(rest / (4 * radius**2))


def test_samples_of_a_circle_lie_on_it():
    path = around((40, 25), 9.0, 1.0, 4.0, 20)
    place = np.empty(4)
    assert circle_through(summed(path), 0, 19, place) == pytest.approx(0, abs=1e-8)
    assert place[:2] + path[0] == pytest.approx([40, 25])
    assert place[2] == pytest.approx(9)


@pytest.mark.parametrize("radius", [0.3, 4000.0])
def test_tiny_and_huge_circles_are_none(radius):
    assert circle_through(summed(around((0, 0), radius, 0, 3, 20)), 0, 19, np.empty(4)) == np.inf


def test_samples_of_a_line_have_no_circle():
    assert circle_through(summed(np.outer(np.arange(8.0), (3, 2))), 0, 7, np.empty(4)) == np.inf


def test_the_last_sum_is_the_length_along_the_samples():
    assert summed(np.array([[5.0, 5.0], [8.0, 9.0], [8.0, 11.0]]))[:, 9].tolist() == [0, 0, 5, 7]


@pytest.mark.parametrize(
    ("kind", "place", "point", "gap"),
    [
        (LINE, (1.0, 2.0, 0.6, 0.8), (1.0, 2.0), 0.0),
        (LINE, (1.0, 2.0, 0.6, 0.8), (1.0 + 6 - 8, 2.0 + 8 + 6), 10.0),  # 10 along the line and 10 away from it
        (LINE, (1.0, 2.0, 0.6, 0.8), (1.0 - 6 + 8, 2.0 - 8 - 6), 10.0),
        (CIRCLE, (1.0, 2.0, 5.0, 1.0), (4.0, 6.0), 0.0),
        (CIRCLE, (1.0, 2.0, 5.0, 1.0), (1.0, 2.0), 5.0),
        (CIRCLE, (1.0, 2.0, 5.0, 1.0), (7.0, 10.0), 5.0),
    ],
)
def test_the_gap_is_the_distance_to_the_nearest_point_of_a_piece(kind, place, point, gap):
    assert gap_to(kind, np.array(place), *point) == pytest.approx(gap)


@pytest.mark.parametrize(("last", "expected"), [(2, (0, 2)), (3, (1, 2)), (13, (1, 12)), (14, (2, 12))])
def test_a_piece_is_fitted_without_its_ends_if_it_is_long_enough(last, expected):
    assert inside(0, last) == expected
