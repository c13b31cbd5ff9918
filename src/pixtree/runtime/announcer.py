"""Messages of a process that waits for its kernels to be compiled: which kernel, how many more, and what to do about it."""

import threading
from collections.abc import Callable
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

from pixtree.messages import INTERVAL, show

ONCE = "once for this machine ..."
EVERY_TIME = "in every process, since no folder can keep them"
REMEDY = "set NUMBA_CACHE_DIR to a folder that can be written"


class Announcer(event.Listener):
    """Names what is being compiled: at once, and then again for as long as it takes.

    Numba compiles in one thread at a time, so only `_repeat` runs at the same time as the other methods.
    """

    is_kept = True  # whether a later process will find the machine code

    def __init__(self) -> None:
        self.names: list[str] = []  # from the kernel that was called to the one that is being compiled into it
        self.ahead: set[Any] = set()  # kernels that the outermost one calls, directly or not
        self.count = 0
        self.idle = threading.Event()

    def on_start(self, event: Any) -> None:
        """A kernel of pixtree, or one that it calls, is about to be compiled."""
        dispatcher = _ours(event)
        if dispatcher is None:
            return
        if not self.names:
            self.ahead = callees(dispatcher)
            self.idle = threading.Event()
            threading.Thread(target=self._repeat, args=(self.idle,), daemon=True).start()
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
            show("")

    def _repeat(self, idle: threading.Event) -> None:
        while not idle.wait(INTERVAL):
            self._say()

    def _say(self) -> None:
        name = self.names[-1] if self.names else ""
        more = f" and about {len(self.ahead)} more" if self.ahead else ""
        if name:
            show(f"compiling kernel {self.count} ({name}){more}, {ONCE if self.is_kept else f'{EVERY_TIME}; {REMEDY}'}")


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
