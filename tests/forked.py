"""Processes that start in no time: a server loads torch and timm once, before any thread, and every process is a fork of it.

What a process is to run travels there as it does to a spawned one, and nothing else of the test's process does.
"""

import multiprocessing

PROCESSES = multiprocessing.get_context("forkserver")
# Loaded in the first process; tests' own modules are found by the forks, which get the path of the test.
PROCESSES.set_forkserver_preload(["accelerate", "pixtree.models", "pixtree.training.loop"])
