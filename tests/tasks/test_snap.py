"""Rough masks made sharp on the tree."""

import numpy as np
import pytest
import torch
from skimage import data

import pixtree


def picture():
    rng = np.random.default_rng(0)
    image = np.full((60, 80, 3), (60, 140, 60), np.int16)
    image[10:40, 10:30] = (190, 40, 40)
    image[15:45, 50:70] = (40, 40, 190)
    return np.clip(image + rng.integers(-6, 7, image.shape), 0, 255).astype(np.uint8)


RED, BLUE = np.zeros((60, 80), bool), np.zeros((60, 80), bool)
RED[10:40, 10:30] = BLUE[15:45, 50:70] = True


def rough(mask, shift=2):
    return np.roll(mask, (shift, -shift), (0, 1))


def test_a_shifted_mask_snaps_to_the_object():
    assert (pixtree.snap(rough(RED), picture()) == RED).all()


def test_a_tree_is_taken_as_well_as_its_image():
    tree = pixtree.hierarchy(picture())
    assert (pixtree.snap(rough(RED), tree) == RED).all()


def test_probabilities_snap_too():
    soft = np.where(rough(RED), 0.7, 0.2).astype(np.float32)
    snapped = pixtree.snap(soft, picture())
    assert snapped.dtype == np.bool_
    assert (snapped == RED).all()


def test_a_label_map_keeps_its_labels_and_type():
    labels = (9 * rough(RED) + 200 * rough(BLUE)).astype(np.uint8)
    snapped = pixtree.snap(labels, picture())
    assert snapped.dtype == np.uint8
    assert (snapped == 9 * RED + 200 * BLUE).all()


def test_negative_labels_are_labels():
    labels = np.where(rough(RED), 4, -1)
    assert (pixtree.snap(labels, picture()) == np.where(RED, 4, -1)).all()


def test_a_tensor_gives_a_tensor():
    snapped = pixtree.snap(torch.from_numpy(rough(RED)), picture())
    assert isinstance(snapped, torch.Tensor)
    assert (snapped.numpy() == RED).all()


@pytest.mark.parametrize("value", [False, True])
def test_a_mask_of_nothing_or_everything_stays(value):
    assert (pixtree.snap(np.full((60, 80), value), picture()) == value).all()
    assert (pixtree.snap(np.full((60, 80), 3), picture()) == 3).all()


def test_a_mask_does_not_change():
    mask = rough(RED)
    before = mask.copy()
    pixtree.snap(mask, picture())
    assert (mask == before).all()


def test_pixels_outside_a_trees_mask_keep_their_values():
    allowed = np.ones((60, 80), bool)
    allowed[:, 60:] = False
    mask = rough(RED)
    mask[5, 75] = True
    snapped = pixtree.snap(mask, pixtree.hierarchy(picture(), mask=allowed))
    assert (snapped[:, :60] == RED[:, :60]).all()
    assert (snapped[:, 60:] == mask[:, 60:]).all()


def test_an_exact_mask_of_a_photo_hardly_changes():
    image = data.astronaut()[::2, ::2]
    labels, tree = pixtree.segment(image, tokens=20), pixtree.hierarchy(image)
    overlaps = []
    for mask in (labels == region for region in range(20)):
        snapped = pixtree.snap(mask, tree)
        overlaps.append((snapped & mask).sum() / (snapped | mask).sum())
    assert (pixtree.snap(mask, image) == snapped).all()  # of the last mask, from the photo itself
    assert np.median(overlaps) > 0.85


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        (np.zeros((50, 80), bool), r"\(60, 80\), got \(50, 80\)"),
        (np.zeros((60, 80, 3), bool), r"shape \(H, W\), got bool \(60, 80, 3\)"),
        (np.full((60, 80), 1.5), r"probabilities in 0\.\.1"),
        (np.full((60, 80), np.nan), r"probabilities in 0\.\.1"),
        (np.full((60, 80), "a"), "bool, float or integer"),
    ],
)
def test_wrong_masks_are_one_sentence(mask, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        pixtree.snap(mask, picture())
    assert "\n" not in str(caught.value)
