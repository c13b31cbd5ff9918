"""A pool of processes on one machine: each does one part after another, and one that dies is replaced."""

import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for

from pixtree.batch.corpus import Part
from pixtree.batch.parts import Order, Outcome, finish, last_seen

DEATHS = 2  # of processes, after which a picture is given up
AHEAD = 2  # parts per process that are handed out before they are needed


def finish_all(order: Order, parts: Sequence[Part], workers: int) -> Iterator[Outcome]:
    """Do all parts and tell of each as it ends. One process works in this one."""
    if workers == 1:
        yield from (finish(order, part) for part in parts)
        return
    waiting = list(reversed(parts))
    deaths: Counter[str] = Counter()
    while waiting:
        with _pool(workers) as pool:
            running: dict[Future[Outcome], Part] = {}
            try:
                while waiting or running:
                    while waiting and len(running) < workers * AHEAD:
                        part = waiting.pop()
                        running[pool.submit(finish, order, part, _given_up(deaths))] = part
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        outcome = future.result()
                        del running[future]
                        yield outcome
            except BrokenProcessPool:
                lost = list(running.values())
                deaths.update(key for part in lost if (key := last_seen(order.destination, part.name)) is not None)
                waiting += reversed(lost)


def _given_up(deaths: Counter[str]) -> frozenset[str]:
    return frozenset(key for key, count in deaths.items() if count >= DEATHS)


def _pool(workers: int) -> ProcessPoolExecutor:
    """Fresh processes, since a fork of one with torch's threads may hang."""
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=_settle)


def _settle() -> None:
    """One thread per process, and an end with the process that started it."""
    import torch

    os.environ["PIXTREE_THREADS"] = "1"
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)
