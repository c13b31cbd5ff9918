"""Kernels compile for a GPU that is not here, exactly, and the checks of their machine code notice what they are for."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is published for Linux only; elsewhere nothing compiles for GPUs")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# In a process of its own, since Triton compiles nothing where it interprets.
SCRIPT = """
import json
import device_code as code

calls = {}
launches = [code.launches(images, 3, code.MergeRule(), calls) for images in (1, 7)]
some = {call: 1 for call in calls if call.kernel.__name__ in ("absorb", "touch_leaves")}
rows = code.checked(some, {"sm_80": code.TARGETS["sm_80"]})
print(json.dumps({"launches": launches, "rows": rows, "mutants": code.mutants(calls)}))
"""


def test_machine_code_for_gpus_is_exact_and_mutants_are_noticed(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(BENCHMARKS)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["launches"][0] == found["launches"][1] > 0
    assert {row["kernel"] for row in found["rows"]} == {"absorb", "touch_leaves"}
    assert all(row["inexact"] == "none" and row["spills"] == 0 for row in found["rows"])
    assert found["mutants"]["fusion of products and sums"] == ["fma.rn.f32"]
    assert found["mutants"]["/ instead of div_rn"] == ["div.full.f32"]
    assert found["mutants"]["dropped tie rule"] == ["other labels"]
