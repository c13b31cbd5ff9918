"""Windows of intensity: data that is neither bytes nor floats in 0..1."""

import logging

import numpy as np
import PIL.Image
import pytest
import torch
from pictures import photo
from skimage import data

import pixtree
from pixtree.images import checked, checked_inside
from pixtree.images.arrays import MOST_SAMPLES, automatic_window
from pixtree.kernels.image.cracks import boundary_pixels


def twelve_bit(picture):
    return np.round(picture / 255 * 4095).astype(np.uint16)


def found(labels, truth):
    """The share of the boundary pixels of `truth` that are boundary pixels of `labels`."""
    wanted = boundary_pixels(truth)
    return (boundary_pixels(labels) & wanted).sum() / wanted.sum()


@pytest.mark.parametrize("name", ["camera", "astronaut", "moon"])
def test_an_automatic_window_finds_the_boundaries_of_the_stretched_picture(name):
    deep = twelve_bit(getattr(data, name)())
    stretched = pixtree.segment(deep / 4095, tokens=200)
    assert found(pixtree.segment(deep, tokens=200, window="auto"), stretched) >= 0.95
    assert found(pixtree.segment(deep, tokens=200), stretched) < 0.7  # what the window is for


def test_a_window_is_linear_between_its_ends_and_flat_beyond():
    image = checked(np.array([[-2000, -160, 40, 240, 3000]], np.int16), window=(-160, 240))
    assert image.dtype == torch.float32
    assert image.tolist() == [[[0.0, 0.0, 0.5, 1.0, 1.0]]]


@pytest.mark.parametrize("dtype", ["?", "u1", "u2", ">u2", "i2", "u4", "i4", "i8", "f2", "f4", "f8"])
def test_a_window_takes_every_type_of_number(dtype):
    assert checked(np.array([[0, 1]], dtype), window=(0, 2)).tolist() == [[[0.0, 0.5]]]


def test_large_whole_numbers_keep_their_differences():
    start = 1 << 40
    assert checked(np.array([[start, start + 1, start + 4]]), window=(start, start + 4)).tolist() == [[[0.0, 0.25, 1.0]]]


def test_hot_pixels_and_marks_of_missing_data_do_not_stretch_an_automatic_window():
    values = torch.linspace(100, 900, 100 * 100).view(1, 100, 100)
    values[0, 0, :5] = 65535
    values[0, 1, :5] = -9999
    low, high = automatic_window(values)
    assert 95 < low < 105
    assert 895 < high < 905


def test_an_automatic_window_takes_all_values_where_none_is_wild():
    assert automatic_window(torch.linspace(100, 900, 10000).view(1, 100, 100)) == (100, 900)
    assert automatic_window(torch.tensor([[[7]]])) == (7, 7)


def test_an_automatic_window_looks_at_a_part_of_a_large_image():
    values = torch.zeros(1, 3000, 3000)
    values[0, :, 1500:] = 5
    assert values.numel() > 2 * MOST_SAMPLES
    assert automatic_window(values) == (0, 5)


def test_an_image_of_one_value_is_black():
    assert checked(np.full((2, 2), 7, np.int32), window="auto").tolist() == [[[0, 0], [0, 0]]]


def test_pixels_outside_a_mask_do_not_count():
    values, mask = np.full((20, 20), -9999.0), np.zeros((20, 20), bool)
    values[:, :10], mask[:, :10] = np.linspace(0, 50, 200).reshape(20, 10), True
    values[0, 19] = np.nan
    picture, _ = checked_inside(values, mask, window="auto")
    assert np.allclose(picture[0, :, :10].numpy(), values[:, :10] / 50)


def test_a_window_leaves_alpha_alone(tmp_path):
    pixels = np.zeros((8, 8, 4), np.uint8)
    pixels[:, 4:] = (100, 100, 100, 128)
    path = tmp_path / "a.png"
    PIL.Image.fromarray(pixels).save(path)
    image = checked(path, alpha=True, window=(0, 200))
    assert image[:, 0, 5].tolist() == [0.5, 0.5, 0.5, pytest.approx(128 / 255)]


def test_16_bit_grey_files_have_their_own_numbers_in_a_window(tmp_path):
    path = tmp_path / "a.png"
    PIL.Image.fromarray(np.array([[0, 1000, 2000]], np.uint16)).save(path)
    assert checked(path, window=(0, 2000)).tolist() == [[[0.0, 0.5, 1.0]]]


@pytest.mark.parametrize("window", ["best", (1, 0), (0, 0), (0, float("nan")), (1, 2, 3), 5])
def test_other_windows_are_refused(window):
    with pytest.raises(ValueError, match=r'a window is "auto" or \(low, high\) with low < high, got .*; try window="auto"$'):
        checked(np.zeros((2, 2), np.uint8), window=window)


def test_nan_is_refused_with_a_window_too():
    with pytest.raises(ValueError, match="NaN or Inf in 1 of 4 pixels"):
        checked(np.array([[np.nan, 1], [2, 3]]), window="auto")


def test_a_dim_16_bit_image_is_mentioned(caplog):
    with caplog.at_level(logging.WARNING, "pixtree"):
        checked(np.array([[0, 4095]], np.uint16))
    assert caplog.messages == [
        'uint16 values up to 4095 use 6.2 % of their range and are nearly black; window="auto" stretches them'
    ]


def test_every_task_takes_a_window():
    deep = twelve_bit(photo(height=24, width=30).permute(1, 2, 0).numpy()).astype(np.int32)
    assert pixtree.hierarchy(deep, window=(0, 4095)).leaves == 720
    assert len(np.unique(pixtree.segment(deep, tokens=7, window="auto"))) == 7
    assert pixtree.vectorize(deep, paths=5, window="auto").paths == 5
