"""Colours of regions: their sums and means, regions of one colour, and a limited palette for all of them."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.runtime.jit import kernel
from pixtree.trees.build import image_planes
from pixtree.trees.partition import Partition

Array = NDArray[Any]
SWEEPS = 20
SMALL_AREAS = 0.4  # exponent of a colour's area: 1 would give every place to large areas, 0 none


def mean_colours(labels: Array, planes: Array, count: int) -> NDArray[np.float64]:
    """Mean (N, C) of planes (C, H, W) over every region of a label map (H, W), −1 outside; 0 for a region without pixels."""
    total, size = colour_sums(labels, planes, count)
    return np.asarray(total / np.maximum(size, 1.0)[:, None])


def modal_colours(labels: Array, planes: Array, count: int) -> NDArray[np.float64]:
    """The most frequent colour (N, C) of planes (C, H, W) in every region of a label map (H, W), −1 outside."""
    keys, number = np.unique(packed(planes), return_inverse=True)
    pairs, times = np.unique(
        labels[labels >= 0].astype(np.int64) * len(keys) + number.reshape(labels.shape)[labels >= 0], return_counts=True
    )
    order = np.lexsort((pairs, times))  # the last entry of a region is its most frequent colour
    best = np.zeros(count, np.int64)
    best[pairs[order] // len(keys)] = keys[pairs[order] % len(keys)]
    return unpacked(best, len(planes)).astype(np.float64)


def packed(planes: Array) -> NDArray[np.int64]:
    """Colours (C, ...) in 0…255, rounded, as one integer each, 8 bits per channel."""
    key = np.zeros(planes.shape[1:], np.int64)
    for plane in planes:
        key = key * 256 + np.clip(np.rint(plane), 0, 255).astype(np.int64)
    return key


def unpacked(keys: NDArray[np.int64], channels: int) -> NDArray[np.int64]:
    """The colours (N, C) of `packed` integers (N,)."""
    return np.stack([keys >> 8 * shift & 255 for shift in range(channels - 1, -1, -1)], axis=1)


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


def limited_palette(labels: NDArray[np.int32], planes: Array, colors: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """A label map whose regions have at most `colors` colours, and the palette entry (N,) of every region.

    Regions that touch and take the same entry become one, so there are never more than before.
    """
    count = int(labels.max()) + 1
    area = np.bincount(labels[labels >= 0].ravel(), minlength=count).astype(np.float64)
    entry = clusters(mean_colours(labels, planes, count), area, colors)
    painted = np.where(labels < 0, -1, entry[labels])
    joined = Partition.from_labels(painted).numpy()
    first = np.full(int(joined.max()) + 1, -1, np.int64)
    first[joined[joined >= 0]] = painted[joined >= 0]
    _, compact = np.unique(first, return_inverse=True)
    return joined, compact.astype(np.int64)


def clusters(colours: Array, weight: Array, most: int) -> NDArray[np.int64]:
    """Which of at most `most` clusters each colour (N, 3) in 0…255, or (N, 4) with alpha, belongs to; deterministic.

    Distances are those of CIELAB. The first centre is the colour of the largest area, each further one the colour whose distance to
    the centres so far, squared and times its area to the power 0.4, is largest; k-means follows. So a small area has a place if
    its colour is like no other: the eyes and the nose of a cat, not only shades of its fur.
    """
    distinct, inverse = np.unique(np.rint(colours), axis=0, return_inverse=True)
    inverse = inverse.ravel()
    if len(distinct) <= most:
        return inverse.astype(np.int64)
    place = perceptual(distinct)
    importance = np.bincount(inverse, weight) ** SMALL_AREAS
    centres = place[[int(np.argmax(importance))]]
    distance = ((place - centres[0]) ** 2).sum(axis=1)
    while len(centres) < most:
        chosen = place[[int(np.argmax(distance * importance))]]
        centres = np.concatenate((centres, chosen))
        distance = np.minimum(distance, ((place - chosen) ** 2).sum(axis=1))
    entry = np.full(len(place), -1)
    for _ in range(SWEEPS):
        nearest = np.argmin(((place[:, None] - centres[None]) ** 2).sum(axis=2), axis=1)
        if np.array_equal(nearest, entry):
            break
        entry = nearest
        centres = _centres(place, importance, entry, centres)
    return entry[inverse].astype(np.int64)


def perceptual(colours: Array) -> NDArray[np.float64]:
    """CIELAB coordinates (N, 3) of colours (N, 3) in 0…255; of colours times alpha and alpha (N, 4) those over white, and alpha."""
    opaque = colours if colours.shape[1] == 3 else colours[:, :3] + (255.0 - colours[:, 3:])
    image = torch.from_numpy(np.clip(opaque / 255.0, 0, 1).T[:, None].astype(np.float32))
    lab = image_planes(image, 0.0)[0].T.numpy().astype(np.float64)
    return lab if colours.shape[1] == 3 else np.concatenate((lab, colours[:, 3:] * (100 / 255)), axis=1)


def _centres(place: Array, weight: Array, entry: Array, before: Array) -> Array:
    """Weighted means of the clusters; an empty one stays where it was."""
    size = np.bincount(entry, weight, len(before))
    total = np.stack([np.bincount(entry, place[:, c] * weight, len(before)) for c in range(place.shape[1])], axis=1)
    return np.where(size[:, None] > 0, total / np.maximum(size, 1e-12)[:, None], before)
