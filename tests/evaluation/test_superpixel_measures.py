"""The superpixel measures, by hand on small maps and against plain loops on random ones."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pixtree.evaluation import superpixels as measures
from pixtree.kernels.image import psnr

HALVES = np.array([[0, 0, 1, 1], [0, 0, 1, 1]])
LEFT_THIRD = np.array([[0, 1, 1, 1], [0, 1, 1, 1]])

shapes = st.tuples(st.integers(1, 9), st.integers(1, 9))


@st.composite
def two_maps(draw):
    shape = draw(shapes)
    return tuple(draw(arrays(np.int32, shape, elements=st.integers(0, 5))) for _ in range(2))


def pixels_of(labels, value):
    return {tuple(pixel) for pixel in np.argwhere(labels == value)}


def regions_of(labels):
    return [pixels_of(labels, value) for value in np.unique(labels)]


def boundary_by_loops(labels):
    height, width = labels.shape
    return {
        (y, x)
        for y in range(height)
        for x in range(width)
        if (x + 1 < width and labels[y, x] != labels[y, x + 1]) or (y + 1 < height and labels[y, x] != labels[y + 1, x])
    }


def recall_by_loops(labels, truth):
    ours, theirs = boundary_by_loops(labels), boundary_by_loops(truth)
    found = [any(abs(y - v) <= 2 and abs(x - u) <= 2 for v, u in ours) for y, x in theirs]
    return sum(found) / len(found) if found else 1.0


def undersegmentation_by_sets(labels, truth):
    leak = sum(min(len(s & g), len(s - g)) for s in regions_of(labels) for g in regions_of(truth) if s & g)
    return leak / labels.size


def accuracy_by_sets(labels, truth):
    return sum(max(len(s & g) for g in regions_of(truth)) for s in regions_of(labels)) / labels.size


def compactness_by_sets(labels):
    total = 0.0
    for region in regions_of(labels):
        around = sum((y + dy, x + dx) not in region for y, x in region for dy, dx in ((0, 1), (1, 0), (0, -1), (-1, 0)))
        total += len(region) / labels.size * 4 * math.pi * len(region) / around**2
    return total


def painted_by_sets(labels, image):
    painted = np.empty_like(image)
    for region in regions_of(labels):
        rows, columns = np.array(sorted(region)).T
        painted[rows, columns] = image[rows, columns].mean(0)
    return painted


def test_a_boundary_pixel_has_another_label_to_its_right_or_below():
    labels = np.array([[0, 0, 1], [0, 0, 1], [2, 2, 2]])
    assert measures.boundary_pixels(labels).tolist() == [[False, True, False], [True, True, True], [False] * 3]


def test_boundaries_two_pixels_apart_match_and_three_apart_do_not():
    truth = np.repeat([[0, 1, 1, 1, 1, 1, 1]], 2, axis=0)
    two_away = np.repeat([[0, 0, 0, 1, 1, 1, 1]], 2, axis=0)
    three_away = np.repeat([[0, 0, 0, 0, 1, 1, 1]], 2, axis=0)
    assert measures.boundary_recall(two_away, truth) == 1
    assert measures.boundary_recall(three_away, truth) == 0
    assert measures.boundary_recall(two_away, truth, window=3) == 0


def test_recall_counts_what_people_drew_and_precision_what_we_drew():
    truth = np.repeat([[0, 0, 1, 1, 1, 1, 1, 1]], 3, axis=0)
    ours = np.repeat([[0, 0, 1, 1, 1, 1, 1, 2]], 3, axis=0)
    assert measures.boundary_recall(ours, truth) == 1
    assert measures.boundary_precision(ours, truth) == 0.5


def test_nothing_is_missed_where_nothing_was_drawn():
    assert measures.boundary_recall(HALVES, np.zeros((2, 4), int)) == 1


def test_undersegmentation_error_counts_the_smaller_side_of_every_overlap():
    # the right region (6 pixels) holds 2 of one segment and 4 of the other: each overlap leaks min(2, 4) = 2
    assert measures.undersegmentation_error(LEFT_THIRD, HALVES) == 4 / 8
    assert measures.undersegmentation_error(HALVES, HALVES) == 0


def test_achievable_accuracy_gives_each_region_its_best_segment():
    assert measures.achievable_accuracy(LEFT_THIRD, HALVES) == 6 / 8
    assert measures.achievable_accuracy(HALVES, HALVES) == 1


def test_squares_are_the_most_compact_with_a_crack_perimeter():
    assert measures.compactness(HALVES) == pytest.approx(math.pi / 4)
    assert measures.compactness(np.zeros((1, 4), int)) == pytest.approx(4 * math.pi * 4 / 10**2)


def test_perimeters_include_the_border_of_the_image():
    assert measures.perimeters(np.array([[0, 0, 0], [0, 1, 0], [0, 0, 0]])).tolist() == [16, 4]


def test_contour_density_is_the_share_of_boundary_pixels():
    assert measures.contour_density(HALVES) == 2 / 8


def test_explained_variation_and_error_of_a_small_grey_image():
    image = np.array([[0.0, 0.2, 0.8, 1.0]])[..., None]
    labels = np.array([[0, 0, 1, 1]])
    assert measures.squared_error(labels, image) == pytest.approx(0.01)
    assert psnr(0.01) == pytest.approx(20)
    assert measures.explained_variation(labels, image) == pytest.approx(0.64 / 0.68)


def test_an_image_of_one_colour_is_wholly_explained():
    assert measures.explained_variation(HALVES, np.full((2, 4, 3), 0.3)) == 1
    assert psnr(0.0) == math.inf


@settings(max_examples=60, deadline=None)
@given(two_maps())
def test_every_measure_against_people_agrees_with_plain_loops(maps):
    labels, truth = maps
    assert measures.boundary_recall(labels, truth) == pytest.approx(recall_by_loops(labels, truth))
    assert measures.boundary_precision(labels, truth) == pytest.approx(recall_by_loops(truth, labels))
    assert measures.undersegmentation_error(labels, truth) == pytest.approx(undersegmentation_by_sets(labels, truth))
    assert measures.achievable_accuracy(labels, truth) == pytest.approx(accuracy_by_sets(labels, truth))


@settings(max_examples=60, deadline=None)
@given(two_maps(), st.integers(0, 99))
def test_every_measure_of_the_map_alone_agrees_with_plain_loops(maps, seed):
    labels = maps[0]
    image = np.random.default_rng(seed).random((*labels.shape, 3))
    painted = painted_by_sets(labels, image)
    kept = np.square(painted - image.mean((0, 1))).sum() / np.square(image - image.mean((0, 1))).sum() if labels.size > 1 else 1
    assert measures.compactness(labels) == pytest.approx(compactness_by_sets(labels))
    assert measures.contour_density(labels) == pytest.approx(len(boundary_by_loops(labels)) / labels.size)
    assert measures.squared_error(labels, image) == pytest.approx(np.square(painted - image).mean(), abs=1e-12)
    assert measures.explained_variation(labels, image) == pytest.approx(kept, abs=1e-9)


@settings(max_examples=30, deadline=None)
@given(two_maps())
def test_names_of_labels_do_not_matter(maps):
    labels, truth = maps
    renamed = labels.astype(np.int64) * 1_000_003 + 7
    assert measures.undersegmentation_error(renamed, truth) == measures.undersegmentation_error(labels, truth)
    assert measures.achievable_accuracy(labels, truth * 50) == measures.achievable_accuracy(labels, truth)
    assert measures.compactness(renamed) == pytest.approx(measures.compactness(labels))


def test_scores_hold_every_measure_and_average_the_annotators():
    image = np.random.default_rng(0).random((2, 4, 3))
    found = measures.superpixel_scores(LEFT_THIRD, image, [HALVES, LEFT_THIRD])
    assert set(found) == {measure.key for measure in measures.MEASURES}
    assert found["undersegmentation_error"] == pytest.approx(0.25)
    assert found["achievable_accuracy"] == pytest.approx(0.875)
    assert found["boundary_recall"] == measures.boundary_recall(LEFT_THIRD, HALVES)
    assert found["psnr"] == pytest.approx(-10 * math.log10(found["squared_error"]))


def test_one_photo_with_six_annotators_takes_milliseconds():
    ys, xs = np.mgrid[:321, :481]
    labels = ys // 16 * 31 + xs // 16
    truths = [ys // (30 + k) * 20 + xs // (40 + k) for k in range(6)]
    image = np.random.default_rng(0).random((321, 481, 3), np.float32)
    measures.superpixel_scores(labels, image, truths)
    seconds = []
    for _ in range(5):
        start = time.thread_time()  # of this thread alone: a busy machine does not count
        measures.superpixel_scores(labels, image, truths)
        seconds.append(time.thread_time() - start)
    assert min(seconds) < 0.05


@pytest.mark.parametrize(
    ("labels", "truth", "message"),
    [
        (HALVES, HALVES[:1], "one size"),
        (HALVES - 1, HALVES, "negative"),
        (HALVES * 0.5, HALVES, "integers"),
    ],
)
def test_wrong_maps_are_refused_with_the_reason(labels, truth, message):
    with pytest.raises(ValueError, match=message):
        measures.achievable_accuracy(labels, truth)


def test_scores_without_annotators_are_refused():
    with pytest.raises(ValueError, match="at least one annotator"):
        measures.superpixel_scores(HALVES, np.zeros((2, 4, 3)), [])
