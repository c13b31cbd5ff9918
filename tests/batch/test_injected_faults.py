"""Every system call on files fails once, or ends the process; the same call again then gives the bytes of an undisturbed run."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "faults" / "run.py"

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="calls are made to fail as Linux has them"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="the library that lets calls fail is made by a C compiler"),
]


def injected(folder, *words):
    output = folder / "faults.json"
    done = subprocess.run([sys.executable, str(SCRIPT), "-o", str(output), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads(output.read_text())
    assert record["failures"] == []
    return sum(row["faults"] for row in record["rows"])


def test_a_sample_of_the_calls_of_batch_runs_and_of_saving_a_tree_may_fail(tmp_path):
    assert injected(tmp_path, "--every", "23", "--job", "batch", "--job", "tree.save") > 20


def test_every_call_of_a_training_checkpoint_may_fail(tmp_path):
    assert injected(tmp_path, "--job", "training") >= 12


@pytest.mark.slow
def test_every_call_may_fail(tmp_path):
    assert injected(tmp_path) > 500
