"""Lighter compilation of functions that only kernels call: they become machine code within their callers, and nowhere else.

Numba treats every function as one that Python may call: it gets a wrapper, is optimised alone and once more within each caller, and
becomes machine code of its own. With many small functions that is a large part of the time. A *part* stays in LLVM's language.
"""

from collections.abc import Callable
from typing import Any, cast

import llvmlite.binding as llvm
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult
from numba.core.errors import NumbaTypeError
from numba.core.registry import CPUDispatcher

ENVIRONMENT = "_ZN08NumbaEnv"  # begins the names of the variables through which numba knows a function that is loaded


class PartLibrary(JITCodeLibrary):
    """The code of a part, for its callers to link."""

    def _optimize_final_module(self) -> None:
        """Nothing: it is optimised within its callers."""

    def _finalize_final_module(self) -> None:
        self._finalized = True  # what is linked is complete
        self._get_module_for_linking()  # type: ignore[no-untyped-call]
        variables = [one.name for one in self._final_module.global_variables if one.name.startswith(ENVIRONMENT)]
        # Machine code of next to nothing, since numba expects some.
        self._final_module = llvm.parse_assembly("\n".join(f"@{name} = common global i8* null" for name in variables))
        self._final_module.name = self.name
        super()._finalize_final_module()  # type: ignore[no-untyped-call]


class PartCompiler(Compiler):
    """Numba's passes, with such a library."""

    def compile_extra(self, function: Callable[..., Any]) -> CompileResult:
        """Compile a function."""
        library: Any = PartLibrary
        self.state.library = library(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        result: Any = super().compile_extra(function)  # type: ignore[no-untyped-call]
        if not self.state.flags.nrt and _has_array(result.signature.return_type):
            name = function.__qualname__
            raise NumbaTypeError(f"expected a part that returns no array, got {name}, which does; give it allocates=True")
        return cast(CompileResult, result)


def _has_array(kind: Any) -> bool:
    """Whether values of a type are arrays or have any."""
    return isinstance(kind, types.Array) or (isinstance(kind, types.BaseTuple) and any(_has_array(one) for one in cast(Any, kind)))


class Part(CPUDispatcher):
    """A function for kernels. Where Python calls it all the same, as tests do, it is compiled once more, as a kernel."""

    as_kernel: Callable[[], Callable[..., Any]]
    _kernel: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call the kernel: there is no machine code here."""
        if self._kernel is None:
            self._kernel = self.as_kernel()
        return self._kernel(*arguments, **named)
