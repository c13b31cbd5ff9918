from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from pixtree.exports.pictures import boundaries, contour_map, displayed, mean_colours, random_colours, save_png

LABELS = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 2]], dtype=np.int32)
IMAGE = np.arange(36, dtype=np.uint8).reshape(3, 4, 3)


def test_boundaries_paint_the_pixels_before_another_region_and_no_others():
    picture = boundaries(IMAGE, LABELS, colour=(255, 0, 0))
    painted = np.array([[0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]], dtype=bool)
    assert (picture[painted] == (255, 0, 0)).all()
    np.testing.assert_array_equal(picture[~painted], IMAGE[~painted])
    assert IMAGE[0, 1, 0] == 3  # the image itself is left alone


def test_mean_colours_are_the_means():
    picture = mean_colours(IMAGE, LABELS)
    assert picture.dtype == np.uint8
    assert np.abs(picture[2, 0] - IMAGE[2].mean(axis=0)).max() <= 0.5
    assert (picture[2] == picture[2, 0]).all()


def test_outside_a_mask_is_white():
    labels = np.where(LABELS == 1, -1, LABELS)
    assert (mean_colours(IMAGE, labels)[labels < 0] == 255).all()
    assert (random_colours(labels)[labels < 0] == 255).all()


@pytest.mark.parametrize("kind", ["grid", "star"])
def test_neighbours_have_clearly_different_random_colours(kind):
    if kind == "grid":
        labels = np.kron(np.arange(400).reshape(20, 20), np.ones((3, 3), dtype=int))
    else:  # one region that touches all others
        labels = np.full((41, 41), 400)
        labels[1::2, 1::2] = np.arange(400).reshape(20, 20)
    picture = random_colours(labels).astype(int)
    np.testing.assert_array_equal(picture, random_colours(labels))
    for a, b in ((np.s_[:, :-1], np.s_[:, 1:]), (np.s_[:-1], np.s_[1:])):
        differs = labels[a] != labels[b]
        assert np.abs(picture[a] - picture[b]).sum(axis=-1)[differs].min() >= 10


def test_a_contour_is_the_darker_the_fewer_regions_it_needs():
    contours = SimpleNamespace(right=torch.tensor([[2, 50, 100_000]]), down=torch.zeros(0, 4, dtype=torch.int32))
    picture = contour_map(contours)[0, :, 0]
    assert picture[0] == 0
    assert 0 < picture[1] < 255
    assert picture[2] == picture[3] == 255


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_images_of_any_channels_can_be_shown(channels):
    image = np.full((2, 2, channels), 0.5, dtype=np.float32)
    assert (displayed(image) == 128).all()
    assert displayed(image).shape == (2, 2, 3)


def test_pictures_are_saved_as_png_only(tmp_path):
    save_png(tmp_path / "picture.png", IMAGE)
    with Image.open(tmp_path / "picture.png") as stored:
        np.testing.assert_array_equal(np.asarray(stored), IMAGE)
    with pytest.raises(ValueError, match=r"\.png"):
        save_png(tmp_path / "picture.jpg", IMAGE)
