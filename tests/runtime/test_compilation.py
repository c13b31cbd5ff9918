"""What a first call waits for, and that later processes do not wait."""

import os
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from pixtree.messages import INTERVAL

CODE = "import pixtree, torch; print(pixtree.segment(torch.zeros(3, 9, 9, dtype=torch.uint8), tokens=4).max().item() + 1)"


def timed_lines(environment):
    """The lines that a first call logs, each with the second in which it came, and what it prints."""
    with subprocess.Popen(
        [sys.executable, "-c", CODE], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        lines = [(time.monotonic(), line) for line in process.stderr]
        return lines, process.stdout.read()


@pytest.mark.slow
def test_compilation_is_announced_as_long_as_it_takes_and_then_read_from_disk(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    (first, printed), (later, printed_later) = (timed_lines(environment) for _ in range(2))
    assert printed == printed_later == "4\n"
    assert later == []
    assert len(first) > 2
    assert all(line.startswith("pixtree: compiling kernel ") for _, line in first)
    times = [second for second, _ in first]
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) > 0.9 * INTERVAL
    assert max(gaps) < 3 * INTERVAL  # a busy machine may be late
