"""What a command writes to stderr: errors, one line each and an exit code, and the log of the library."""

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import typer

FAILURE, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143  # the last two as shells have them: 128 and the signal's number
ENDED_BY_LAUNCHER = (
    "the launcher ended this process, since another one of the run has ended or the run was cancelled; read the message of the "
    "other one, and start all of them again (a training with --resume)"
)


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
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


def end_in_order() -> None:
    """Turn SIGTERM, which ends a process on the spot, into an exit that removes half-written files."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not interrupt the clean-up
    if int(os.environ.get("WORLD_SIZE") or 1) > 1:  # torchrun may have noticed that before this process does
        os.write(2, f"error: {ENDED_BY_LAUNCHER}\n".encode())
        if hasattr(signal, "SIGCHLD"):  # data workers end as well, and torch would raise an error about each
            signal.signal(signal.SIGCHLD, lambda *_: None)
    sys.exit(TERMINATED)


def message_of(fault: BaseException) -> str:
    """The message of an error on one line."""
    return " ".join(str(fault).split()) or "not enough memory"  # MemoryError often has no message


def _exit(fault: Exception, code: int) -> typer.Exit:
    typer.echo(f"error: {message_of(fault)}", err=True)
    return typer.Exit(code)


class _Echo(logging.Handler):
    """Writes messages to the stderr of the moment, which tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        typer.echo(self.format(record), err=True)


def log_to_stderr(level: int) -> None:
    """Print the messages of the logger `pixtree` of this level and above."""
    logger = logging.getLogger("pixtree")
    logger.setLevel(level)
    if not any(isinstance(handler, _Echo) for handler in logger.handlers):
        logger.addHandler(_Echo())
