"""A pool of processes on one machine: each does one part after another, and one that dies is replaced."""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from typing import NamedTuple

from pixtree.batch.corpus import Part
from pixtree.batch.parts import Order, Outcome, finish
from pixtree.batch.traces import DEATHS, trace_of


class _Worker(NamedTuple):
    """A process and this end of the pipe to it, which also ends when the process does."""

    process: BaseProcess
    pipe: Connection

    def leave(self) -> None:
        """Without a pipe the process ends after the part that it is at."""
        self.pipe.close()
        self.process.join()


def finish_all(order: Order, parts: Sequence[Part], workers: int) -> Iterator[Outcome]:
    """Do all parts and tell of each as it ends. One process works in this one.

    The executors of the standard library end all their processes when one dies, and may not notice a death before another
    process answers. Here the others work on, so that a death is the fault of no picture but one.
    """
    if workers == 1:
        yield from (finish(order, part) for part in parts)
        return
    waiting = list(reversed(parts))
    idle: list[_Worker] = []
    busy: dict[object, tuple[_Worker, Part]] = {}  # by their pipes, whose class is another on Windows
    idle_deaths: dict[str, int] = {}  # per part, of processes that died on none of its pictures
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker, part = idle.pop() if idle else _started(order), waiting.pop()
                busy[worker.pipe] = worker, part
                with suppress(BrokenPipeError):  # it has died since its last part: its pipe says so below
                    worker.pipe.send(part)
            for pipe in wait_for([worker.pipe for worker, _ in busy.values()]):
                worker, part = busy.pop(pipe)
                try:
                    answer = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    worker.leave()
                    _count_death(order, part, idle_deaths)
                    waiting.append(part)
                    continue
                idle.append(worker)
                if isinstance(answer, Exception):
                    raise answer
                yield answer
    finally:
        for worker in (*idle, *(worker for worker, _ in busy.values())):
            worker.leave()


def _count_death(order: Order, part: Part, idle_deaths: dict[str, int]) -> None:
    """Refuse to start processes for ever that die before they come to a picture."""
    if trace_of(order.destination, part.name, order.run).deaths:
        return  # the trace gives up the picture in time
    idle_deaths[part.name] = idle_deaths.get(part.name, 0) + 1
    if idle_deaths[part.name] > DEATHS:
        raise RuntimeError(
            f"a process of the pool died {idle_deaths[part.name]} times before it came to a picture of part {part.name}; "
            "free some memory, guard the start of your script with if __name__ == '__main__', or see the error with workers=1"
        )


def _started(order: Order) -> _Worker:
    """A fresh process, since a fork of one with torch's threads may hang."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(order, there), daemon=True)
    process.start()
    there.close()  # the only end is now that of the process
    return _Worker(process, here)


def _serve(order: Order, pipe: Connection) -> None:
    """Do one part after another until the driver has no more."""
    _settle()
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            part = pipe.recv()
            try:
                answer: Outcome | Exception = finish(order, part)
            except Exception as fault:  # the driver raises it
                answer = fault
            pipe.send(answer)


def _settle() -> None:
    """One thread per process, and an end with the process that started it, also in the middle of a picture."""
    import torch

    os.environ["PIXTREE_THREADS"] = "1"
    torch.set_num_threads(1)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)
