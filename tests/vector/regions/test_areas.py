"""Areas of pages: which pixels are flat, which lines are ruled, and where photographs begin and end."""

import numpy as np
import pytest

from pixtree.vector.regions.areas import LONG, SMALLEST, flat_pixels, is_page, photographs, ruled_pixels


def test_a_pixel_is_flat_if_it_is_part_of_a_square_of_four_equal_ones():
    letters = np.array([list(row) for row in ("aabbc", "aabcc", "abbcc", "dbbed")])
    planes = np.stack([np.vectorize(ord)(letters), np.zeros(letters.shape)]).astype(np.float32)
    expected = ["xx...", "xx.xx", ".xxxx", ".xx.."]
    assert flat_pixels(planes).tolist() == [[one == "x" for one in row] for row in expected]
    planes[1, 0, 0] = 0.01  # equal in all channels, exactly
    assert not flat_pixels(planes)[:2, :2].any()


@pytest.mark.parametrize(("share", "expected"), [(0.39, False), (0.41, True)])
def test_two_fifths_of_a_page_are_flat(share, expected):
    assert is_page(np.arange(100).reshape(10, 10) < 100 * share) == expected


def test_a_page_of_flat_pixels_has_no_photograph():
    assert not photographs(np.ones((60, 80), bool)).any()


def test_where_no_pixel_is_flat_there_is_a_photograph_with_what_it_encloses():
    flat = np.ones((120, 160), bool)
    flat[20:90, 30:120] = False
    flat[50:54, 60:64] = True  # clipped light inside it
    found = photographs(flat)
    assert found[50:54, 60:64].all()
    box = np.zeros_like(flat)
    box[20:90, 30:120] = True
    assert not (found & ~box).any()
    assert found.sum() > 0.98 * box.sum()  # its corners are rounded
    assert found[20, 40:110].all()
    assert found[30:80, 119].all()


@pytest.mark.parametrize(("side", "expected"), [(19, False), (30, True)])
def test_small_pieces_of_texture_are_no_photographs(side, expected):
    flat = np.ones((120, 160), bool)
    flat[20 : 20 + side, 30 : 30 + side] = False
    assert photographs(flat).any() == expected
    assert photographs(flat).sum() >= SMALLEST * expected


@pytest.mark.parametrize("upright", [False, True])
@pytest.mark.parametrize(("length", "expected"), [(LONG - 1, False), (LONG, True), (LONG + 9, True)])
def test_a_line_one_pixel_wide_is_ruled_if_it_is_long_enough(length, expected, upright):
    planes = np.full((3, 40, 60), 255, np.float32)
    planes[:, 10, 5 : 5 + length] = 90
    wanted = (planes[0] == 90) & expected
    if upright:
        planes, wanted = np.ascontiguousarray(planes.transpose(0, 2, 1)), wanted.T
    assert (ruled_pixels(planes) == wanted).all()


@pytest.mark.parametrize(
    ("grey", "expected"), [(128, False), (60, False), (200, False), (255, False), (0, False), ((0, 90, 200), True)]
)
def test_a_line_between_two_colours_is_ruled_unless_it_is_one_of_them_or_a_blend(grey, expected):
    planes = np.full((3, 40, 60), 255, np.float32)
    planes[:, 20:] = 0
    planes[:, 19] = np.broadcast_to(grey, 3)[:, None]
    assert ruled_pixels(planes)[19].all() == expected
    assert ruled_pixels(planes)[19].any() == expected
    assert not np.delete(ruled_pixels(planes), 19, axis=0).any()


def test_lines_on_the_border_of_an_image_have_one_side_and_are_not_ruled():
    planes = np.full((1, 30, 40), 255, np.float32)
    planes[:, [0, -1]], planes[:, :, [0, -1]] = 10, 10
    assert not ruled_pixels(planes)[[0, -1]].any()
    assert not ruled_pixels(planes)[:, [0, -1]].any()
    assert not ruled_pixels(np.zeros((1, 2, 40), np.float32)).any()
