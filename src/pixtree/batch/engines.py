"""Engines: a pool of processes on one machine, in which a process that dies is replaced, or a Ray cluster."""

import multiprocessing
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from pixtree.batch.corpus import CorpusPart
from pixtree.batch.destination import DEATHS, trace_of
from pixtree.batch.work import BatchJob, PartResult, finish

INSTALL = "pip install 'pixtree[ray]'"


class _Worker(NamedTuple):
    """A process and our end of the pipe to it, which closes when the process ends."""

    process: BaseProcess
    pipe: Connection

    def leave(self) -> None:
        """Close the pipe, so that the process ends after its current part."""
        self.pipe.close()
        self.process.join()


def finish_all(job: BatchJob, parts: Sequence[CorpusPart], workers: int) -> Iterator[PartResult]:
    """Process all parts and yield the result of each as it ends. A single worker runs in this process.

    The executors of the standard library end all their processes when one dies, and may not notice a death before another
    process answers. Here the others continue, so that only one image can be blamed for a death.
    """
    if workers == 1:
        yield from (finish(job, part) for part in parts)
        return
    waiting = list(reversed(parts))
    idle: list[_Worker] = []
    busy: dict[object, tuple[_Worker, CorpusPart]] = {}  # by pipe, whose class differs on Windows
    idle_deaths: dict[str, int] = {}  # per part, of processes that died before its first image
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker, part = idle.pop() if idle else _started(job), waiting.pop()
                busy[worker.pipe] = worker, part
                with suppress(BrokenPipeError):  # it has died since its last part: recv notices below
                    worker.pipe.send(part)
            for pipe in wait_for([worker.pipe for worker, _ in busy.values()]):
                worker, part = busy.pop(pipe)
                try:
                    answer = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    worker.leave()
                    _count_death(job, part, idle_deaths)
                    waiting.append(part)
                    continue
                idle.append(worker)
                if isinstance(answer, Exception):
                    raise answer
                yield answer
    finally:
        for worker in (*idle, *(worker for worker, _ in busy.values())):
            worker.leave()


def _count_death(job: BatchJob, part: CorpusPart, idle_deaths: dict[str, int]) -> None:
    """Stop replacing processes that die before their first image."""
    if trace_of(job.destination, part.name, job.run).deaths:
        return  # the trace will give up the image
    idle_deaths[part.name] = idle_deaths.get(part.name, 0) + 1
    if idle_deaths[part.name] > DEATHS:
        raise RuntimeError(
            f"a process of the pool died {idle_deaths[part.name]} times before its first image of part {part.name}; "
            "free some memory, guard the start of your script with if __name__ == '__main__', or see the error with workers=1"
        )


def _started(job: BatchJob) -> _Worker:
    """A new process, spawned because a fork of one with torch's threads may hang."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(job, there), daemon=True)
    process.start()
    there.close()  # only the process still holds that end
    return _Worker(process, here)


def _serve(job: BatchJob, pipe: Connection) -> None:
    """Process one part after another until the driver closes the pipe."""
    _use_one_thread()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            part = pipe.recv()
            try:
                answer: PartResult | Exception = finish(job, part)
            except Exception as fault:  # the driver raises it
                answer = fault
            pipe.send(answer)


def _use_one_thread() -> None:
    import torch

    os.environ["PIXTREE_THREADS"] = "1"
    torch.set_num_threads(1)


def _end_with(sentinel: int) -> None:
    """End this process with its parent, even in the middle of an image."""
    wait_for([sentinel])
    os._exit(1)


def finish_all_on_ray(job: BatchJob, parts: Sequence[CorpusPart], workers: int | None) -> Iterator[PartResult]:
    """The same as a Ray Data pipeline; Ray restarts a part whose process or machine is lost.

    RAY_ADDRESS names an existing cluster; without it, a local one is started. All machines must see source and destination.
    """
    try:
        import ray
    except ImportError as fault:
        raise ImportError(f"--engine ray needs Ray, which is not installed; {INSTALL}") from fault
    if not ray.is_initialized():
        local: dict[str, Any] = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": workers, "include_dashboard": False}
        ray.init(log_to_driver=False, **local)
    quiet = ray.data.DataContext.get_current()
    quiet.enable_progress_bars = False
    rows = ray.data.from_items([part._asdict() for part in parts], override_num_blocks=len(parts))
    done = rows.map(partial(_finish_row, job), num_cpus=1)
    for row in done.iter_rows():
        yield PartResult(row["part"], row["done"], row["failed"])


def _finish_row(job: BatchJob, row: dict[str, Any]) -> dict[str, Any]:
    _use_one_thread()
    return finish(job, CorpusPart(row["name"], tuple(row["files"])))._asdict()
