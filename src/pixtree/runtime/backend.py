"""Which implementation of the kernels runs: nothing moves between devices, and nothing falls back, without being asked."""

import importlib
from types import ModuleType

import torch

BACKENDS = ("auto", "torch", "numba")
_MODULES = {"torch": "pixtree.kernels.reference", "numba": "pixtree.kernels.compiled"}


def backend(name: str = "auto", device: torch.device | None = None) -> ModuleType:
    """The kernels called `name` for tensors on `device`; "auto" is numba on the CPU and torch elsewhere."""
    if name not in BACKENDS:
        raise ValueError(f"a backend is one of {', '.join(BACKENDS)}, got {name!r}; choose one of these")
    on_cpu = device is None or device.type == "cpu"
    if name == "numba" and not on_cpu:
        raise ValueError(f'the numba backend works on CPU tensors, got one on {device}; call .cpu() first or use backend="torch"')
    chosen = ("numba" if on_cpu else "torch") if name == "auto" else name
    return importlib.import_module(_MODULES[chosen])
