"""The log of the library on the command line: the messages of the logger `pixtree`, on stderr."""

import logging

import typer


class _Echo(logging.Handler):
    """Writes messages to whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one message."""
        typer.echo(self.format(record), err=True)


def log_to_stderr(level: int) -> None:
    """Print messages of this level and above."""
    logger = logging.getLogger("pixtree")
    logger.setLevel(level)
    if not any(isinstance(handler, _Echo) for handler in logger.handlers):
        logger.addHandler(_Echo())
