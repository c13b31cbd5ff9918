"""Connected pieces of label maps in numba."""

import numpy as np
import torch
from torch import Tensor

from pixtree.runtime.jit import inlined, kernel


@inlined
def find(root, i):
    """The root of pixel i, halving the path on the way."""
    while root[i] != i:
        root[i] = root[root[i]]
        i = root[i]
    return i


@kernel
def number_pieces(labels, root, numbers):
    """4-connected pieces of equal labels ≥ 0, numbered by first pixel: union–find in raster order, smaller pixels on top.

    numbers: of every pixel's piece, flat; root is scratch.
    """
    height, width = labels.shape
    for y in range(height):
        for x in range(width):
            i = y * width + x
            top = root[i - 1] if x > 0 and labels[y, x - 1] == labels[y, x] else i
            root[i] = top
            if y > 0 and labels[y, x] >= 0 and labels[y - 1, x] == labels[y, x] and root[i - width] != top:
                a, b = find(root, i - width), find(root, top)
                root[max(a, b)] = root[i] = min(a, b)
    count = 0
    for y in range(height):
        for x in range(width):
            i = y * width + x
            if labels[y, x] < 0:
                numbers[i] = -1
            elif root[i] == i:
                numbers[i] = count
                count += 1
            else:  # pixels before this one point to their roots, which have their numbers
                root[i] = root[root[i]]
                numbers[i] = numbers[root[i]]


def connected_pieces(labels: Tensor) -> Tensor:
    """4-connected pieces of equal labels (H, W) int32, numbered from 0 by first pixel in raster order; −1 where labels are."""
    maps = labels.to(torch.int64).contiguous().numpy()
    pieces = np.empty(maps.shape, np.int32)
    number_pieces(maps, np.empty(maps.size, np.int64), pieces.reshape(-1))
    return torch.from_numpy(pieces)
