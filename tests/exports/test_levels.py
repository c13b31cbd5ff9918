import numpy as np
import pytest

from pixtree.exports.levels import anchors, level_stack, parents

FINE = np.array([[0, 0, 1, 1], [2, 2, 3, 3]], dtype=np.int32)
COARSE = np.array([[0, 0, 0, 0], [1, 1, 1, 1]], dtype=np.int32)
IMAGE = np.random.default_rng(0).integers(0, 256, (2, 4, 3), dtype=np.uint8)


def test_a_parent_is_the_region_that_holds_the_child():
    assert parents(FINE, COARSE).tolist() == [0, 0, 1, 1]


def test_without_nesting_the_largest_overlap_is_the_parent():
    assert parents(np.array([[0, 0, 0, 1]]), np.array([[0, 1, 1, 1]])).tolist() == [1, 1]
    assert parents(np.array([[0, 1]]), np.array([[-1, 0]])).tolist() == [-1, 0]


def test_an_anchor_lies_inside_its_region():
    ring = np.zeros((5, 5), dtype=np.int32)
    ring[1:4, 1:4] = 1
    for region, (x, y) in enumerate(anchors(ring)):
        assert ring[int(y), int(x)] == region
    assert anchors(ring)[1].tolist() == [2.5, 2.5]


def test_the_order_of_levels_does_not_matter():
    picture = level_stack(IMAGE, [FINE, COARSE], width=120)
    assert picture.dtype == np.uint8
    assert picture.shape[1:] == (120, 3)
    np.testing.assert_array_equal(picture, level_stack(IMAGE, [COARSE, FINE], width=120))


def test_more_levels_make_a_higher_picture():
    heights = [level_stack(IMAGE, [FINE] * count, width=120).shape[0] for count in (1, 2, 3)]
    assert heights[0] < heights[1] < heights[2]


@pytest.mark.parametrize("shape", [(1, 1), (1, 200), (200, 1), (3, 50)])
def test_any_size_of_image_can_be_drawn(shape):
    labels = np.arange(shape[0] * shape[1]).reshape(shape)
    picture = level_stack(np.full(shape, 90, dtype=np.uint8), [labels, labels * 0], width=150)
    assert picture.min() < 100  # something was drawn
    assert (picture[0] == 255).all()  # and nothing cut off


def test_pixels_outside_a_mask_are_left_out():
    black, everywhere = np.zeros((60, 40, 3), np.uint8), np.zeros((60, 40), np.int32)  # so high that planes overlap
    below = np.zeros((60, 40), np.int32)
    below[:, 20:] = 1
    hole = everywhere - 1
    hole[:1] = 0  # of the upper plane only a strip is left
    dark = [(level_stack(black, [below, above], width=240).max(axis=2) < 100).sum() for above in (everywhere, hole)]
    alone = (level_stack(black, [below], width=240).max(axis=2) < 100).sum()
    assert dark[1] < 0.75 * dark[0]  # the upper plane is not painted where the mask leaves it out,
    assert dark[1] > 0.95 * alone  # and does not cover the plane below


def test_a_stack_needs_levels_of_the_image():
    with pytest.raises(ValueError, match="at least 1 level"):
        level_stack(IMAGE, [])
    with pytest.raises(ValueError, match="one size"):
        level_stack(IMAGE, [FINE.T])
