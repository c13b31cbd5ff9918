"""Masked arrays: their mask is that of the image."""

import numpy as np
import pytest
import torch
from pictures import photo

import pixtree
from pixtree.exports.pictures import boundaries
from pixtree.images import checked, checked_inside

PIXELS = photo(height=24, width=30).permute(1, 2, 0).numpy()
HIDDEN = np.zeros((24, 30), bool)
HIDDEN[:, 20:] = True


def test_masked_pixels_belong_to_no_region():
    image = np.ma.array(PIXELS, mask=np.repeat(HIDDEN[..., None], 3, axis=2))
    labels = pixtree.segment(image, tokens=9)
    assert ((labels < 0) == HIDDEN).all()
    assert np.array_equal(labels, pixtree.segment(PIXELS, tokens=9, mask=~HIDDEN))
    assert pixtree.hierarchy(image).leaves == 24 * 20


def test_a_pixel_is_masked_if_any_of_its_channels_is():
    mask = np.zeros(PIXELS.shape, bool)
    mask[3, 4, 1] = True
    labels = pixtree.segment(np.ma.array(PIXELS, mask=mask), tokens=9)
    assert np.argwhere(labels < 0).tolist() == [[3, 4]]


def test_a_mask_and_a_masked_array_both_count():
    image, mask = np.ma.array(PIXELS[..., 0], mask=HIDDEN), np.ones((24, 30), bool)
    mask[:5] = False
    for given in (mask, torch.from_numpy(mask)):
        assert ((pixtree.segment(image, tokens=9, mask=given) < 0) == (HIDDEN | ~mask)).all()


def test_the_values_under_a_mask_do_not_matter():
    values = np.where(HIDDEN, np.nan, np.linspace(0, 50, 720).reshape(24, 30))
    picture, inside = checked_inside(np.ma.masked_invalid(values), None, window="auto")
    assert np.array_equal(inside.numpy(), ~HIDDEN)
    assert picture.max() == 1
    assert checked_inside(np.ma.array(values / 50, mask=HIDDEN), None)[0].isfinite().all()


def test_a_masked_array_without_masked_pixels_is_an_array():
    assert np.array_equal(pixtree.segment(np.ma.array(PIXELS), tokens=9), pixtree.segment(PIXELS, tokens=9))
    assert torch.equal(checked(np.ma.array(PIXELS)), checked(PIXELS))


def test_a_drawing_has_no_mask():
    with pytest.raises(ValueError) as fault:
        pixtree.vectorize(np.ma.array(PIXELS[..., 0], mask=HIDDEN), paths=5)
    assert str(fault.value) == "an image without a mask is needed here, got 240 masked values; pass image.filled(0)"


def test_regions_are_drawn_over_the_masked_array_itself():
    image = np.ma.array(PIXELS[..., 0], mask=HIDDEN)
    assert boundaries(image, pixtree.segment(image, tokens=9)).shape == (24, 30, 3)


def test_a_mask_without_any_pixel_is_refused():
    with pytest.raises(ValueError, match="at least 1 pixel inside, got none of 720"):
        pixtree.segment(np.ma.array(PIXELS[..., 0], mask=True), tokens=9)
