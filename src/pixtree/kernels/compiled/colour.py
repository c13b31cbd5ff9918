"""sRGB bytes to CIE Lab in numba; float images take the reference's path, which is the same arithmetic."""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.compiled.arithmetic import cube_root
from pixtree.kernels.compiled.jit import inlined, kernel
from pixtree.kernels.reference import colour as reference

_f4 = np.float32
_MATRIX = np.array(reference.RGB_TO_XYZ, np.float32)
_BELOW, _SLOPE, _OFFSET = _f4(reference.LINEAR_BELOW), _f4(reference.LINEAR_SLOPE), _f4(reference.LINEAR_OFFSET)
_TABLE = reference.linear_light_table().numpy()


@inlined
def response(t):
    """CIE f(t): the cube root, with a line near black."""
    root, line = cube_root(t if t > _BELOW else _BELOW), t * _SLOPE + _OFFSET
    return root if t > _BELOW else line


@kernel
def lab_of_bytes(image, table, matrix, planes):
    """Fill planes (3, N) with L, a, b of bytes (3, N), in blocks that stay in the cache and loops that vectorise."""
    count, block = image.shape[1], 1024
    light, responses = np.empty((3, block), np.float32), np.empty((3, block), np.float32)
    for start in range(0, count, block):
        size = min(block, count - start)
        for c in range(3):
            bytes_of = image[c, start : start + size]  # a slice, since an index with an offset does not vectorise
            for i in range(size):
                light[c, i] = table[np.uint64(bytes_of[i])]
        for c in range(3):
            red, green, blue = matrix[c, 0], matrix[c, 1], matrix[c, 2]
            for i in range(size):
                responses[c, i] = response(light[0, i] * red + light[1, i] * green + light[2, i] * blue)
        lightness, a, b = planes[0, start : start + size], planes[1, start : start + size], planes[2, start : start + size]
        for i in range(size):
            lightness[i] = responses[1, i] * _f4(116.0) - _f4(16.0)
        for i in range(size):
            a[i] = (responses[0, i] - responses[1, i]) * _f4(500.0)
        for i in range(size):
            b[i] = (responses[1, i] - responses[2, i]) * _f4(200.0)


def lab(image: Tensor) -> Tensor:
    """L, a, b of an sRGB image (3, H, W), uint8 or float 0..1, as planes (3, H·W) float32."""
    if image.dtype != torch.uint8:
        return reference.lab(image)
    planes = np.empty((3, image[0].numel()), np.float32)
    lab_of_bytes(image.contiguous().flatten(1).numpy(), _TABLE, _MATRIX, planes)
    return torch.from_numpy(planes)


lightness = reference.lightness
