"""A limited palette: few colours for all regions, and regions that become the same colour joined."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.trees.build import image_planes
from pixtree.trees.partition import Partition
from pixtree.vector.regions.colours import mean_colours

Array = NDArray[Any]
SWEEPS = 20
SMALL_AREAS = 0.4  # exponent of a colour's area: 1 would give every place to large areas, 0 none


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
