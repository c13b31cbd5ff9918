"""What tests of commands share."""

import pytest


@pytest.fixture
def out(tmp_path):
    """An empty folder for what a command writes."""
    folder = tmp_path / "out"
    folder.mkdir()
    return folder
