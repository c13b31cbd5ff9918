"""Which values numba reads as they are."""

import torch
from torch import Tensor


def in_full_precision(*values: Tensor) -> bool:
    """Whether all values are float32 or float64: numpy has no bfloat16, and half precision is left to the definitions."""
    return all(one.dtype in (torch.float32, torch.float64) for one in values)
