"""A child that is forked after its parent has computed computes too, and does not wait for threads that it does not have."""

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, time
import numpy as np, torch
import pixtree
torch.set_num_threads(2)
image = np.kron(np.random.default_rng(0).integers(0, 256, (12, 12, 3), dtype=np.uint8), np.ones((16, 16, 1), np.uint8))
def vectorize():
    return pixtree.vectorize(image, paths=50).text
def select():
    return pixtree.select(image, inside=[(20, 20)], outside=[(150, 150)]).tolist()
work = locals()[sys.argv[1]]
torch.ones(2000, 2000).add(1).sum()  # starts torch's threads
expected = work()
child = os.fork()
if child == 0:
    os._exit(0 if work() == expected else 1)
deadline = time.monotonic() + 60
while (found := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
    time.sleep(0.05)
if found == (0, 0):
    os.kill(child, 9)
sys.exit("it hangs" if found == (0, 0) else found[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
@pytest.mark.parametrize("task", ["vectorize", "select"])
def test_a_child_that_is_forked_after_its_parent_has_worked_gives_the_same_result(task, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    done = subprocess.run([sys.executable, "-c", PROGRAM, task], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
