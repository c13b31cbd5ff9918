"""The palette of random region colours."""

import numpy as np
import torch

import pixtree
from pixtree.trees.previews import MOST_SHOWN, _palette, coloured_regions, painted, partition_picture


def test_the_palette_goes_once_around_the_hues():
    colours = _palette()
    np.testing.assert_allclose(colours[0], (234, 171, 171))  # red first
    assert colours.shape == (16, 3)


def test_hues_lie_evenly_around_a_light_and_a_deeper_grey():
    colours = _palette()
    np.testing.assert_allclose(colours[::2].mean(axis=0), 192)
    np.testing.assert_allclose(colours[1::2].mean(axis=0), 130)


def test_labels_are_painted_in_their_colours_and_the_outside_in_its_own():
    colours = np.array([[1, 2, 3], [4, 5, 6]], np.uint8)
    found = painted(np.array([[0, 1], [-1, 0]], np.int32), colours, (9, 8, 7))
    assert found.tolist() == [[[1, 2, 3], [4, 5, 6]], [[9, 8, 7], [1, 2, 3]]]


def test_the_first_images_of_a_batch_stand_side_by_side():
    labels = torch.arange(6, dtype=torch.int32).view(1, 2, 3).repeat(6, 1, 1)
    picture = partition_picture(pixtree.Partition(labels))
    assert picture.shape == (2, 3 * MOST_SHOWN, 3)
    assert (picture[:, :3] == coloured_regions(labels[0].numpy())).all()


def test_neighbours_have_different_colours_and_an_image_without_regions_is_blank():
    labels = np.arange(120, dtype=np.int32).reshape(10, 12)
    picture = coloured_regions(labels).astype(int)
    assert np.abs(np.diff(picture, axis=0)).max(axis=2).min() > 5
    assert np.abs(np.diff(picture, axis=1)).max(axis=2).min() > 5
    assert (coloured_regions(np.full((3, 4), -1, np.int32)) == 255).all()
