"""Threads over the images of a batch: a pool per process, and the scratch memory that each thread keeps."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch

Item = TypeVar("Item")
Result = TypeVar("Result")

LARGEST_KEPT = 2**26  # words: 256 MB, about two megapixels

_pools: dict[int, ThreadPoolExecutor] = {}
_here = threading.local()
_kept = threading.local()


def _renew_threads() -> None:
    """In a forked child, which inherits pools but not their threads: our pool is made anew, and torch does without its own.

    An operator of torch would wait forever for OpenMP's threads. The workers of a DataLoader have one thread for that reason.
    """
    _pools.clear()
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_renew_threads)


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
    """The function of every item, in order; kernels release the GIL, so items run in parallel.

    On a thread of the pool it runs them itself: waiting there for other threads of the pool could wait forever.
    """
    work, threads = list(items), thread_count()
    if threads == 1 or len(work) <= 1 or getattr(_here, "in_pool", False):
        return [function(item) for item in work]
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads, "pixtree", _mark_thread))
    return list(pool.map(function, work))


def spans(items: int, work: int, worth: int) -> list[tuple[int, int]]:
    """Consecutive numbers of items, (first, end) for each thread; one span where the work of a thread would be below `worth`."""
    threads = 1 if work < 2 * worth else max(1, min(thread_count(), items, work // worth))
    step = max(1, -(-items // threads))
    return [(start, min(start + step, items)) for start in range(0, items, step)]


def scratch(name: str, words: int) -> Any:
    """This thread's uint32 array called `name`, of at least `words`; it still holds the values of the last caller.

    Fresh pages cost more than most of the arithmetic done in them. Kernels that never run inside one another share a name, and so
    the memory.
    """
    if words > LARGEST_KEPT:  # a server must not keep the memory of its largest image forever
        return np.empty(words, np.uint32)
    slab = getattr(_kept, name, None)
    if slab is None or slab.size < words:
        slab = np.empty(words, np.uint32)
        setattr(_kept, name, slab)
    return slab
