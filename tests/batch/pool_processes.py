"""Processes of the pool that start in no time, and what tests have them do before they serve."""

import multiprocessing
import os
import signal
import time
from functools import partial

from forked import PROCESSES

import pixtree.batch.work as work
from pixtree.batch import engines


def start_quickly(patch, prepare=None, *arguments):
    """Have the pool fork its processes instead of spawning them, which takes seconds; returns those that it starts, in order.

    prepare: a function that each of them calls first, with these arguments.
    """
    started, start = [], engines._started

    def remember(job, part):
        started.append(start(job, part))
        return started[-1]

    patch.setattr(multiprocessing, "get_context", lambda method: PROCESSES)
    patch.setattr(engines, "_started", remember)
    if prepare is not None:
        patch.setattr(engines, "_serve", partial(_prepare_and_serve, prepare, arguments))
    return started


def _prepare_and_serve(prepare, arguments, job, pipe):
    prepare(*arguments)
    engines._serve(job, pipe)  # nobody has replaced it in this process


def limit_files(size):
    """Let no file grow larger than this."""
    import resource  # which Windows lacks

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def die_of(deadly, beside, trace, finished):
    """Kill this process at the image `deadly`, once another works on the image `beside`; that one waits until `finished` exists."""
    worked_on = work.worked_on

    def slowly(picture, function):
        if picture.key == deadly:
            _wait_until(lambda: trace.is_file() and beside in trace.read_text())
            os.kill(os.getpid(), signal.SIGKILL)
        if picture.key == beside:
            _wait_until(finished.is_file)  # it is at work whenever its neighbour dies
        return worked_on(picture, function)

    work.worked_on = slowly


def _wait_until(holds):
    deadline = time.monotonic() + 120
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.01)
