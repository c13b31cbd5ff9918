"""Stopping: a computation that nobody waits for any more ends at its next step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_is_wanted: ContextVar[Callable[[], bool] | None] = ContextVar("is_wanted", default=None)


class StoppedError(Exception):
    """The result of a computation is no longer wanted."""


@contextmanager
def while_wanted(is_wanted: Callable[[], bool]) -> Iterator[None]:
    """In this block and this thread, `check_wanted` raises as soon as `is_wanted()` is false."""
    token = _is_wanted.set(is_wanted)
    try:
        yield
    finally:
        _is_wanted.reset(token)


def check_wanted() -> None:
    """End the computation if nobody wants its result; long ones call this between their steps."""
    is_wanted = _is_wanted.get()
    if is_wanted is not None and not is_wanted():
        raise StoppedError("nobody waits for this result any more")
