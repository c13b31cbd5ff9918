"""Colours of pixels in numba: the definition's arithmetic in blocks that stay in the cache and loops that vectorise.

Not in torch, whose threads spin for milliseconds after each operator, on the cores that the tree is about to need.
"""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.arithmetic.compiled import cube_root
from pixtree.kernels.image.colour import definition
from pixtree.runtime.jit import inlined, kernel
from pixtree.runtime.threads import each

_f4 = np.float32
_MATRIX = np.array(definition.RGB_TO_XYZ, np.float32)
_BELOW, _SLOPE, _OFFSET = _f4(definition.LINEAR_BELOW), _f4(definition.LINEAR_SLOPE), _f4(definition.LINEAR_OFFSET)
_TABLE = definition.linear_light_table().numpy()
_STEPS, _FULL, _TOLERANCE, _ZERO = _f4(definition.STEPS), _f4(255.0), _f4(definition.BYTE_TOLERANCE), _f4(0.0)
_LAST = _f4(255 * definition.STEPS - 1)
_BLOCK = 1024


@inlined
def response(t):
    """CIE f(t): the cube root, with a line near black."""
    root, line = cube_root(t if t > _BELOW else _BELOW), t * _SLOPE + _OFFSET
    return root if t > _BELOW else line


@inlined
def light_of_float(value, table):
    """Linear light of a float 0..1."""
    scaled = value * _FULL
    nearest = np.rint(scaled)
    if abs(scaled - nearest) < _TOLERANCE:
        scaled = nearest
    if scaled < _ZERO:  # both comparisons let NaN pass
        scaled = _ZERO
    if scaled > _FULL:
        scaled = _FULL
    scaled *= _STEPS
    low = min(np.floor(scaled), _LAST)
    index = np.uint64(low) if low >= _ZERO else np.uint64(0)
    return table[index] + (scaled - low) * (table[index + np.uint64(1)] - table[index])


@inlined
def lab_of_light(light, responses, matrix, size, lightness, a, b):
    """L, a, b (size,) from linear red, green and blue."""
    for c in range(3):
        red, green, blue = matrix[c, 0], matrix[c, 1], matrix[c, 2]
        for i in range(size):
            responses[c, i] = response(light[0, i] * red + light[1, i] * green + light[2, i] * blue)
    for i in range(size):
        lightness[i] = responses[1, i] * _f4(116.0) - _f4(16.0)
    for i in range(size):
        a[i] = (responses[0, i] - responses[1, i]) * _f4(500.0)
    for i in range(size):
        b[i] = (responses[1, i] - responses[2, i]) * _f4(200.0)


@kernel
def fill_lab(floats, image, table, matrix, planes):
    """Fill planes (3, N) with L, a, b of an image (3, N): bytes, or floats where the tuple `floats` is not empty."""
    light, responses = np.empty((3, _BLOCK), np.float32), np.empty((3, _BLOCK), np.float32)
    for start in range(0, image.shape[1], _BLOCK):
        stop = min(start + _BLOCK, image.shape[1])
        for c in range(3):
            values = image[c, start:stop]  # slices, since an index with an offset does not vectorise
            for i in range(values.size):
                if len(floats) > 0:
                    light[c, i] = light_of_float(_f4(values[i]), table)
                else:
                    light[c, i] = table[np.uint64(values[i]) * np.uint64(_STEPS)]
        lab_of_light(light, responses, matrix, stop - start, planes[0, start:stop], planes[1, start:stop], planes[2, start:stop])


def lab(image: Tensor) -> Tensor:
    """L, a, b of an sRGB image (3, H, W), uint8 or float 0..1, as planes (3, H·W) float32."""
    values = image.detach().contiguous().flatten(1)
    floats = () if image.dtype == torch.uint8 else (0,)
    planes = np.empty((3, values.shape[1]), np.float32)
    fill_lab(floats, (values.to(torch.float32) if floats else values).numpy(), _TABLE, _MATRIX, planes)
    return torch.from_numpy(planes)


def whole_bytes(images: Tensor) -> Tensor:
    """Floats 0..1 in which those that mean a byte are that byte; see the definition."""
    found: Tensor = operators.whole_bytes(images) if _is_batch(images) else definition.whole_bytes(images)
    return found


def denormalised(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """std · x + mean of images (B, C, H, W); see the definition."""
    found: Tensor = operators.denormalised(images, mean, std) if _is_batch(images) else definition.denormalised(images, mean, std)
    return found


def _is_batch(images: Tensor) -> bool:
    return images.dtype == torch.float32 and images.ndim == 4


def whole_bytes_of_batch(images: Tensor) -> Tensor:
    """Implementation of the operator `whole_bytes`."""
    found = torch.empty(images.shape)
    values, target = images.detach().contiguous().flatten(1).numpy(), found.flatten(1).numpy()
    each(lambda image: fill_whole_bytes(values[image], target[image]), range(len(values)))
    return found


def denormalised_batch(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Implementation of the operator `denormalised`."""
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
