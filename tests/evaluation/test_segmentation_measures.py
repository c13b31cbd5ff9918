"""Measures of label maps: values computed by hand, and a second implementation."""

import numpy as np
import pytest
from scipy.ndimage import distance_transform_edt

from pixtree.evaluation.label_maps import IGNORED
from pixtree.evaluation.segmentation_measures import Confusion, boundary_f, within

TRUTH = np.array([[0, 0, 1, 1], [0, 0, 1, IGNORED]])
FOUND = np.array([[0, 0, 0, 1], [2, 0, 1, 1]])


def test_the_confusion_matrix_counts_pixels_that_are_not_ignored():
    assert Confusion.of(FOUND, TRUTH, 3).counts.tolist() == [[3, 0, 1], [1, 2, 0], [0, 0, 0]]


def test_measures_are_those_computed_by_hand():
    matrix = Confusion.of(FOUND, TRUTH, 4)
    assert matrix.accuracy == 5 / 7
    assert np.allclose(matrix.intersections_over_unions, [3 / 5, 2 / 3, 0, np.nan], equal_nan=True)
    assert matrix.mean_iou == pytest.approx((3 / 5 + 2 / 3 + 0) / 3)


def second_mean_iou(found, truth, classes):
    """The same by sets of pixels, class by class."""
    scores = []
    for label in range(classes):
        ours = {place for place in np.ndindex(truth.shape) if found[place] == label and truth[place] != IGNORED}
        theirs = {place for place in np.ndindex(truth.shape) if truth[place] == label}
        if ours | theirs:
            scores.append(len(ours & theirs) / len(ours | theirs))
    return sum(scores) / len(scores)


@pytest.mark.parametrize("seed", range(5))
def test_a_second_implementation_agrees(seed):
    rng = np.random.default_rng(seed)
    truth = rng.choice([0, 1, 2, 3, IGNORED], (12, 9))
    found = np.where(rng.random(truth.shape) < 0.6, np.where(truth == IGNORED, 0, truth), rng.integers(0, 5, truth.shape))
    matrix = Confusion.of(found, truth, 5)
    assert matrix.mean_iou == pytest.approx(second_mean_iou(found, truth, 5))
    assert matrix.accuracy == pytest.approx((found == truth)[truth != IGNORED].mean())


def test_matrices_of_images_add_up():
    both = Confusion.of(FOUND, TRUTH, 3) + Confusion.of(TRUTH % IGNORED, TRUTH, 3)
    assert both.counts.sum() == 14
    assert both.accuracy == 12 / 14


def test_maps_of_other_sizes_and_classes_are_refused():
    with pytest.raises(ValueError, match="one size"):
        Confusion.of(FOUND[:1], TRUTH, 3)
    with pytest.raises(ValueError, match="from 0 to 1, got 0 to 2"):
        Confusion.of(FOUND, TRUTH, 2)


def test_boundaries_match_within_the_tolerance():
    truth, found = np.zeros((20, 40), int), np.zeros((20, 40), int)
    truth[:, 20:] = 1
    for shift, wanted in ((0, 1.0), (3, 1.0), (4, 0.0)):
        moved = found.copy()
        moved[:, 20 + shift :] = 1
        assert boundary_f(moved, truth) == wanted
    assert boundary_f(found, truth) == 0.0
    assert boundary_f(found, found) == 1.0


def test_half_of_the_boundaries_that_are_wrong_halve_the_precision():
    truth, found = np.zeros((20, 60), int), np.zeros((20, 60), int)
    truth[:, 20:], found[:, 20:40] = 1, 1  # two boundaries found, one of them right
    assert boundary_f(found, truth) == pytest.approx(2 * 0.5 * 1 / 1.5)


def test_boundaries_beside_ignored_pixels_do_not_count():
    truth = np.zeros((20, 40), int)
    truth[:, 20:30] = IGNORED
    assert boundary_f(np.zeros((20, 40), int), truth) == 1.0


@pytest.mark.parametrize("distance", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(40, 50), (2, 30), (4, 3)])
def test_pixels_within_a_distance_are_those_of_the_distance_transform(distance, shape):
    mask = np.random.default_rng(distance).random(shape) < 0.04
    mask[0, -1] = True
    assert np.array_equal(within(mask, distance), distance_transform_edt(~mask) <= distance)
