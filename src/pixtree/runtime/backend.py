"""Which backend runs on which device, and where trees are made; nothing else in the library looks at devices."""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch


class Backend(NamedTuple):
    """One way to run kernels."""

    file: str  # the module that holds it in the folder of every idea, see `pixtree.kernels`
    devices: tuple[str, ...]  # types of the devices whose tensors it takes; () is every device


DEFINED = "torch"  # the backend in plain torch: the definitions, and whole batches at once where these would read every image
IMPLEMENTED = {
    DEFINED: Backend("batched", ()),
    "numba": Backend("compiled", ("cpu",)),
    "triton": Backend("triton", ("cuda",)),
}
AUTOMATIC = {"cpu": "numba"}  # the backend that "auto" chooses on a type of device; `DEFINED` on all others
CUTTING = {"cuda": "triton"}  # the backend to which "auto" leaves exact cuts, if the device has proved itself, see `kernels.proof`


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
    if not _takes(chosen, kind):
        wanted = " or ".join(one.upper() for one in chosen.devices)
        remedy = f'call .{chosen.devices[0]}() first or use backend="torch"'
        raise ValueError(f"the {name} backend works on {wanted} tensors, got one on {device or kind}; {remedy}")
    return chosen


def backends_of(device: torch.device) -> list[str]:
    """The names of the backends that take tensors on `device`."""
    return [name for name, one in IMPLEMENTED.items() if _takes(one, device.type)]


def _takes(backend: Backend, kind: str) -> bool:
    """Whether a backend takes tensors on that type of device."""
    return not backend.devices or kind in backend.devices or (backend.file == "triton" and is_interpreted())


def is_interpreted() -> bool:
    """Whether kernels of Triton run on the CPU, in its interpreter: slowly, to test them without a GPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def trees_on_host(backend: str, device: torch.device) -> bool:
    """Whether trees over tensors of `device` are made on the host: "auto" does that for every device that has only definitions."""
    return backend_for(backend, device) == IMPLEMENTED[DEFINED] and backend == "auto"


def of_cuts(device: torch.device) -> str | None:
    """The backend that can make exact cuts on `device` itself, if it is another than the host's."""
    return CUTTING.get(device.type)


def identity(device: torch.device) -> tuple[str, ...]:
    """What tells a device, and the driver it runs under, from others."""
    if device.type != "cuda":
        return (device.type,)
    driver = torch._C._cuda_getDriverVersion()  # type: ignore[attr-defined]
    return torch.cuda.get_device_name(device), str(torch.cuda.get_device_capability(device)), str(driver)


def is_host(device: torch.device) -> bool:
    """Whether tensors on `device` lie in the memory that compiled code reads."""
    return device.type == "cpu"


def active(device: torch.device) -> AbstractContextManager[None]:
    """The device as the one on which kernels of Triton are launched."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def pins_memory(device: torch.device) -> bool:
    """Whether copies between the host and `device` are faster from pinned memory, and can then run on their own."""
    return device.type == "cuda"


def has_graphs(device: torch.device) -> bool:
    """Whether work on `device` can be captured in a CUDA graph, and torch counts its memory."""
    return device.type == "cuda"


def wait_for(device: torch.device) -> None:
    """Wait until all work on `device` is done; that of the host is done when its functions return."""
    if not is_host(device):
        torch.accelerator.synchronize(device)
