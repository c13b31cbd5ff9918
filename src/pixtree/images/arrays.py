"""Arrays and tensors as images: which axis holds the channels, which types and ranges are accepted, and windows for all others."""

import logging
import math
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

logger = logging.getLogger(__name__)

Window: TypeAlias = tuple[float, float] | str
MOST_CHANNELS = 64
MOST_UNNAMED = 4  # channels on the last axis of an array without channel_axis=: a volume must not pass as an image
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DIM = 65535 // 8  # a 16-bit image whose values stay below this uses little of its range
SHARE, WHISKER = 0.001, 0.5  # of the values, at either end, that may be outliers; how far beyond the rest, of its width, is one
MOST_SAMPLES = 1 << 22  # values that the automatic window looks at, evenly spaced


def arranged(image: Tensor) -> Tensor:
    """A tensor (C, H, W) or (B, C, H, W), checked by its shape."""
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
    """The axis of the channels of a 3-D array; a short last axis need not be named."""
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
    """Refuse an image (..., C, H, W) without pixels or with too many channels."""
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


def type_name(values: Tensor) -> str:
    """The name of a tensor's type, such as uint8."""
    return str(values.dtype).removeprefix("torch.")


def in_range(image: Tensor) -> Tensor:
    """Pixels (..., C, H, W) of any accepted type as uint8 or as float32 in 0..1."""
    _check_type(image)
    if image.dtype == torch.uint8:
        return image.contiguous()
    if image.dtype == torch.bool:
        return image.to(torch.uint8).mul_(255).contiguous()
    if image.dtype == torch.uint16:
        values = image.to(torch.float32)
        _warn_if_dim(values)
        return values.div_(65535).contiguous()
    if image.dtype not in FLOATS:
        ends = [int(end) for end in torch.aminmax(image.to(torch.int64))]
        raise ValueError(
            f"pixels must be uint8, uint16, bool or float in 0..1, got {type_name(image)} from {ends[0]} to {ends[1]}; "
            f"pass {_window_advice(*ends)}"
        )
    values = image.to(torch.float32).contiguous()
    low, high = torch.aminmax(values)  # NaN reaches both, so one pass finds every fault
    if not bool((low >= 0) & (high <= 1)):
        _check_finite(image)
        raise ValueError(_range_fault(float(image.min()), float(image.max())))
    return values


def _check_type(image: Tensor) -> None:
    if image.is_complex() or image.is_quantized:
        raise ValueError(f"pixels must be whole or real numbers, got {type_name(image)}; cast the image to float32")


def _check_finite(image: Tensor) -> None:
    """Refuse NaN and infinities in pixels (..., C, H, W)."""
    if not image.is_floating_point():
        return
    faulty = int((~torch.isfinite(image)).any(dim=-3).sum())
    if faulty:
        raise ValueError(
            f"pixels must be finite, got NaN or Inf in {faulty} of {image.numel() // image.shape[-3]} pixels; "
            "replace them, for example by nan_to_num(image, nan=0, posinf=1, neginf=0), or leave them out with mask="
        )


def _range_fault(low: float, high: float) -> str:
    """The error message for float pixels outside 0..1."""
    if low >= -0.5 and high <= 1.5:  # about as far as resampling overshoots
        remedy = "clip it, or pass window=(0, 1), which does"
    elif -5 <= low < 0 and high <= 5:
        remedy = f"undo its normalisation (image * std + mean), or pass {_window_advice(low, high)}"
    elif low >= 0 and 2 < high <= 255:
        remedy = f"divide by 255 if these are bytes, or pass {_window_advice(low, high)}"
    else:
        remedy = f"pass {_window_advice(low, high)}"
    return f"a float image must lie in 0..1, got {low:.6g} to {high:.6g}; {remedy}"


def _window_advice(low: float, high: float) -> str:
    return f'window="auto", or the values that are black and white, such as window=({low:.7g}, {high:.7g})'


def _warn_if_dim(values: Tensor) -> None:
    """Warn about 16-bit values so small that they stay nearly black, as those of a 12-bit camera do."""
    most = int(values.max()) if values.numel() and not values.is_meta else 65535
    if 0 < most <= DIM:
        logger.warning(
            'uint16 values up to %d use %.1f %% of their range and are nearly black; window="auto" stretches them',
            most,
            100 * most / 65535,
        )


def checked_window(window: Any) -> Window:
    """A window that is "auto" or two finite numbers, the lower one first."""
    if isinstance(window, str):
        if window == "auto":
            return window
    elif isinstance(window, tuple | list) and len(window) == 2 and all(isinstance(end, Real) for end in window):
        low, high = (float(end) for end in window)
        if math.isfinite(low) and math.isfinite(high) and low < high:
            return low, high
    raise ValueError(f'a window is "auto" or (low, high) with low < high, got {window!r}; try window="auto"')


def windowed(values: Tensor, window: Window, inside: Tensor | None = None) -> Tensor:
    """Values (..., C, H, W) of any type as float32: 0 up to low, 1 from high on, linear between; the same for all channels."""
    _check_type(values)
    _check_finite(values)
    low, high = automatic_window(values, inside) if isinstance(window, str) else window
    wide = values.dtype in (torch.float64, torch.int32, torch.uint32, torch.int64, torch.uint64)
    numbers = values.to(torch.float64 if wide else torch.float32)
    return ((numbers - low) / max(high - low, 1e-30)).clamp_(0.0, 1.0).to(torch.float32).contiguous()


def automatic_window(values: Tensor, inside: Tensor | None = None) -> tuple[float, float]:
    """The smallest and the largest of the values (..., C, H, W) inside, without outliers.

    The 0.1 % and 99.9 % percentiles span the bulk of the values. An extreme farther from it than half its width, such as a hot
    pixel or a mark for missing data, is ignored, and the window ends with the bulk.
    """
    seen = values if inside is None else values[..., inside.to(values.device)]
    flat = seen.flatten()
    flat = flat[:: math.ceil(flat.numel() / MOST_SAMPLES)].to(torch.float64)
    below = int(SHARE * flat.numel())
    low, high = (float(flat.kthvalue(rank).values) for rank in (1 + below, flat.numel() - below))
    least, greatest = (float(end) for end in torch.aminmax(flat))
    reach = WHISKER * (high - low)
    return (least if low - least <= reach else low), (greatest if greatest - high <= reach else high)
