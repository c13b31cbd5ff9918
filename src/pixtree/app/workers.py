"""Workers: a few threads that compute for all clients, shared fairly between addresses."""

import asyncio
import math
import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from fastapi import Request

from pixtree.app.connections import neighbourhood
from pixtree.app.limits import Limits, RefusedError, busy
from pixtree.runtime.stopping import while_wanted

MOST_THREADS = 4  # each keeps the kernels' scratch memory
MEMORY = 60.0  # seconds after which what an address used counts 1 / e as much for its share
LITTLE = 3.0  # seconds of remembered computing with which an address may always take the last thread
SHARE = 0.75  # of the mean of all addresses, up to which it may as well
OWN = ""  # the address of what the server computes for itself
Result = TypeVar("Result")


@dataclass(eq=False)
class Job:
    """A computation of one address: waiting, running or over. `is_wanted` becomes false when nobody waits for it."""

    address: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    answer: "asyncio.Future[Any]"
    is_wanted: bool = True
    started: float = field(default=math.inf)

    def compute(self) -> Any:
        """The result, in a worker's thread."""
        with while_wanted(lambda: self.is_wanted):
            return self.function(*self.arguments)


class Lately:
    """How much of something every address has used lately: sums that fade."""

    def __init__(self) -> None:
        self._used: dict[str, tuple[float, float]] = {}  # the sum, and when it was counted

    def add(self, address: str, amount: float, now: float) -> None:
        """Count what an address has used, and forget those that have used nothing for long."""
        self._used = {one: entry for one, entry in self._used.items() if now - entry[1] < 5 * MEMORY}
        self._used[address] = (self.of(address, now) + amount, now)

    def of(self, address: str, now: float) -> float:
        """The sum of an address."""
        amount, counted = self._used.get(address, (0.0, now))
        return amount * math.exp((counted - now) / MEMORY)

    def all(self, now: float) -> dict[str, float]:
        """The sums of all addresses."""
        return {address: self.of(address, now) for address in self._used}


def address_of(request: Request | None) -> str:
    """The address that the limits of a request apply to."""
    return OWN if request is None or request.client is None else neighbourhood(request.client.host)


class Workers:
    """A few threads and a bounded queue. The address that has computed least comes first, and one thread is kept for light users.

    A kernel cannot be interrupted: a computation that nobody waits for runs on to its next step, and counts until then. Only the
    thread of the server's event loop may call this.
    """

    def __init__(self, limits: Limits, threads: int | None = None) -> None:
        self._limits = limits
        self._threads = threads or min(MOST_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads, "pixtree-app")
        self._waiting: list[Job] = []
        self._running: set[Job] = set()
        self._used = Lately()  # seconds of computing

    async def run(
        self, request: Request | None, function: Callable[..., Result], *arguments: Any, seconds: float = math.inf
    ) -> Result:
        """The function's result, computed for a request by a worker.

        Refused if too many wait or it takes longer than `seconds`, or than any answer may. If the client leaves, it is given up.
        """
        job = Job(address_of(request), function, arguments, asyncio.get_running_loop().create_future())
        self._admit(job)
        self._start()
        allowed = min(seconds, self._limits.answer_seconds)
        left = asyncio.create_task(_left(request))
        try:
            await asyncio.wait({job.answer, left}, timeout=allowed, return_when=asyncio.FIRST_COMPLETED)
            if job.answer.done():
                found: Result = job.answer.result()
                return found
            if left.done():
                raise RefusedError(400, "the connection ended before its answer was ready; ask again")
            raise RefusedError(503, f"an answer may take {allowed:g} seconds, this one takes longer; ask for less")
        finally:
            left.cancel()
            self._give_up(job)

    def close(self) -> None:
        """Drop waiting computations; running ones end at their next step."""
        for job in self._waiting:
            job.answer.set_exception(busy())
        self._waiting.clear()
        for job in self._running:
            job.is_wanted = False
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _admit(self, job: Job) -> None:
        """Let a computation wait; if too many do, the last one of the address that has the most is refused instead."""
        if len(self._waiting) + len(self._running) >= self._limits.waiting:
            held = Counter(one.address for one in (*self._waiting, *self._running))
            most = max((held[one.address] for one in self._waiting), default=0)
            if most <= held[job.address] + 1:
                raise busy()
            victim = next(one for one in reversed(self._waiting) if held[one.address] == most)
            self._waiting.remove(victim)
            victim.answer.set_exception(busy())
        self._waiting.append(job)

    def _give_up(self, job: Job) -> None:
        """Forget a computation that is over or that nobody waits for."""
        job.is_wanted = False
        if job in self._waiting:
            self._waiting.remove(job)

    def _start(self) -> None:
        """Give free threads to those who wait."""
        while self._waiting and len(self._running) < self._threads:
            used = self._seconds()
            job = min(self._waiting, key=lambda one: used.get(one.address, 0.0))
            is_last = len(self._running) == self._threads - 1 > 0
            if is_last and len(used) > 1 and used.get(job.address, 0.0) > max(LITTLE, SHARE * sum(used.values()) / len(used)):
                return
            self._waiting.remove(job)
            self._running.add(job)
            job.started = time.monotonic()
            future = asyncio.get_running_loop().run_in_executor(self._pool, job.compute)
            future.add_done_callback(partial(self._done, job))

    def _done(self, job: Job, future: "asyncio.Future[Any]") -> None:
        self._running.discard(job)
        now = time.monotonic()
        if job.address != OWN:
            self._used.add(job.address, now - job.started, now)
        fault = None if future.cancelled() else future.exception()
        if job.is_wanted and not job.answer.done():
            if fault is None:
                job.answer.set_result(future.result())
            else:
                job.answer.set_exception(fault)
        self._start()

    def _seconds(self) -> dict[str, float]:
        """Remembered seconds of computing of every address that has computed lately or wants to, including what runs now."""
        now = time.monotonic()
        found = self._used.all(now)
        for job in (job for job in (*self._waiting, *self._running) if job.address != OWN):
            found[job.address] = found.get(job.address, 0.0) + max(0.0, now - job.started)
        return found


async def _left(request: Request | None) -> None:
    """Return when the client has closed its connection; never without one."""
    if request is None:
        await asyncio.get_running_loop().create_future()
        return
    while (await request.receive())["type"] != "http.disconnect":
        pass
