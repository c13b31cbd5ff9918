"""Dispatch: the one place that chooses between the definitions and their compiled twins."""

import torch

from pixtree.kernels.definitions import Kernels
from pixtree.runtime.backend import runs_compiled

DEFINITIONS = Kernels()


def kernels_for(backend: str = "auto", device: torch.device | None = None) -> Kernels:
    """The kernels of a backend for tensors on `device` (the CPU if None): "auto" is compiled on the CPU and torch elsewhere."""
    if not runs_compiled(backend, device):
        return DEFINITIONS
    from pixtree.kernels.twins import COMPILED  # numba, which only those wait for who compute with it

    return COMPILED
