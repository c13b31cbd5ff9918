"""Processes that start in no time: a server loads torch and timm once, before any thread, and every process is a fork of it.

What a process is to run travels there as it does to a spawned one, and nothing else of the test's process does. Windows has no such
server; there, processes are spawned.
"""

import multiprocessing
from multiprocessing.context import BaseContext


def _context() -> BaseContext:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    # Tests' own modules are found by the forks, which get the path of the test.
    context.set_forkserver_preload(["accelerate", "numba", "pixtree.batch.work", "pixtree.models", "pixtree.training.running"])
    return context


PROCESSES = _context()
