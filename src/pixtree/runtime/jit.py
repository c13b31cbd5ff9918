"""Compilation of kernels: without the GIL, with IEEE arithmetic; their machine code ships with the package or is kept on disk.

A *kernel* is called by Python, a *part* by kernels only. Parts compile faster: see `parts`. Nothing that a function leaves open may
follow from who compiles it first, so every option is set.
"""

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from numba.core import config
from numba.core.caching import NullCache
from numba.core.registry import CPUDispatcher
from numba.extending import register_jitable

from pixtree.runtime.announcer import announcer
from pixtree.runtime.machine_code import MachineCode, fingerprint
from pixtree.runtime.parts import Part, PartCompiler
from pixtree.runtime.shipped import ShippedFirst

Kernel = Callable[..., Any]
# Sums in any order, products fused into them: both vectorise. Infinities and NaN are kept.
_TOLERANT = {"contract", "reassoc", "nsz"}


def _compiled(function: Kernel, dispatcher: type[CPUDispatcher], options: dict[str, Any], **more: Any) -> Kernel:
    """A dispatcher that keeps its machine code on disk until any kernel's source changes."""
    if getattr(config, "DISABLE_JIT", 0):  # kernels rely on LLVM's vectors, and interpreted they would take hours
        raise ImportError(
            'the compiled kernels need numba\'s compiler, got NUMBA_DISABLE_JIT=1; unset it, or segment with backend="torch"'
        )
    # No fastmath and no contraction: trees must be equal to the reference bit for bit. Nobody calls a kernel through a C pointer.
    usual = {"nopython": True, "nogil": True, "error_model": "numpy", "boundscheck": None, "no_cfunc_wrapper": True}
    compiled: Any = dispatcher(function, targetoptions={**usual, **options}, **more)
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
    return _kernel(function, fastmath=False)


def tolerant(function: Kernel) -> Kernel:
    """Compile a function of learned values, which decide nothing: its last digits may differ between machines."""
    return _kernel(function, fastmath=_TOLERANT)


def _kernel(function: Kernel, fastmath: Any) -> Kernel:
    return _compiled(function, CPUDispatcher, {"fastmath": fastmath, "_nrt": True})


def part(*, allocates: bool = False, tolerant: bool = False) -> Callable[[Kernel], Kernel]:
    """Compile a function that kernels call, each of them with a copy of its own or inlined, as LLVM finds best.

    allocates: whether it makes or returns arrays; those that do not count no references to the arrays of their callers.
    """
    return partial(_part, {"fastmath": _TOLERANT if tolerant else False, "_nrt": allocates})


def inlined(function: Kernel) -> Kernel:
    """Compile a small function into its callers; it neither makes nor returns arrays."""
    return _part({"fastmath": False, "_nrt": False, "forceinline": True}, function)


def tolerant_inlined(function: Kernel) -> Kernel:
    """Compile such a function of learned values into its callers."""
    return _part({"fastmath": _TOLERANT, "_nrt": False, "forceinline": True}, function)


def shared(function: Kernel, *, into_callers: bool = False) -> Kernel:
    """Let kernels call a loop of a definition, which stays plain Python for everybody else.

    into_callers: inlined, for loops that are short or called from one place: a call passes ten words for every array.
    """
    options = {"nogil": True, "error_model": "numpy", "boundscheck": None, "fastmath": False, "no_cfunc_wrapper": True}
    return register_jitable(pipeline_class=PartCompiler, forceinline=into_callers, **options)(function)


def _part(options: dict[str, Any], function: Kernel) -> Kernel:
    made: Any = _compiled(function, Part, {"no_cpython_wrapper": True, **options}, pipeline_class=PartCompiler)
    made.as_kernel = lambda: _kernel(_renamed(function, "alone"), options["fastmath"])
    return made  # type: ignore[no-any-return]


def _renamed(function: Any, suffix: str) -> Kernel:
    """The function under a name of its own, so that its machine code has files of its own."""
    other: Any = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    other.__module__ = function.__module__
    other.__qualname__ = f"{function.__qualname__}_{suffix}"
    return other  # type: ignore[no-any-return]
