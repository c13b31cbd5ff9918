"""Engines: a pool of processes on one machine, in which a process that dies is replaced, or a Ray cluster."""

import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from pixtree.batch.corpus import CorpusPart
from pixtree.batch.destination import DEATHS, trace_of
from pixtree.batch.work import READING, BatchJob, MachineError, PartResult, finish
from pixtree.runtime.stopping import while_wanted

logger = logging.getLogger(__name__)

INSTALL = "pip install 'pixtree[ray]'"
PATIENCE = 60.0  # seconds at one image, after which a process is named
GRACE = 1.0  # seconds that a process has for its clean-up before it is killed
STATES = {"T": "stopped", "t": "stopped", "D": "waiting for a disk", "S": "asleep"}  # of Linux


@dataclass
class _Worker:
    """A process, our end of the pipe to it, which closes when the process ends, and what it is working on."""

    process: BaseProcess
    pipe: Connection
    part: CorpusPart
    image: str | None = None  # None before its first one
    since: float = 0.0
    named: bool = False

    def begin(self, part: CorpusPart) -> None:
        """Hand over a part."""
        self.part, self.image = part, None
        self.note(None)
        with suppress(BrokenPipeError):  # it has died since its last part: recv notices
            self.pipe.send(part)

    def note(self, image: str | None) -> None:
        """It has come to an image."""
        self.image, self.since, self.named = image, time.monotonic(), False

    def leave(self, at_once: bool = False) -> None:
        """Close the pipe, so that the process ends after its current part, or at once."""
        self.pipe.close()
        if at_once:
            self.process.terminate()
            self.process.join(GRACE)
            if self.process.is_alive():  # in a kernel, or stopped
                self.process.kill()
        self.process.join()

    def state(self) -> str:
        """What the system says about the process, where it does."""
        try:
            letter = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return ""
        return f", which is {STATES[letter]}," if letter in STATES else ""


def finish_all(job: BatchJob, parts: Sequence[CorpusPart], workers: int) -> Iterator[PartResult]:
    """Process all parts and yield the result of each as it ends. Without a timeout, a single worker is a thread of this process.

    The executors of the standard library end all their processes when one dies, and may not notice a death before another
    process answers. Here the others continue, so that only one image can be blamed for a death.
    """
    if workers == 1 and job.timeout is None:
        yield from _finish_here(job, parts)
        return
    waiting = list(reversed(parts))
    idle: list[_Worker] = []
    busy: dict[object, _Worker] = {}  # by pipe, whose class differs on Windows
    idle_deaths: dict[str, int] = {}  # per part, of processes that died before its first image
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                worker = idle.pop() if idle else _started(job, waiting[-1])
                worker.begin(waiting.pop())
                busy[worker.pipe] = worker
            for pipe in wait_for([worker.pipe for worker in busy.values()], timeout=1.0):
                worker = busy[pipe]
                try:
                    answer = worker.pipe.recv()
                except (EOFError, ConnectionResetError):
                    del busy[pipe]
                    worker.leave()
                    _count_death(job, worker.part, idle_deaths)
                    waiting.append(worker.part)
                    continue
                if isinstance(answer, str):
                    worker.note(answer)
                    continue
                idle.append(busy.pop(pipe))
                if isinstance(answer, Exception):
                    raise answer
                yield answer
            _watch(job, busy.values())
    except BaseException:
        _leave_all([*idle, *busy.values()])
        raise
    for worker in idle:
        worker.leave()


def _finish_here(job: BatchJob, parts: Sequence[CorpusPart]) -> Iterator[PartResult]:
    """Process all parts in a thread of this process: a signal reaches the main thread even while a kernel computes.

    An image that is being worked on when the run ends is given up: a kernel cannot be interrupted, but its result is not written.
    """
    answers: SimpleQueue[PartResult | BaseException] = SimpleQueue()
    ended = threading.Event()

    def serve() -> None:
        try:
            with while_wanted(lambda: not ended.is_set()):
                for part in parts:
                    answers.put(finish(job, part))
        except BaseException as fault:  # the driver raises it
            answers.put(fault)

    thread = threading.Thread(target=serve, name="pixtree-batch", daemon=True)
    thread.start()
    try:
        for _ in parts:
            answer = answers.get()
            if isinstance(answer, BaseException):
                raise answer
            yield answer
    finally:
        ended.set()
        thread.join(GRACE)


def _leave_all(team: Sequence[_Worker]) -> None:
    """End all processes at once, and not one after the other."""
    for worker in team:
        worker.process.terminate()
    deadline = time.monotonic() + GRACE
    for worker in team:
        worker.process.join(max(deadline - time.monotonic(), 0.0))
        if worker.process.is_alive():
            worker.process.kill()
    for worker in team:
        worker.leave()


def _watch(job: BatchJob, busy: Collection[_Worker]) -> None:
    """Name processes that have not moved for a minute, and kill those whose image has had its time."""
    for worker in busy:
        seconds = time.monotonic() - worker.since
        if seconds > PATIENCE and not worker.named:
            worker.named = True
            place = f"starting part {worker.part.name}"
            if worker.image:
                place = f"at '{worker.image.removeprefix(READING)}' of part {worker.part.name}"
            logger.warning("process %d%s has been %s for %.0f s", worker.process.pid, worker.state(), place, seconds)
        if job.timeout is not None and worker.image is not None and seconds > job.timeout:
            worker.process.kill()
            worker.process.join()
            trace_of(job.destination, worker.part.name, job.run).too_slow(worker.image)  # the pipe reports the death


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


def _started(job: BatchJob, part: CorpusPart) -> _Worker:
    """A new process, spawned because a fork of one with torch's threads may hang."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(job, there), daemon=True)
    process.start()
    there.close()  # only the process still holds that end
    return _Worker(process, here, part)


def _serve(job: BatchJob, pipe: Connection) -> None:
    """Process one part after another until the driver closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver, which gets the same signal, ends this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # removes its temporary file
    _use_one_thread()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    with suppress(EOFError, BrokenPipeError):
        while True:
            part = pipe.recv()
            try:
                answer: PartResult | Exception = finish(job, part, pipe.send)
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
    # As JSON: Arrow refuses names that are not UTF-8.
    rows = ray.data.from_items([{"part": json.dumps(part)} for part in parts], override_num_blocks=len(parts))
    done = rows.map(partial(_finish_row, job), num_cpus=1)
    for row in done.iter_rows():
        if row["fault"]:
            raise MachineError(row["fault"])
        yield PartResult(*json.loads(row["result"]))


def _finish_row(job: BatchJob, row: dict[str, Any]) -> dict[str, Any]:
    """Process one part. What ends the run is returned: Ray would wrap it into a page of its own."""
    _use_one_thread()
    name, files = json.loads(row["part"])
    try:
        return {"result": json.dumps(finish(job, CorpusPart(name, tuple(files)))), "fault": ""}
    except (OSError, ValueError) as fault:
        return {"result": "", "fault": " ".join(str(fault).split())}
