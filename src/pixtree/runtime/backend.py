"""Which implementation runs on which device, and where trees are made; nothing else in the library looks at devices."""

import torch

BACKENDS = ("auto", "torch", "numba")


def runs_compiled(backend: str = "auto", device: torch.device | None = None) -> bool:
    """Whether a backend runs compiled on tensors of `device` (the CPU if None): "auto" does on the CPU, "torch" never does."""
    if backend not in BACKENDS:
        raise ValueError(f"a backend is one of {', '.join(BACKENDS)}, got {backend!r}; choose one of these")
    on_cpu = device is None or is_host(device)
    if backend == "numba" and not on_cpu:
        raise ValueError(f'the numba backend works on CPU tensors, got one on {device}; call .cpu() first or use backend="torch"')
    return on_cpu and backend != "torch"


def trees_on_host(backend: str, device: torch.device) -> bool:
    """Whether trees over tensors of `device` are made on the host: "auto" does that for every device but the CPU."""
    return not runs_compiled(backend, device) and backend == "auto"


def is_host(device: torch.device) -> bool:
    """Whether tensors on `device` lie in the memory that compiled code reads."""
    return device.type == "cpu"


def pins_memory(device: torch.device) -> bool:
    """Whether copies between the host and `device` are faster from memory that stays in place, and can then run by themselves."""
    return device.type == "cuda"


def wait_for(device: torch.device) -> None:
    """Wait until all work on `device` is done; that of the host is done when its functions return."""
    if not is_host(device):
        torch.accelerator.synchronize(device)
