"""One server and one browser for all tests of the page."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from browsing import chromium
from running import running


@pytest.fixture(scope="session")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def address():
    with running() as port:
        yield port
