"""Threads over the images of a batch: a pool per process, whose threads keep their workspaces."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
# A forked child inherits the pool but not its threads; it makes its own.
os.register_at_fork(after_in_child=_pools.clear)


def thread_count() -> int:
    """PIXTREE_THREADS, or as many threads as torch uses (one in the workers of a DataLoader)."""
    wanted = os.environ.get("PIXTREE_THREADS", "")
    if not wanted:
        return torch.get_num_threads()
    if not wanted.isdecimal() or int(wanted) < 1:
        raise ValueError(f"PIXTREE_THREADS must be a whole number of at least 1, got {wanted!r}; unset it for the default")
    return int(wanted)


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The function of every item, in order; kernels release the GIL, so that items run side by side."""
    work, threads = list(items), thread_count()
    if threads == 1 or len(work) <= 1:
        return [function(item) for item in work]
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads, thread_name_prefix="pixtree"))
    return list(pool.map(function, work))
