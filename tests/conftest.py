"""Tests import their pictures by name; where the CPU lacks instructions that it announces, bfloat16 does without them."""

import os
import sys
from pathlib import Path

import pytest

from pixtree.runtime.bfloat16 import precaution

sys.path.insert(0, str(Path(__file__).parent))

# Before torch is loaded, and inherited by every process that a test starts.
VARIABLES, FAULT = precaution()
os.environ.update(VARIABLES)


def pytest_report_header() -> str | None:
    if VARIABLES:
        return f"bfloat16 dies on this CPU; capped: {', '.join(f'{name}={value}' for name, value in VARIABLES.items())}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FAULT is not None and item.get_closest_marker("bfloat16"):
            item.add_marker(pytest.mark.skip(reason=f"torch cannot multiply in bfloat16 on this CPU: {FAULT}"))
