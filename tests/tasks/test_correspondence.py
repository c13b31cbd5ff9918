"""Correspondence between two images."""

import sys
from pathlib import Path

import numpy as np
import pytest

from pixtree.tasks.correspond import DARKEST, MARK, correspondence, correspondence_picture

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
from tiny_models import tiny

RNG = np.random.default_rng(0)
FIRST, SECOND = RNG.integers(0, 256, (60, 80, 3), dtype=np.uint8), RNG.integers(0, 256, (50, 70, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def vit():
    return tiny("vit_tiny_patch16_224")


@pytest.mark.parametrize("tokens", [None, 12])
def test_a_place_is_most_like_itself(vit, tokens):
    likeness = correspondence(FIRST, (30, 40), FIRST, vit, tokens=tokens, size=64)
    assert likeness.shape == (60, 80)
    assert likeness.min() >= -1 - 1e-6
    assert likeness.max() <= 1 + 1e-6
    if tokens:
        assert likeness[30, 40] == pytest.approx(1)


def test_likeness_has_the_shape_of_the_other_image_and_is_mutual(vit):
    one = correspondence(FIRST, (30, 40), SECOND, vit, tokens=12, size=64)
    assert one.shape == (50, 70)
    back = correspondence(SECOND, (25, 35), FIRST, vit, tokens=12, size=64)
    assert one[25, 35] == pytest.approx(back[30, 40])


def test_the_picture_marks_the_point_and_darkens_what_is_unlike(vit):
    likeness = np.linspace(0, 1, 50 * 70).reshape(50, 70)
    picture = correspondence_picture(FIRST, (30, 40), SECOND, likeness)
    assert picture.shape == (60, 150, 3)
    assert (picture[30, 40] == FIRST[30, 40]).all()
    assert (picture == MARK).all(axis=2).any()
    assert (picture[49, 149] == SECOND[49, 69]).all()
    assert (picture[0, 80] == (SECOND[0, 0] * DARKEST + 0.5).astype(np.uint8)).all()


def test_points_outside_are_refused(vit):
    with pytest.raises(ValueError, match="move it inside"):
        correspondence(FIRST, (60, 0), SECOND, vit, tokens=12, size=64)
