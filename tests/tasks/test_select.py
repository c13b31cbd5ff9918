"""Objects selected by points, boxes and scribbles."""

import gc
import weakref

import numpy as np
import pytest
import torch
from skimage import data

import pixtree
from pixtree.tasks.scene import scene_of


def scene(red=(10, 30, 20, 40)):
    """A red rectangle on green, in slightly noisy colours."""
    rng = np.random.default_rng(0)
    image = np.full((60, 80, 3), (60, 140, 60), np.int16)
    top, left, bottom, right = red
    image[top:bottom, left:right] = (190, 40, 40)
    return np.clip(image + rng.integers(-6, 7, image.shape), 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def two_objects():
    image = scene((10, 10, 40, 30))
    image[15:45, 50:70] = (40, 40, 190)
    red, blue = np.zeros((60, 80), bool), np.zeros((60, 80), bool)
    red[10:40, 10:30] = blue[15:45, 50:70] = True
    return pixtree.hierarchy(image), red, blue


def test_a_point_inside_selects_the_object(two_objects):
    tree, red, _ = two_objects
    mask = pixtree.select(tree, inside=[(20, 20)])
    assert mask.dtype == np.bool_
    assert (mask == red).all()


def test_an_image_is_taken_as_well_as_its_tree():
    image = scene()
    assert (pixtree.select(image, [(15, 35)]) == pixtree.select(pixtree.hierarchy(image), [(15, 35)])).all()


@pytest.mark.parametrize(
    "inside",
    [(20, 20), [(20, 20)], [[20.2, 19.6]], np.array([[20, 20]]), torch.tensor([[20, 20], [25, 15]]), [(20, 20), (5, 5, 50, 40)]],
    ids=["one point", "points", "floats", "array", "tensor", "point and box"],
)
def test_marks_come_in_many_forms(two_objects, inside):
    tree, red, _ = two_objects
    assert (pixtree.select(tree, inside) == red).all()


def test_a_scribble_marks_all_its_pixels(two_objects):
    tree, red, blue = two_objects
    scribble = np.zeros((60, 80), bool)
    scribble[18:30, 20] = scribble[20:40, 60] = True
    assert (pixtree.select(tree, inside=scribble, outside=[(5, 40), (50, 40)]) == (red | blue)).all()


def test_a_box_bounds_its_object(two_objects):
    tree, _, blue = two_objects
    assert (pixtree.select(tree, inside=(12, 46, 49, 74)) == blue).all()
    cropped = pixtree.select(tree, inside=(20, 46, 49, 74))
    assert not cropped[:20].any()
    assert (cropped[20:] == blue[20:]).all()


def test_a_box_that_is_smaller_than_a_region_selects_its_pixels():
    mask = pixtree.select(np.full((200, 200, 3), 90, np.uint8), inside=(100, 100, 103, 104))
    assert mask[100:103, 100:104].any()
    assert mask.sum() <= 12


def test_a_box_outside_is_outside_as_a_whole(two_objects):
    tree, red, _ = two_objects
    mask = pixtree.select(tree, inside=[(20, 20)], outside=[(30, 0, 60, 80)])
    assert not mask[30:].any()
    assert mask[10:25][red[10:25]].all()


def test_several_objects_give_a_label_map(two_objects):
    tree, red, blue = two_objects
    labels = pixtree.select(tree, inside={3: [(20, 20)], 7: [(30, 60)]})
    assert labels.dtype == np.int32
    assert (labels == 3 * red + 7 * blue).all()


def test_an_integer_map_marks_several_objects(two_objects):
    tree, red, blue = two_objects
    scribbles = np.zeros((60, 80), np.uint8)
    scribbles[20, 15:25], scribbles[30, 55:65] = 1, 2
    assert (pixtree.select(tree, inside=scribbles) == red + 2 * blue).all()


def test_marks_hold_to_the_pixel():
    tree = pixtree.hierarchy(data.astronaut()[::4, ::4])
    rng = np.random.default_rng(1)
    for _ in range(5):
        points = rng.permutation(128 * 128)[:40]
        inside, outside = (np.stack(np.divmod(some, 128), axis=1) for some in (points[:20], points[20:]))
        mask = pixtree.select(tree, inside, outside)
        assert mask[tuple(inside.T)].all()
        assert not mask[tuple(outside.T)].any()


def test_marks_of_two_kinds_in_one_region_open_the_tree_to_its_pixels():
    image = scene((10, 30, 20, 40))
    image[14:16, 34:36] = (198, 46, 46)  # four pixels that no fine cut keeps apart
    tree = pixtree.hierarchy(np.repeat(np.repeat(image, 4, axis=0), 4, axis=1))
    mask = pixtree.select(tree, inside=[(50, 130)], outside=[(58, 138)])
    assert mask[50, 130]
    assert not mask[58, 138]


def test_equal_marks_give_equal_masks(two_objects):
    tree, _, _ = two_objects
    first = pixtree.select(tree, [(20, 20)], [(50, 40)])
    pixtree.select(tree, [(30, 60)])
    assert (pixtree.select(tree, [(20, 20)], [(50, 40)]) == first).all()
    again = pixtree.Hierarchy(**{name: getattr(tree, name) for name in tree.__dataclass_fields__})
    assert (pixtree.select(again, [(20, 20)], [(50, 40)]) == first).all()


def test_a_scene_goes_with_its_tree():
    tree = pixtree.hierarchy(scene())
    kept = weakref.ref(scene_of(tree))
    assert scene_of(tree) is kept()
    del tree
    gc.collect()
    assert kept() is None


def test_pixels_outside_a_trees_mask_are_never_selected():
    allowed = np.zeros((60, 80), bool)
    allowed[5:40, 20:36] = allowed[50:, :10] = True
    mask = pixtree.select(pixtree.hierarchy(scene(), mask=allowed), [(15, 33)])
    assert mask.sum() == 10 * 6
    assert not (mask & ~allowed).any()


@pytest.mark.parametrize("image", [np.zeros((1, 1)), np.zeros((3, 50)), np.full((20, 20, 3), 7, np.uint8)], ids=str)
def test_pictures_without_objects_still_answer(image):
    mask = pixtree.select(image, [(0, 0)])
    assert mask.shape == image.shape[:2]
    assert mask[0, 0]


def test_grey_and_many_channels_are_pictures_too():
    grey = scene()[..., 0]
    expected = np.zeros((60, 80), bool)
    expected[10:20, 30:40] = True
    assert (pixtree.select(grey, [(15, 35)]) == expected).all()
    many = pixtree.hierarchy(np.repeat(grey[..., None], 5, axis=2), channel_axis=-1)
    assert (pixtree.select(many, [(15, 35)]) == expected).all()


def test_both_backends_select_alike():
    image = scene()
    masks = [pixtree.select(pixtree.hierarchy(image, backend=backend), [(15, 35)], [(15, 50)]) for backend in ("torch", "numba")]
    assert (masks[0] == masks[1]).all()


@pytest.mark.parametrize(
    ("inside", "outside", "sentence"),
    [
        ([], None, "at least one mark inside the object, got none"),
        (np.zeros((60, 80), bool), None, "at least one mark inside the object, got none"),
        (np.zeros((60, 80), np.int32), None, "at least one mark inside the object, got none"),
        ({1: [(2, 2)], 2: []}, None, "got none of object 2"),
        ({}, None, "numbered from 1, .* got no object"),
        ({0: [(2, 2)]}, None, "numbered from 1, .* got 0"),
        ([(2, 2)], [(2, 2)], r"got pixel \(row 2, column 2\) as inside and as outside"),
        ({1: [(2, 2)], 2: [(2, 2)]}, None, r"got pixel \(row 2, column 2\)"),
        ([(2, 2), (10, 10, 20, 20)], None, r"got pixel \(row 2, column 2\)"),
        ([(60, 2)], None, r"60 rows and 80 columns, got \(row 60, column 2\) in inside="),
        ([(2, 2)], [(5, -1)], r"got \(row 5, column -1\) in outside="),
        ([(5, 5, 61, 20)], None, r"got \(5, 5, 61, 20\) in inside="),
        ([(20, 5, 10, 20)], None, "check its order"),
        (np.zeros((50, 80), bool), None, r"\(60, 80\), got \(50, 80\) in inside="),
        ([(1, 2, 3)], None, r"got \(1.0, 2.0, 3.0\)"),
        ([(float("nan"), 2)], None, "got .nan"),
        ("middle", None, "got str"),
        (5, None, "got int"),
    ],
)
def test_wrong_marks_are_one_sentence(inside, outside, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        pixtree.select(scene(), inside, outside)
    assert "\n" not in str(caught.value)


def test_marks_outside_a_trees_mask_are_refused():
    allowed = np.ones((60, 80), bool)
    allowed[:5] = False
    with pytest.raises(ValueError, match=r"inside the tree's mask, got one at \(row 2, column 3\)"):
        pixtree.select(pixtree.hierarchy(scene(), mask=allowed), [(15, 35)], [(2, 3)])
