"""A limited palette: few colours for all regions, and regions that become the same colour joined."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.trees.partition import Partition
from pixtree.vector.regions.colours import mean_colours
from pixtree.vector.regions.merging import agglomerate

Array = NDArray[Any]
SWEEPS = 20


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
    """Which of at most `most` clusters each colour (N, 3) belongs to: Ward's clusters, polished by k-means; deterministic.

    Ward's merging runs along a line of colours sorted by their strongest direction, so it is a matter of milliseconds.
    """
    distinct, inverse = np.unique(np.rint(colours), axis=0, return_inverse=True)
    inverse = inverse.ravel()
    total = np.bincount(inverse, weight)
    if len(distinct) <= most:
        return inverse.astype(np.int64)
    mean = np.average(distinct, axis=0, weights=total)
    spread = ((distinct - mean) * total[:, None]).T @ (distinct - mean)
    axis = np.linalg.eigh(spread)[1][:, -1]
    line = np.argsort((distinct - mean) @ axis, kind="stable")
    row = np.arange(len(line), dtype=np.int32)[None]
    merged = agglomerate(row, np.ascontiguousarray(distinct[line].T[:, None]).astype(np.float32), total[line][None])
    entry = np.empty(len(line), np.int64)
    entry[line] = merged.labels(most)[0]
    centres = _centres(distinct, total, entry, most)
    for _ in range(SWEEPS):
        nearest = np.argmin(((distinct[:, None] - centres[None]) ** 2).sum(axis=2), axis=1)
        if np.array_equal(nearest, entry):
            break
        entry = nearest
        centres = _centres(distinct, total, entry, most)
    return entry[inverse]


def _centres(colours: Array, weight: Array, entry: Array, count: int) -> Array:
    total = np.stack([np.bincount(entry, colours[:, c] * weight, count) for c in range(colours.shape[1])], axis=1)
    size = np.bincount(entry, weight, count)
    far = np.full_like(total, 1e6)  # an empty cluster attracts nothing
    return np.where(size[:, None] > 0, total / np.maximum(size, 1e-9)[:, None], far)
