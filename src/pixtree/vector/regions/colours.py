"""Colours of regions: their sums and means, and which regions have one colour only."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import kernel

Array = NDArray[Any]


def mean_colours(labels: Array, planes: Array, count: int) -> NDArray[np.float64]:
    """Mean (N, C) of planes (C, H, W) over every region of a label map (H, W), −1 outside; 0 for a region without pixels."""
    total, size = colour_sums(labels, planes, count)
    return np.asarray(total / np.maximum(size, 1.0)[:, None])


def modal_colours(labels: Array, planes: Array, count: int) -> NDArray[np.float64]:
    """The most frequent colour (N, C) of planes (C, H, W) in every region of a label map (H, W), −1 outside."""
    key = np.zeros(labels.shape, np.int64)
    for plane in planes:
        key = key * 256 + np.clip(np.rint(plane), 0, 255).astype(np.int64)
    keys, number = np.unique(key, return_inverse=True)
    pairs, times = np.unique(
        labels[labels >= 0].astype(np.int64) * len(keys) + number.reshape(labels.shape)[labels >= 0], return_counts=True
    )
    order = np.lexsort((pairs, times))  # the last entry of a region is its most frequent colour
    best = np.zeros(count, np.int64)
    best[pairs[order] // len(keys)] = keys[pairs[order] % len(keys)]
    return np.stack([best >> 8 * shift & 255 for shift in range(len(planes) - 1, -1, -1)], axis=1).astype(np.float64)


@kernel
def colour_sums(labels: Array, planes: Array, count: int) -> tuple[Array, Array]:
    """Sums (N, C) of the colours and numbers (N,) of the cells of regions, float64."""
    total, size = np.zeros((count, planes.shape[0])), np.zeros(count)
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            if labels[y, x] >= 0:
                size[labels[y, x]] += 1
                for c in range(planes.shape[0]):
                    total[labels[y, x], c] += planes[c, y, x]
    return total, size


@kernel
def one_coloured(labels: Array, planes: Array, colours: Array) -> Array:
    """Which regions (N,) bool have no pixel farther than a grey level from their colour (N, C) in any channel."""
    plain = np.ones(len(colours), np.bool_)
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            region = labels[y, x]
            if region >= 0 and plain[region]:
                for c in range(planes.shape[0]):
                    plain[region] &= abs(planes[c, y, x] - colours[region, c]) <= 1.0
    return plain
