"""Threads over the images of a batch: a pool per process, whose threads keep their workspaces."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
_here = threading.local()
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    # A forked child inherits the pool but not its threads; it makes its own.
    os.register_at_fork(after_in_child=_pools.clear)


def _mark_thread() -> None:
    _here.in_pool = True


def thread_count() -> int:
    """PIXTREE_THREADS, or as many threads as torch uses (one in the workers of a DataLoader)."""
    wanted = os.environ.get("PIXTREE_THREADS", "")
    if not wanted:
        return torch.get_num_threads()
    if not wanted.isdecimal() or int(wanted) < 1:
        raise ValueError(f"PIXTREE_THREADS must be a whole number of at least 1, got {wanted!r}; unset it for the default")
    return int(wanted)


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function of every item, in order; kernels release the GIL, so that items run side by side.

    On a thread of the pool it runs them itself: waiting there for other threads of the pool could wait for ever.
    """
    work, threads = list(items), thread_count()
    if threads == 1 or len(work) <= 1 or getattr(_here, "in_pool", False):
        return [function(item) for item in work]
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads, "pixtree", _mark_thread))
    return list(pool.map(function, work))
