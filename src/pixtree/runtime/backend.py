"""Which implementation runs on which device: nothing moves between devices, and nothing falls back, without being asked."""

import torch

BACKENDS = ("auto", "torch", "numba")


def runs_compiled(backend: str = "auto", device: torch.device | None = None) -> bool:
    """Whether a backend runs compiled on tensors of `device` (the CPU if None): "auto" does on the CPU, "torch" never does."""
    if backend not in BACKENDS:
        raise ValueError(f"a backend is one of {', '.join(BACKENDS)}, got {backend!r}; choose one of these")
    on_cpu = device is None or device.type == "cpu"
    if backend == "numba" and not on_cpu:
        raise ValueError(f'the numba backend works on CPU tensors, got one on {device}; call .cpu() first or use backend="torch"')
    return on_cpu and backend != "torch"
