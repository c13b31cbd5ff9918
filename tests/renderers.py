"""Which renderers a test runs in: a program that is missing is a failure in CI, and a skip with the reason elsewhere."""

import os

import pytest
from evidence.renderers import missing


def needs(name):
    """A mark for a test that needs a renderer."""
    reason = missing(name)
    return pytest.mark.skipif(reason is not None and os.environ.get("CI", "") not in ("1", "true"), reason=reason or name)


def each(*names):
    """A test in each of some renderers."""
    return pytest.mark.parametrize("renderer", [pytest.param(name, marks=needs(name)) for name in names])
