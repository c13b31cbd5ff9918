"""How kernels are compiled: to disk, without the GIL, with IEEE arithmetic; and a word to whoever waits for it."""

import sys
from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

Kernel = Callable[..., Any]


# No fastmath and no contraction: trees must be equal to the reference bit for bit.
def kernel(function: Kernel) -> Kernel:
    """Compile a function; its machine code is kept on disk for later processes."""
    return numba.njit(function, cache=True, nogil=True, error_model="numpy")


def inlined(function: Kernel) -> Kernel:
    """Compile a small function into its callers."""
    return numba.njit(function, cache=True, nogil=True, error_model="numpy", forceinline=True)


class _Announcer(event.Listener):
    """Says, once per process, what a first call waits for."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        """Announce the first compilation of a pixtree kernel."""
        if not self.said and _is_ours(event):
            self.said = True
            print("pixtree: compiling its kernels for this machine, once (about half a minute) ...", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """Nothing to say: the result that the caller waits for follows."""


def _is_ours(event: Any) -> bool:
    dispatcher = (event.data or {}).get("dispatcher")
    module = getattr(getattr(dispatcher, "py_func", None), "__module__", "")
    return str(module).startswith("pixtree.")


event.register("numba:compile", _Announcer())
