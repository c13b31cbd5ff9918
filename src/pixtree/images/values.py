"""Numbers of pixels: which types and ranges are images as they are, and what to do about all others."""

import logging

import torch
from torch import Tensor

logger = logging.getLogger(__name__)

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DIM = 65535 // 8  # a 16-bit image whose values stay below this uses little of its range


def type_name(values: Tensor) -> str:
    """The name of a tensor's type, such as uint8."""
    return str(values.dtype).removeprefix("torch.")


def in_range(image: Tensor) -> Tensor:
    """Pixels (..., C, H, W) of any accepted type as uint8 or as float32 in 0..1."""
    check_type(image)
    if image.dtype == torch.uint8:
        return image.contiguous()
    if image.dtype == torch.bool:
        return image.to(torch.uint8).mul_(255).contiguous()
    if image.dtype == torch.uint16:
        values = image.to(torch.float32)
        _mention_dimness(values)
        return values.div_(65535).contiguous()
    if image.dtype not in FLOATS:
        ends = [int(end) for end in torch.aminmax(image.to(torch.int64))]
        raise ValueError(
            f"pixels must be uint8, uint16, bool or float in 0..1, got {type_name(image)} from {ends[0]} to {ends[1]}; "
            f"pass {_window(*ends)}"
        )
    values = image.to(torch.float32).contiguous()
    low, high = torch.aminmax(values)  # NaN spreads to both, so one pass sees every fault
    if not bool((low >= 0) & (high <= 1)):
        check_finite(image)
        raise ValueError(_range_fault(float(image.min()), float(image.max())))
    return values


def check_type(image: Tensor) -> None:
    """Refuse what are no real numbers."""
    if image.is_complex() or image.is_quantized:
        raise ValueError(f"pixels must be whole or real numbers, got {type_name(image)}; cast the image to float32")


def check_finite(image: Tensor) -> None:
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
    """The error message for float pixels that do not all lie in 0..1."""
    if low >= -0.5 and high <= 1.5:  # resampling overshoots by about so much
        remedy = "clip it, or pass window=(0, 1), which does"
    elif -5 <= low < 0 and high <= 5:
        remedy = f"undo its normalisation (image * std + mean), or pass {_window(low, high)}"
    elif low >= 0 and 2 < high <= 255:
        remedy = f"divide by 255 if these are bytes, or pass {_window(low, high)}"
    else:
        remedy = f"pass {_window(low, high)}"
    return f"a float image must lie in 0..1, got {low:.6g} to {high:.6g}; {remedy}"


def _window(low: float, high: float) -> str:
    """Advice that shows all of a range, or its robust percentiles."""
    return f'window="auto", or the values that are black and white, such as window=({low:.7g}, {high:.7g})'


def _mention_dimness(values: Tensor) -> None:
    """Say where 16-bit values are so small that they stay nearly black, as those of a 12-bit camera do."""
    most = int(values.max()) if values.numel() and not values.is_meta else 65535
    if 0 < most <= DIM:
        logger.warning(
            'uint16 values up to %d use %.1f %% of their range and are nearly black; window="auto" stretches them',
            most,
            100 * most / 65535,
        )
