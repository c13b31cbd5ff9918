"""Compilation of kernels: to disk, without the GIL, with IEEE arithmetic; the first compilation is announced."""

import hashlib
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event

Kernel = Callable[..., Any]


PACKAGE = Path(__file__).parents[1]
# Machine code is inlined across the files of these folders; a test checks that nothing is compiled elsewhere.
FOLDERS = {"kernels": ("kernels", "runtime"), "vector": ("vector", "kernels", "runtime")}


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
    # No fastmath and no contraction: trees must be equal to the reference bit for bit.
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    except RuntimeError:  # no folder to keep machine code in, as in a read-only container: compile in every process
        compiled = numba.njit(nogil=True, error_model="numpy", **options)(function)
    stored = getattr(getattr(compiled, "_cache", None), "_cache_file", None)
    if stored is not None:
        stored._source_stamp = (stored._source_stamp, fingerprint(function.__module__.split(".")[1]))
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
