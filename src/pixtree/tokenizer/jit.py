"""How kernels of learned values are compiled: unlike those of trees, nothing compares them bit for bit."""

from pixtree.kernels.compiled.jit import Kernel, _compiled

# Sums in any order, products fused into them: both vectorise. Infinities and NaN stay what they are.
_ARITHMETIC = {"contract", "reassoc", "nsz"}


def tolerant(function: Kernel) -> Kernel:
    """Compile a function whose last digits may differ between machines; its machine code is kept on disk."""
    return _compiled(function, fastmath=_ARITHMETIC)


def tolerant_inlined(function: Kernel) -> Kernel:
    """Compile such a function into its callers."""
    return _compiled(function, fastmath=_ARITHMETIC, forceinline=True)
