"""Results do not drift from release to release or machine to machine."""

import numpy as np
from golden.make import HERE, results


def test_trees_and_cuts_are_those_that_were_stored():
    with np.load(HERE / "small_photo.npz") as stored:
        expected = {name: stored[name] for name in stored.files}
    found = results()
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert np.array_equal(array, expected[name]), name
