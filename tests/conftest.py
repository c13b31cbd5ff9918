"""Tests import their pictures by name; where the CPU lacks instructions that it announces, bfloat16 does without them."""

import importlib.util
import os
import runpy
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))  # for the package evidence

# By its path, since the package loads torch; the cap must come before torch, and every process that a test starts inherits it.
PACKAGE = importlib.util.find_spec("pixtree")
PROBE = Path(PACKAGE.submodule_search_locations[0]) / "runtime" / "bfloat16.py"
VARIABLES, FAULT = runpy.run_path(str(PROBE))["precaution"]()
os.environ.update(VARIABLES)


def pytest_report_header() -> str | None:
    if VARIABLES:
        return f"bfloat16 dies on this CPU; capped: {', '.join(f'{name}={value}' for name, value in VARIABLES.items())}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if FAULT is not None and item.get_closest_marker("bfloat16"):
            item.add_marker(pytest.mark.skip(reason=f"torch cannot multiply in bfloat16 on this CPU: {FAULT}"))
