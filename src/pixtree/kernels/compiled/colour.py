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
    root = cube_root(max(t, _BELOW))
    return root if t > _BELOW else t * _SLOPE + _OFFSET


@kernel
def lab_of_bytes(image, table, matrix, planes):
    """Fill planes (3, N) with L, a, b of bytes (3, N), in blocks that stay in the cache."""
    count, block = image.shape[1], 1024
    red, green, blue = np.empty(block, np.float32), np.empty(block, np.float32), np.empty(block, np.float32)
    for start in range(0, count, block):
        size = min(block, count - start)
        for i in range(size):
            red[i], green[i], blue[i] = table[image[0, start + i]], table[image[1, start + i]], table[image[2, start + i]]
        for i in range(size):
            x = response(red[i] * matrix[0, 0] + green[i] * matrix[0, 1] + blue[i] * matrix[0, 2])
            y = response(red[i] * matrix[1, 0] + green[i] * matrix[1, 1] + blue[i] * matrix[1, 2])
            z = response(red[i] * matrix[2, 0] + green[i] * matrix[2, 1] + blue[i] * matrix[2, 2])
            planes[0, start + i] = y * _f4(116.0) - _f4(16.0)
            planes[1, start + i] = (x - y) * _f4(500.0)
            planes[2, start + i] = (y - z) * _f4(200.0)


def lab(image: Tensor) -> Tensor:
    """L, a, b of an sRGB image (3, H, W), uint8 or float 0..1, as planes (3, H·W) float32."""
    if image.dtype != torch.uint8:
        return reference.lab(image)
    planes = np.empty((3, image[0].numel()), np.float32)
    lab_of_bytes(image.contiguous().flatten(1).numpy(), _TABLE, _MATRIX, planes)
    return torch.from_numpy(planes)


lightness = reference.lightness
