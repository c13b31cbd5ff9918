"""The calls of the warm-up use every kernel, and processes share them."""

import subprocess
import sys
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from pixtree.tasks import warm_up

# Prints the kernels that no call of the warm-up uses, neither itself nor through others.
UNUSED = """
from numba.core.dispatcher import Dispatcher
from pixtree.runtime.announcer import short_name
from pixtree.runtime.shipped import loaded_kernels
from pixtree.tasks.warm_up import CALLS, run

for name in CALLS:
    assert run(name) == "", name
kernels = set(loaded_kernels())
used = [one for one in kernels if one.overloads]
for one in used:
    named = (one.py_func.__globals__.get(name) for name in one.py_func.__code__.co_names)
    used += {other for other in named if isinstance(other, Dispatcher)} - set(used)
print(sorted(short_name(one.py_func) for one in kernels - set(used)))
"""


def test_a_missing_extra_is_a_sentence_and_not_an_error(monkeypatch):
    def lacking():
        raise ImportError("retrofit needs timm; run pip install 'pixtree[models]'")

    monkeypatch.setitem(warm_up.CALLS, "retrofits", lacking)
    assert warm_up.run("retrofits") == "retrofit needs timm; run pip install 'pixtree[models]'"


@pytest.mark.slow
def test_the_calls_use_every_kernel():
    done = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
def test_processes_take_calls_in_turn_and_every_call_ends():
    assert dict(warm_up.warm_up(2)) == dict.fromkeys(warm_up.CALLS, "")


def test_calls_begin_once_what_they_share_is_compiled(monkeypatch):
    class Pool:
        """Ends its calls in the order in which they came."""

        def __init__(self, workers, **_):
            self.workers, self.open = workers, []

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, _, name):
            begun.append((name, frozenset(ended)))
            self.open.append(Future())
            assert len(self.open) <= self.workers
            self.open[-1].set_result("")
            return self.open[-1]

        def shutdown(self, cancel_futures):
            assert cancel_futures

    def wait(running, return_when):
        first = next(iter(running))
        ended.append(running[first])
        pool.open.remove(first)
        return SimpleNamespace(done={first})

    begun, ended = [], []
    for workers in (1, 2, 40):
        begun.clear()
        ended.clear()
        pool = Pool(workers)
        monkeypatch.setattr(warm_up, "ProcessPoolExecutor", lambda *_, **__: pool)  # noqa: B023
        monkeypatch.setattr(warm_up, "wait", wait)
        assert [name for name, _ in warm_up.warm_up(workers)] == ended
        assert sorted(ended) == sorted(warm_up.CALLS)
        assert all(warm_up.AFTER.get(name) in (None, *before) for name, before in begun)
    assert {"photos", "coarsened models"} == {name for name, before in begun if not before}
