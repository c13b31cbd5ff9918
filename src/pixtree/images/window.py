"""Windows of intensity: which values are black and which are white, for data that is neither bytes nor floats in 0..1."""

import math
from numbers import Real
from typing import Any, TypeAlias

import torch
from torch import Tensor

from pixtree.images.values import check_finite, check_type

Window: TypeAlias = tuple[float, float] | str
SHARE, WHISKER = 0.001, 0.5  # of the values, at either end, that may be wild; how far beyond the rest, of its width, is wild
MOST_SAMPLES = 1 << 22  # values that the automatic window looks at, evenly spaced


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
    """Values (..., C, H, W) of any numbers as float32: low and below 0, high and above 1, linear between; all channels alike."""
    check_type(values)
    check_finite(values)
    low, high = automatic_window(values, inside) if isinstance(window, str) else window
    wide = values.dtype in (torch.float64, torch.int32, torch.uint32, torch.int64, torch.uint64)
    numbers = values.to(torch.float64 if wide else torch.float32)
    return ((numbers - low) / max(high - low, 1e-30)).clamp_(0.0, 1.0).to(torch.float32).contiguous()


def automatic_window(values: Tensor, inside: Tensor | None = None) -> tuple[float, float]:
    """The least and the greatest of the values (..., C, H, W) inside, unless these are wild.

    Values of rank 0.1 % and 99.9 % span the bulk. An extreme that lies farther from it than half its width, such as a hot pixel or
    a mark for missing data, does not count, and the window ends with the bulk.
    """
    seen = values if inside is None else values[..., inside.to(values.device)]
    flat = seen.flatten()
    flat = flat[:: math.ceil(flat.numel() / MOST_SAMPLES)].to(torch.float64)
    below = int(SHARE * flat.numel())
    low, high = (float(flat.kthvalue(rank).values) for rank in (1 + below, flat.numel() - below))
    least, greatest = (float(end) for end in torch.aminmax(flat))
    reach = WHISKER * (high - low)
    return (least if low - least <= reach else low), (greatest if greatest - high <= reach else high)
