"""Words of scikit-image, and what is said to them."""

import inspect

import numpy as np
import pytest
from skimage import segmentation

import pixtree
from pixtree.tasks.segment import FOREIGN_OPTIONS

IMAGE = np.eye(8)
METHODS = (segmentation.slic, segmentation.felzenszwalb, segmentation.quickshift)
SHARED = {"image", "compactness", "start_label", "mask", "channel_axis"}  # ours by the same names
NEVER = {"return_tree"}  # what another function gives


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("n_segments", "segment has no option n_segments=; scikit-image's n_segments is tokens= here"),
        (
            "sigma",
            "segment has no option sigma=; no blur is applied; floor= is the variance that counts as flat, or blur the image first",
        ),
        (
            "enforce_connectivity",
            "segment has no option enforce_connectivity=; leave it out: every region is connected, "
            "and there are exactly as many as you ask for",
        ),
        ("convert2lab", "segment has no option convert2lab=; leave it out: colours are always compared in Lab"),
        ("tokenz", "segment has no option tokenz=; help(pixtree.segment) lists its options"),
    ],
)
def test_a_foreign_word_is_answered_by_ours(word, message):
    with pytest.raises(TypeError) as fault:
        pixtree.segment(IMAGE, **{word: 3})
    assert str(fault.value) == message


def test_a_tree_answers_too():
    with pytest.raises(TypeError, match="hierarchy has no option n_segments=; scikit-image's n_segments is tokens= here"):
        pixtree.hierarchy(IMAGE, n_segments=3)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_every_word_of_scikit_image_has_an_answer(method):
    assert set(inspect.signature(method).parameters) - SHARED - NEVER <= FOREIGN_OPTIONS.keys()


@pytest.mark.parametrize("word", FOREIGN_OPTIONS)
def test_no_answer_names_an_option_that_does_not_exist(word):
    ours = inspect.signature(pixtree.segment).parameters
    named = {part.rstrip("=") for part in FOREIGN_OPTIONS[word].replace(",", " ").split() if part.endswith("=")}
    assert named <= set(ours)
