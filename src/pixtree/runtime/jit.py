"""Compilation of kernels: to disk, without the GIL, with IEEE arithmetic; the first compilation is announced."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import config, event

from pixtree.runtime.machine_code import REMEDY, MachineCode, say_once

Kernel = Callable[..., Any]


PACKAGE = Path(__file__).parents[1]
# Machine code is inlined across the files of these folders; a test checks that nothing is compiled elsewhere.
FOLDERS = {"kernels": ("kernels", "runtime"), "vector": ("vector", "kernels", "runtime")}
ONCE = "compiling its kernels for this machine, once (about half a minute) ..."
EVERY_TIME = "compiling its kernels (about half a minute), in every process, since no folder can keep them"


@cache
def fingerprint(folder: str) -> str:
    """A hash of every source that the machine code of a folder may inline: numba itself looks at the caller's file only."""
    digest = hashlib.sha256()
    for name in FOLDERS[folder]:
        for path in sorted((PACKAGE / name).rglob("*.py")):
            digest.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _compiled(function: Kernel, **options: Any) -> Kernel:
    """The function compiled without the GIL, with IEEE arithmetic, and kept on disk until any kernel's source changes."""
    if getattr(config, "DISABLE_JIT", 0):  # kernels rely on LLVM's vectors, and interpreted they would take hours
        raise ImportError(
            'the compiled kernels need numba\'s compiler, got NUMBA_DISABLE_JIT=1; unset it, or segment with backend="torch"'
        )
    # No fastmath and no contraction: trees must be equal to the reference bit for bit.
    compiled: Any = numba.njit(nogil=True, error_model="numpy", **options)(function)
    try:
        compiled._cache = MachineCode(function, fingerprint(function.__module__.split(".")[1]))
    except RuntimeError:  # no folder to keep machine code in, as in a read-only container
        _Announcer.is_kept = False
    return compiled  # type: ignore[no-any-return]


def kernel(function: Kernel) -> Kernel:
    """Compile a function; its machine code is kept on disk for later processes."""
    return _compiled(function)


def inlined(function: Kernel) -> Kernel:
    """Compile a small function into its callers."""
    return _compiled(function, forceinline=True)


# Sums in any order, products fused into them: both vectorise. Infinities and NaN stay what they are.
_TOLERANT = {"contract", "reassoc", "nsz"}


def tolerant(function: Kernel) -> Kernel:
    """Compile a function of learned values, which decide nothing: its last digits may differ between machines."""
    return _compiled(function, fastmath=_TOLERANT)


def tolerant_inlined(function: Kernel) -> Kernel:
    """Compile such a function into its callers."""
    return _compiled(function, fastmath=_TOLERANT, forceinline=True)


class _Announcer(event.Listener):
    """Announces once per process that a first call waits for compilation."""

    is_kept = True  # whether a later process will find the machine code

    def on_start(self, event: Any) -> None:
        """Announce the first compilation of a pixtree kernel."""
        if _is_ours(event):
            say_once(ONCE if self.is_kept else f"{EVERY_TIME}; {REMEDY}")

    def on_end(self, event: Any) -> None:
        """Nothing to say: the result that the caller waits for follows."""


def _is_ours(event: Any) -> bool:
    dispatcher = (event.data or {}).get("dispatcher")
    module = getattr(getattr(dispatcher, "py_func", None), "__module__", "")
    return str(module).startswith("pixtree.")


event.register("numba:compile", _Announcer())
