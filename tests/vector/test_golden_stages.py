"""No step from pixels to path data drifts from release to release or machine to machine."""

import numpy as np
import pytest
from golden.drawing_stages import FILE, stages

STORED = dict(np.load(FILE))


@pytest.fixture(scope="module")
def found():
    return stages()


def test_the_same_stages_are_stored(found):
    assert found.keys() == STORED.keys()


@pytest.mark.parametrize("name", STORED)
def test_a_stage_of_a_drawing_is_the_one_that_was_stored(found, name):
    assert found[name].shape == STORED[name].shape
    if found[name].dtype.kind == "f":
        assert np.allclose(found[name], STORED[name], rtol=1e-6, atol=1e-4)
    else:
        assert np.array_equal(found[name], STORED[name])
