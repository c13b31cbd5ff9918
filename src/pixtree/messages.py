"""Messages of the library: sentences that are logged once, and one that changes while something takes long.

It imports nothing heavy, since the command line uses it before any work.
"""

import logging
import sys
import time
from collections.abc import Callable

INTERVAL = 2.0  # seconds between two lines of the log about the same work
CLEAR = "\r\x1b[2K"  # the line of a terminal
logger = logging.getLogger(__name__)
displays: list[Callable[[str], None]] = []  # progress bars, of which the newest shows what changes
_warned: set[str] = set()
_last = -INTERVAL


def warn_once(message: str) -> None:
    """Log a message, unless this process has logged it before; without any set-up of logging it goes to stderr."""
    if message not in _warned:
        _warned.add(message)
        logger.warning("pixtree: %s", message)


def show(message: str) -> None:
    """Show what is going on, in a progress bar if there is one, or in one line of a terminal, or as lines of the log at intervals.

    The line of a terminal belongs to us only if nobody has set up logging. An empty message ends the line.
    """
    global _last
    if displays:
        displays[-1](message)
    elif not logger.hasHandlers() and logger.isEnabledFor(logging.WARNING) and sys.stderr is not None and sys.stderr.isatty():
        sys.stderr.write(f"{CLEAR}pixtree: {message}" if message else CLEAR)
        sys.stderr.flush()
    elif message and time.monotonic() - _last >= INTERVAL:
        _last = time.monotonic()
        logger.warning("pixtree: %s", message)
