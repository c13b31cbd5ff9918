"""Compilation of kernels: without the GIL, with IEEE arithmetic; their machine code ships with the package or is kept on disk."""

from collections.abc import Callable
from typing import Any

import numba
from numba.core import config
from numba.core.caching import NullCache

from pixtree.runtime.announcer import announcer
from pixtree.runtime.machine_code import MachineCode, fingerprint
from pixtree.runtime.shipped import ShippedFirst

Kernel = Callable[..., Any]


def _compiled(function: Kernel, **options: Any) -> Kernel:
    """The function compiled without the GIL, with IEEE arithmetic, and kept on disk until any kernel's source changes."""
    if getattr(config, "DISABLE_JIT", 0):  # kernels rely on LLVM's vectors, and interpreted they would take hours
        raise ImportError(
            'the compiled kernels need numba\'s compiler, got NUMBA_DISABLE_JIT=1; unset it, or segment with backend="torch"'
        )
    # No fastmath and no contraction: trees must be equal to the reference bit for bit. Nobody calls a kernel through a C pointer.
    usual: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    compiled: Any = numba.njit(**usual, **options)(function)
    stamp = fingerprint(function.__module__.split(".")[1])
    try:
        own: MachineCode | NullCache = MachineCode(function, stamp)
    except RuntimeError:  # no folder to keep machine code in, as in a read-only container
        announcer.is_kept = False
        own = NullCache()
    compiled._cache = ShippedFirst(function, stamp, own)
    return compiled  # type: ignore[no-any-return]


def kernel(function: Kernel) -> Kernel:
    """Compile a function; its machine code is kept on disk for later processes."""
    return _compiled(function)


def inlined(function: Kernel) -> Kernel:
    """Compile a small function into its callers."""
    return _compiled(function, forceinline=True)


# Sums in any order, products fused into them: both vectorise. Infinities and NaN are kept.
_TOLERANT = {"contract", "reassoc", "nsz"}


def tolerant(function: Kernel) -> Kernel:
    """Compile a function of learned values, which decide nothing: its last digits may differ between machines."""
    return _compiled(function, fastmath=_TOLERANT)


def tolerant_inlined(function: Kernel) -> Kernel:
    """Compile such a function into its callers."""
    return _compiled(function, fastmath=_TOLERANT, forceinline=True)
