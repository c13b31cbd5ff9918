"""The palette of random region colours."""

import numpy as np

from pixtree.trees.previews import _palette


def test_the_palette_goes_once_around_the_hues():
    colours = _palette()
    np.testing.assert_allclose(colours[0], (234, 171, 171))  # red first
    assert colours.shape == (16, 3)
