"""Errors on the command line: one line on stderr, and an exit code."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

FAILURE, USAGE = 1, 2


class UsageError(ValueError):
    """Options that do not go together."""


@contextmanager
def reported() -> Iterator[None]:
    """Turn errors of the library into `error: …` on stderr and exit code 1, or 2 for bad usage."""
    try:
        yield
    except UsageError as fault:
        raise _exit(fault, USAGE) from fault
    except (ValueError, OSError, ImportError, MemoryError) as fault:
        raise _exit(fault, FAILURE) from fault


def _exit(fault: Exception, code: int) -> typer.Exit:
    message = " ".join(str(fault).split()) or "not enough memory"  # MemoryError often says nothing
    typer.echo(f"error: {message}", err=True)
    return typer.Exit(code)
