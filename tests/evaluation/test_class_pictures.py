"""Pictures of classes: colours, overlays, rows and legends."""

import numpy as np
import pytest
from evidence.segmentations import Row, class_rows

from pixtree.evaluation.label_maps import GAP, IGNORED, SWATCH, class_colours, class_overlay, class_picture, legend

NAMES = ("sky", "road", "a rather long name of a class")


def holds(picture, colour):
    return bool((picture == colour).all(axis=-1).any())


def test_colours_of_150_classes_differ_and_stay_when_classes_are_added():
    many = class_colours(150)
    assert len({tuple(colour) for colour in many.tolist()}) == 150
    assert np.array_equal(class_colours(11), many[:11])


def test_ignored_pixels_are_white():
    picture = class_picture(np.array([[0, 1], [IGNORED, 2]]), class_colours(3))
    assert picture[1, 0].tolist() == [255, 255, 255]
    assert np.array_equal(picture[0], class_colours(3)[:2])


def test_an_overlay_keeps_ignored_pixels_and_names_the_classes_that_occur():
    image = np.full((40, 200, 3), 100, np.uint8)
    classes = np.zeros((40, 200), np.int64)
    classes[:, 50:], classes[:, 150:] = 2, IGNORED
    picture = class_overlay(image, classes, NAMES, opacity=0.5)
    assert (picture[:40, 150:] == 100).all()
    assert np.abs(picture[0, 0].astype(int) - (class_colours(3)[0].astype(int) + 100) / 2).max() <= 1
    below = picture[40:]
    assert holds(below, class_colours(3)[0])
    assert holds(below, class_colours(3)[2])
    assert not holds(below, class_colours(3)[1])


def test_a_narrow_legend_takes_more_lines():
    wide, narrow = legend(NAMES, [0, 1, 2], 600), legend(NAMES, [0, 1, 2], 90)
    assert wide.shape == (SWATCH + 2 * GAP, 600, 3)
    assert narrow.shape[0] > 2 * (SWATCH + GAP)


def test_rows_show_image_target_and_prediction_side_by_side():
    image, target = np.full((30, 50, 3), 7, np.uint8), np.zeros((30, 50), np.int64)
    rows = [Row(image, (target, target + 1)), Row(image, (target + 2, target + 2))]
    picture = class_rows(rows, NAMES, ("image", "target", "prediction"))
    assert picture.shape[1] == 3 * 50 + 2 * GAP
    first, second = picture[20 + GAP :][:30], picture[20 + 30 + 2 * GAP :][:30]
    colours = class_colours(3)
    assert (first[:, :50] == 7).all()
    assert (first[:, 50 + GAP : 100 + GAP] == colours[0]).all()
    assert (first[:, 100 + 2 * GAP :] == colours[1]).all()
    assert (second[:, 50 + GAP : 100 + GAP] == colours[2]).all()


def test_what_does_not_fit_is_one_sentence():
    image, classes = np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5), np.int64)
    with pytest.raises(ValueError, match="one size"):
        class_overlay(image, classes, NAMES)
    with pytest.raises(ValueError, match="from 0 to 2, got 0 to 3"):
        class_picture(np.array([[0, 3]]), class_colours(3))
    with pytest.raises(ValueError, match="each of the 2 headings"):
        class_rows([Row(image, (classes,))], NAMES, ("image", "target", "prediction"))
