"""Functions on arrays that know nothing of learning: one name, one definition, and where speed needs it one compiled twin.

`reference` holds the definitions in plain torch, for any device. `compiled` holds the numba twins, under the same file and function
names. `operators` registers them with torch. `kernels_for(backend, device)` is the one place that chooses between them. Sequential
algorithms are written once, in `sequential`: the reference interprets them, and numba compiles them.
"""

from pixtree.kernels.definitions import Kernels
from pixtree.kernels.dispatch import kernels_for

__all__ = ["Kernels", "kernels_for"]
