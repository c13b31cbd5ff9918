"""Workers: few threads that compute, and a bounded queue before them."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pixtree.app.limits import Limits
from pixtree.app.refusals import RefusedError, busy

MOST_THREADS = 4  # each keeps the kernels' scratch memory
Result = TypeVar("Result")


class Workers:
    """A pool of threads. Kernels cannot be interrupted: one whose time is over runs on, and counts as waiting until its end."""

    def __init__(self, limits: Limits) -> None:
        self._limits, self._waiting = limits, 0
        self._pool = ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1), "pixtree-app")

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The function's result, computed by a worker; refused if too many wait or it takes too long."""
        if self._waiting >= self._limits.waiting:
            raise busy()
        self._waiting += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        future.add_done_callback(self._done)
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._limits.answer_seconds)
        except TimeoutError:
            seconds = f"{self._limits.answer_seconds:g}"
            raise RefusedError(503, f"an answer may take {seconds} seconds, this one takes longer; ask for less") from None

    def _done(self, future: "asyncio.Future[Any]") -> None:
        self._waiting -= 1
        if not future.cancelled():
            future.exception()  # looked at, so that asyncio does not report that of an answer nobody waits for any more

    def close(self) -> None:
        """Drop what waits; what runs comes to its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
