"""Ctrl-C and SIGTERM: one line at most, the shell's exit code, and nothing half written."""

import os
import signal
import subprocess
import sys
import time

import pytest

SECONDS = 120
# The real entry point, with a tree whose file takes for ever to write. Jobs in the background of a shell start with Ctrl-C ignored.
CODE = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from pathlib import Path
import numpy as np
from PIL import Image
from pixtree.cli.main import main

def write_slowly(file, **arrays):
    file.write(bytes(1_000_000))
    file.flush()
    Path("writing").touch()
    time.sleep(1000)

np.savez_compressed = write_slowly
Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save("photo.png")
sys.argv = ["pixtree", "hierarchy", "photo.png", "-o", "tree.npz"]
main()
"""


@pytest.mark.parametrize(("number", "code", "said"), [(signal.SIGTERM, 143, ""), (signal.SIGINT, 130, "interrupted\n")])
def test_a_signal_ends_the_program_without_a_trace(tmp_path, number, code, said):
    run = subprocess.Popen([sys.executable, "-c", CODE], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + SECONDS
        while not (tmp_path / "writing").exists() and time.monotonic() < deadline and run.poll() is None:
            time.sleep(0.05)
        assert any(path.name.startswith(".") for path in tmp_path.iterdir())  # it is writing
        os.kill(run.pid, number)
        errors = run.communicate(timeout=SECONDS)[1]
    finally:
        run.kill()
    lines = [line for line in errors.splitlines(keepends=True) if not line.startswith("pixtree: compiling")]
    assert ("".join(lines), run.returncode) == (said, code)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["photo.png", "writing"]
