"""Launches of Triton kernels: exact arithmetic, one warp per program, and no value that the host reads."""

from typing import Any

import torch
from torch import Tensor

from pixtree.runtime.backend import active

BLOCK = 128  # lanes of a program
WARP = 32  # lanes of a program whose lanes read what they wrote before: one lane is then one thread
SCAN = 1024  # lanes of a program that goes through a whole image
LARGEST_CHUNK = 2**24  # pixels of the images that grow at the same time, about 4 GB
MOST_CHANNELS = 16  # whose loops unroll
LARGEST_IMAGE = 2**26  # pixels: lanes are int32, and a table has four slots per region
RUN = 32  # steps that a lane follows a chain of pointers in one launch, and sorted runs that are merged in one

EXACT: dict[str, Any] = {"num_warps": 1, "enable_fp_fusion": False}


def launch(kernel: Any, lanes: int, *arguments: Any, block: int | None = None, groups: int = 1, **constants: Any) -> None:
    """Run a kernel over `lanes` lanes, in `groups` copies that know their number; `block` lanes are a program."""
    size = BLOCK if block is None else block
    if lanes:
        device = next(one.device for one in arguments if isinstance(one, Tensor))
        with active(device):
            kernel[(-(-lanes // size), groups)](*arguments, BLOCK=size, **constants, **EXACT)


def filled(count: int, value: float, dtype: torch.dtype, like: Tensor) -> Tensor:
    """A vector of one value on the device of `like`."""
    return torch.full((count,), value, dtype=dtype, device=like.device)


def unset(count: int, dtype: torch.dtype, like: Tensor) -> Tensor:
    """A vector that is written before it is read, on the device of `like`."""
    return torch.empty((count,), dtype=dtype, device=like.device)


def beyond(channels: int, pixels: int) -> str | None:
    """Why trees over features of that size are not made by these kernels, None if they are."""
    if channels > MOST_CHANNELS:
        return f"its kernels take at most {MOST_CHANNELS} channels, got {channels}"
    return f"its kernels take at most {LARGEST_IMAGE} pixels, got {pixels}" if pixels > LARGEST_IMAGE else None


def chunks(images: int, pixels: int) -> list[slice]:
    """Slices of a batch whose trees fit into memory at the same time."""
    size = max(LARGEST_CHUNK // max(pixels, 1), 1)
    return [slice(first, min(first + size, images)) for first in range(0, images, size)]
