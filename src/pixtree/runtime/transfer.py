"""Transfers: everything that travels between a device and the host passes `to_host` or `to_device`, many tensors in one copy."""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor

from pixtree.runtime.backend import pins_memory, trees_on_host

ALIGNMENT = 16  # bytes: every part of a buffer can be viewed as any type of number


def on_host(work: Callable[..., Sequence[Tensor]], tensors: Sequence[Tensor], backend: str = "auto") -> Sequence[Tensor]:
    """work(*tensors); on the host, by one copy out and one of the results back, if trees over these tensors are made there."""
    device = tensors[0].device
    if not trees_on_host(backend, device):
        return work(*tensors)
    return to_device(work(*to_host(tensors)), device)


def to_host(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of one device as tensors on the CPU, without gradient, by one copy.

    The copy into pinned memory runs by itself; then the host waits for it. This is the only place where it waits for the device.
    """
    sent = [one.detach().contiguous() for one in tensors]
    buffer = _packed(sent)
    host = torch.empty(buffer.shape, dtype=torch.uint8, pin_memory=pins_memory(buffer.device))
    host.copy_(buffer)
    return _unpacked(host, sent)


def read(numbers: Tensor) -> list[int]:
    """A few whole numbers of a device, for which the host waits."""
    found: list[int] = to_host([numbers])[0].tolist()
    return found


def to_device(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Tensors of the CPU as tensors on `device`, by one copy that the host does not wait for.

    There they get memory of their own: operators of torch may not return views of one buffer, and one that is kept must not keep
    the others.
    """
    sent = [one.detach().contiguous() for one in tensors]
    buffer = torch.empty(sum(map(_space, sent)), dtype=torch.uint8, pin_memory=pins_memory(device))
    for part, one in zip(_unpacked(buffer, sent), sent, strict=True):
        part.copy_(one)
    return [part.clone() for part in _unpacked(buffer.to(device, non_blocking=True), sent)]


def filled(values: Sequence[float], like: Tensor) -> Tensor:
    """A few numbers as a vector with the type and on the device of `like`, filled in there.

    torch.tensor(values, device=...) would be a copy from the host, for which the host waits.
    """
    return torch.cat([like.new_full((1,), value) for value in values])


def scalar(value: Tensor | float, like: Tensor) -> Tensor:
    """A scalar with the type and on the device of `like`; a number is filled in there."""
    return value.to(like) if isinstance(value, Tensor) else like.new_full((), value)


def _space(tensor: Tensor) -> int:
    """Bytes that a tensor takes in a buffer."""
    return -(-tensor.numel() * tensor.element_size() // ALIGNMENT) * ALIGNMENT


def _packed(tensors: Sequence[Tensor]) -> Tensor:
    """One buffer of bytes that holds all tensors, on their device."""
    buffer = tensors[0].new_empty(sum(map(_space, tensors)), dtype=torch.uint8)
    for part, one in zip(_unpacked(buffer, tensors), tensors, strict=True):
        part.copy_(one)
    return buffer


def _unpacked(buffer: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a buffer, as views with the types and shapes of the tensors that it holds."""
    parts, start = [], 0
    for one in like:
        size = prod(one.shape) * one.element_size()
        parts.append(buffer[start : start + size].view(one.dtype).view(one.shape))
        start += _space(one)
    return parts
