"""Pixels in numba: one pass over an image.

Not by torch, whose threads go on spinning for milliseconds after each of its steps, on the cores that the tree is about to need.
"""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.reference import pixels as reference
from pixtree.kernels.reference.colour import BYTE_TOLERANCE
from pixtree.runtime.jit import kernel
from pixtree.runtime.threads import each

_f4 = np.float32
_FULL, _TOLERANCE = _f4(255.0), _f4(BYTE_TOLERANCE)


def whole_bytes(images: Tensor) -> Tensor:
    """Floats 0..1 in which those that mean a byte are that byte; see the definition."""
    found: Tensor = operators.whole_bytes(images) if _is_batch(images) else reference.whole_bytes(images)
    return found


def denormalised(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """std · x + mean of images (B, C, H, W); see the definition."""
    found: Tensor = operators.denormalised(images, mean, std) if _is_batch(images) else reference.denormalised(images, mean, std)
    return found


def _is_batch(images: Tensor) -> bool:
    return images.dtype == torch.float32 and images.ndim == 4


def whole_bytes_of_batch(images: Tensor) -> Tensor:
    """What the operator `whole_bytes` computes."""
    found = torch.empty(images.shape)
    values, target = images.detach().contiguous().flatten(1).numpy(), found.flatten(1).numpy()
    each(lambda image: fill_whole_bytes(values[image], target[image]), range(len(values)))
    return found


def denormalised_batch(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """What the operator `denormalised` computes."""
    found = torch.empty(images.shape)
    values, target = images.detach().contiguous().flatten(2).numpy(), found.flatten(2).numpy()
    shift, scale = (one.detach().to(torch.float32).numpy() for one in (mean, std))
    each(lambda image: fill_denormalised(values[image], shift, scale, target[image]), range(len(values)))
    return found


@kernel
def fill_whole_bytes(values, target):
    """target (N,) = values (N,), or their bytes over 255 where they mean one."""
    for i in range(values.size):
        scaled = values[i] * _FULL
        nearest = np.rint(scaled)
        target[i] = (nearest if abs(scaled - nearest) < _TOLERANCE else scaled) / _FULL


@kernel
def fill_denormalised(values, shift, scale, target):
    """target (C, N) = scale · values + shift, with one scale and shift per channel."""
    for c in range(values.shape[0]):
        source, row, factor, term = values[c], target[c], scale[c], shift[c]
        for i in range(source.size):
            row[i] = source[i] * factor + term
