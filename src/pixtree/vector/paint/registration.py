"""Registration: colours fitted again to what a renderer makes of the shapes."""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import kernel
from pixtree.vector.drawing import Drawing
from pixtree.vector.paint.coverage import Coverage, composite

Array = NDArray[Any]


def registered(drawing: Drawing, planes: Array, *, rounds: int, fixed: Array, palette: Array | None = None) -> Drawing:
    """The drawing after `rounds` of: paint it, change every colour by the mean error over what its shape covers.

    planes: (3 or 4, H, W) float32 in 0…255 with as many values per pixel as the drawing has cells; fixed: (N,) bool, whose colour
    stays; palette: (N,) as in `trace`.
    """
    if rounds == 0:
        return drawing
    coverage = drawing.coverage(drawing.cells)
    for _ in range(rounds):
        error, area = _error_of(drawing, coverage, planes)
        if palette is not None:
            area = np.bincount(palette, area)[palette]
            error = np.stack([np.bincount(palette, error[:, c])[palette] for c in range(len(planes))], axis=1)
        change = np.where(fixed[:, None], 0.0, error / np.maximum(area, 1.0)[:, None])
        drawing = replace(drawing, colours=np.clip(drawing.colours + change, 0, 255))
    return drawing


def _error_of(drawing: Drawing, coverage: Coverage, planes: Array) -> tuple[Array, Array]:
    """Sums (N, C) of what planes (C, H, W) have more than the drawing over each shape, and the shapes' areas (N,)."""
    colours, shape = np.clip(drawing.colours, 0, 255), planes.shape[1:]
    sums, area = [], np.zeros(0)
    for first in range(0, len(planes), 3):  # renderings have three channels: alpha takes all of them for itself
        part = np.minimum(np.arange(first, first + 3), len(planes) - 1)
        picture = composite(coverage, colours[:, part], drawing.order, (shape[0], shape[1])).reshape(-1, 3)
        lack, area = error_sums(coverage, drawing.order, planes[part].reshape(3, -1), picture)
        sums.append(lack)
    return np.concatenate(sums, axis=1)[:, : len(planes)], area


def error_sums(coverage: Coverage, order: Array, planes: Array, picture: Array) -> tuple[Array, Array]:
    """Sums of planes (3, P) − picture (P, 3) over the pixels of every shape, by its share of them: (N, 3); and its area (N,)."""
    sums: tuple[Array, Array] = sum_over_runs(
        coverage.offsets, coverage.begin, coverage.end, coverage.share, order, planes, picture
    )
    return sums


@kernel
def sum_over_runs(
    offsets: Array, begin: Array, end: Array, share: Array, order: Array, planes: Array, picture: Array
) -> tuple[Array, Array]:
    """The sums of `error_sums`, from the runs of a coverage."""
    error, area = np.zeros((len(order), 3)), np.zeros(len(order))
    for k in range(len(order)):
        shape = order[k]
        for run in range(offsets[k], offsets[k + 1]):
            part = share[run]
            area[shape] += part * (end[run] - begin[run])
            for c in range(3):
                lack = 0.0
                for pixel in range(begin[run], end[run]):
                    lack += planes[c, pixel] - picture[pixel, c]
                error[shape, c] += part * lack
    return error, area
