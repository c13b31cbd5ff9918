"""Functions on arrays that know nothing of learning: one name, one definition, and where speed needs it one compiled twin.

`reference` holds the definitions in plain torch, for any device; `compiled` the numba twins, under the same file and function
names; `operators` what torch sees of them. `kernels_for(backend, device)` is the one place that chooses. What is sequential by
nature is written once, in `sequential`: the reference interprets it, numba compiles it.
"""

from pixtree.kernels.definitions import Kernels
from pixtree.kernels.dispatch import kernels_for

__all__ = ["Kernels", "kernels_for"]
