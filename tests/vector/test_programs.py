"""Tests that compare with other programs skip without them; where CI runs, the programs must be there."""

import os
import shutil

import pytest
from evidence.renderers import LIBRSVG

from pixtree.vector.potrace import PROGRAM


@pytest.mark.parametrize("program", [PROGRAM, LIBRSVG])
def test_ci_skips_no_test_for_want_of_a_program(program):
    assert shutil.which(program) is not None or not os.environ.get("CI")
