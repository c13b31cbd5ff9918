"""What a first call waits for, and that later processes do not wait."""

import os
import subprocess
import sys

import pytest

CODE = "import pixtree, torch; print(pixtree.segment(torch.zeros(3, 9, 9, dtype=torch.uint8), tokens=4).max().item() + 1)"


@pytest.mark.slow
def test_compilation_is_announced_once_and_then_read_from_disk(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, later = (subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True) for _ in range(2))
    assert first.stdout == later.stdout == "4\n"
    assert first.stderr.count("pixtree: compiling its kernels") == 1
    assert later.stderr == ""
