"""Messages of a process that waits for its kernels to be compiled: which kernel, how many more, and what to do about it."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

ONCE = "once for this machine ..."
EVERY_TIME = "in every process, since no folder can keep them"
REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written"
INTERVAL = 2.0  # seconds between two messages of one process
CLEAR = "\r\x1b[2K"  # the line of a terminal
logger = logging.getLogger(__name__)
_warned: set[str] = set()


def warn_once(message: str) -> None:
    """Log a message, unless this process has logged it before; without any set-up of logging it goes to stderr."""
    if message not in _warned:
        _warned.add(message)
        logger.warning("pixtree: %s", message)


class Announcer(event.Listener):
    """Says what is being compiled: at once, and then every two seconds for as long as it takes.

    In a terminal without any set-up of logging it is one line that changes; a program with a progress bar sets `display`.
    Numba compiles in one thread at a time, so only `_repeat` runs at the same time as the other methods.
    """

    is_kept = True  # whether a later process will find the machine code
    display: Callable[[str], None] | None = None  # gets every message instead, and "" when nothing is being compiled

    def __init__(self) -> None:
        self.names: list[str] = []  # from the kernel that was called to the one that is being compiled into it
        self.ahead: set[Any] = set()  # kernels that the outermost one calls, directly or not
        self.count = 0
        self.last = -INTERVAL
        self.idle = threading.Event()

    def on_start(self, event: Any) -> None:
        """A kernel of pixtree, or one that it calls, is about to be compiled."""
        dispatcher = _ours(event)
        if dispatcher is None:
            return
        if not self.names:
            self.ahead = callees(dispatcher)
            self.idle.clear()
            threading.Thread(target=self._repeat, daemon=True).start()
        self.ahead.discard(dispatcher)
        self.count += 1
        self.names.append(short_name(dispatcher.py_func))
        self._say()

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        if _ours(event) is None or not self.names:
            return
        self.names.pop()
        if not self.names:
            self.idle.set()
            self._show("")

    def _repeat(self) -> None:
        while not self.idle.wait(INTERVAL):
            self._say()

    def _say(self) -> None:
        name = self.names[-1] if self.names else ""
        more = f" and about {len(self.ahead)} more" if self.ahead else ""
        if name:
            self._show(f"compiling kernel {self.count} ({name}){more}, {ONCE if self.is_kept else f'{EVERY_TIME}; {REMEDY}'}")

    def _show(self, message: str) -> None:
        """A message on the display, or on the line of a terminal, or as a line of the log at intervals."""
        if self.display is not None:
            self.display(message)
        elif not logger.hasHandlers() and sys.stderr is not None and sys.stderr.isatty():
            sys.stderr.write(f"{CLEAR}pixtree: {message}" if message else CLEAR)
            sys.stderr.flush()
        elif message and time.monotonic() - self.last >= INTERVAL:
            self.last = time.monotonic()
            logger.warning("pixtree: %s", message)


def short_name(function: Callable[..., Any]) -> str:
    """The path of a kernel as a reader of the sources knows it: `tree.build.grouping.merge`."""
    path = f"{function.__module__}.{function.__name__}".removeprefix("pixtree.").removeprefix("kernels.")
    return path.replace(".compiled", "")


def callees(dispatcher: Any) -> set[Any]:
    """The kernels that a kernel calls, directly or through others, and that are probably compiled with it.

    Those that this process has compiled before are left out, unless the kernel itself was: then its arguments have other types.
    """
    found: set[Any] = set()
    waiting = [dispatcher]
    while waiting:
        function = waiting.pop().py_func
        named = (function.__globals__.get(name) for name in function.__code__.co_names)
        new = {one for one in named if isinstance(one, Dispatcher) and (dispatcher.overloads or not one.overloads)} - found
        found |= new
        waiting += new
    return found - {dispatcher}


def _ours(event: Any) -> Any:
    """The dispatcher of an event, if it is a kernel of pixtree."""
    dispatcher = (event.data or {}).get("dispatcher")
    module = getattr(getattr(dispatcher, "py_func", None), "__module__", "")
    return dispatcher if str(module).startswith("pixtree.") else None


announcer = Announcer()
event.register("numba:compile", announcer)
