"""Who computes: the one place where a backend is chosen."""

from functools import cache

import torch

from pixtree.kernels.definitions import Kernels
from pixtree.runtime.backend import runs_compiled

_DEFINITIONS = Kernels()


@cache
def _compiled() -> Kernels:
    from pixtree.kernels.twins import CompiledKernels

    return CompiledKernels()


def kernels_for(backend: str = "auto", device: torch.device | None = None) -> Kernels:
    """The kernels of a backend for tensors on `device` (the CPU if None): "auto" is compiled on the CPU and torch elsewhere."""
    return _compiled() if runs_compiled(backend, device) else _DEFINITIONS
