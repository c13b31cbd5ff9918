"""Axes of arrays and tensors: which one holds the channels, and what is no single image."""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MOST_CHANNELS = 64
MOST_UNNAMED = 4  # channels that the last axis of an array may have unless its name is given: a volume must not pass as an image


def arranged(image: Tensor) -> Tensor:
    """A tensor that is (C, H, W) or (B, C, H, W), judged by its shape."""
    shape = tuple(image.shape)
    if len(shape) == 2:
        raise ValueError(f"a tensor image must be (C, H, W) or (B, C, H, W), got (H, W) = {shape}; pass image[None]")
    if len(shape) not in (3, 4):
        raise ValueError(f"a tensor image must be (C, H, W) or (B, C, H, W), got shape {shape}; reshape it")
    if shape[-3] > MOST_CHANNELS and shape[-1] in (1, 3, 4):
        order = "2, 0, 1" if len(shape) == 3 else "0, 3, 1, 2"
        raise ValueError(f"a tensor image has its channels before H and W, got shape {shape}; pass permute({order})")
    return image


def channels_first(array: NDArray[Any], channel_axis: int | Literal["auto"] | None) -> Tensor:
    """An array (H, W), or 3-D with channels at `channel_axis`, as a tensor (C, H, W)."""
    if array.ndim == 4:
        raise ValueError(
            f"an array is one image, (H, W) or (H, W, C), got shape {array.shape}; "
            "pass a batch as a tensor (B, C, H, W): torch.from_numpy(batch).permute(0, 3, 1, 2)"
        )
    if array.ndim not in (2, 3):
        raise ValueError(f"an array image must be (H, W) or (H, W, C), got shape {array.shape}; reshape it")
    if array.ndim == 2:
        if channel_axis not in (None, -1, "auto"):
            raise ValueError(f"channel_axis={channel_axis} needs a 3-D array, got {array.shape}; pass None for grey")
        return as_tensor(array[None])  # HW -> CHW
    if channel_axis is None:
        raise ValueError(
            f"channel_axis=None means a grey (H, W) array, got shape {array.shape}; "
            "pass the axis of the channels, for example channel_axis=-1"
        )
    return as_tensor(np.moveaxis(array, _named_axis(array.shape, channel_axis), 0))  # HWC -> CHW


def _named_axis(shape: tuple[int, ...], channel_axis: int | str) -> int:
    """The axis of the channels of a 3-D array; the last one need not be named if it is short."""
    if isinstance(channel_axis, str):
        if channel_axis != "auto":
            raise ValueError(f'channel_axis is a number, None or "auto", got {channel_axis!r}; -1 is the last axis')
        if shape[-1] > MOST_UNNAMED:
            axis = 0 if shape[0] <= MOST_UNNAMED else -1
            raise ValueError(
                f"an array is one image, (H, W) or (H, W, C) with at most {MOST_UNNAMED} channels, got shape {shape}; "
                f"pass one slice of a volume, array[{shape[0] // 2}], or name the axis of the channels, channel_axis={axis}"
            )
        return -1
    if channel_axis not in range(-3, 3):
        raise ValueError(f"channel_axis must be one of -3..2 for a 3-D array, got {channel_axis}; -1 is the last axis")
    return channel_axis


def check_size(shape: tuple[int, ...]) -> None:
    """Refuse an image (..., C, H, W) without pixels, or with more channels than an image has."""
    if 0 in shape:
        raise ValueError(f"an image needs at least 1 pixel, got shape {shape}; check how it was cut")
    if shape[-3] > MOST_CHANNELS:
        raise ValueError(
            f"an image has 1 to {MOST_CHANNELS} channels, got (C, H, W) = {shape[-3:]}; "
            "name the axis of the channels (channel_axis of an array, permute of a tensor) or keep fewer"
        )


def as_tensor(array: NDArray[Any]) -> Tensor:
    """The array as a tensor, copied only if torch cannot hold it as it is."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"an array must be bool, integer or float, got {array.dtype}; cast it to uint8 or float32")
    # Torch holds native byte order, positive strides and writable memory only.
    return torch.from_numpy(np.require(np.asarray(array), array.dtype.newbyteorder("="), ["C", "W"]))
