"""Which backend runs on which device, and where trees are made; nothing else in the library looks at devices."""

from typing import NamedTuple

import torch


class Backend(NamedTuple):
    """One way to run kernels."""

    file: str  # the module that holds it in the folder of every idea, see `pixtree.kernels`
    devices: tuple[str, ...]  # types of the devices whose tensors it takes; () is every device


DEFINED = "torch"  # the backend of the definitions, which has every function
IMPLEMENTED = {DEFINED: Backend("definition", ()), "numba": Backend("compiled", ("cpu",))}
AUTOMATIC = {"cpu": "numba"}  # the backend that "auto" chooses on a type of device; `DEFINED` on all others


def backends() -> tuple[str, ...]:
    """The names that a `backend=` takes."""
    return "auto", *IMPLEMENTED


def checked_backend(name: str) -> str:
    """The name, if a backend has it."""
    if name not in backends():
        raise ValueError(f"a backend is one of {', '.join(backends())}, got {name!r}; choose one of these")
    return name


def backend_for(name: str = "auto", device: torch.device | None = None) -> Backend:
    """The backend of that name for tensors on `device` (the CPU if None): "auto" is compiled on the CPU and torch elsewhere."""
    kind = "cpu" if device is None else device.type
    chosen = IMPLEMENTED[AUTOMATIC.get(kind, DEFINED) if checked_backend(name) == "auto" else name]
    if chosen.devices and kind not in chosen.devices:
        wanted = " or ".join(one.upper() for one in chosen.devices)
        remedy = f'call .{chosen.devices[0]}() first or use backend="torch"'
        raise ValueError(f"the {name} backend works on {wanted} tensors, got one on {device or kind}; {remedy}")
    return chosen


def trees_on_host(backend: str, device: torch.device) -> bool:
    """Whether trees over tensors of `device` are made on the host: "auto" does that for every device that has only definitions."""
    return backend_for(backend, device) == IMPLEMENTED[DEFINED] and backend == "auto"


def is_host(device: torch.device) -> bool:
    """Whether tensors on `device` lie in the memory that compiled code reads."""
    return device.type == "cpu"


def pins_memory(device: torch.device) -> bool:
    """Whether copies between the host and `device` are faster from pinned memory, and can then run on their own."""
    return device.type == "cuda"


def wait_for(device: torch.device) -> None:
    """Wait until all work on `device` is done; that of the host is done when its functions return."""
    if not is_host(device):
        torch.accelerator.synchronize(device)
