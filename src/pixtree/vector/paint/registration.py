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

    planes: (3, H, W) float32 in 0…255 with as many values per pixel as the drawing has cells; fixed: (N,) bool, whose colour stays;
    palette: (N,) as in `trace`.
    """
    if rounds == 0:
        return drawing
    shape = planes.shape[1], planes.shape[2]
    coverage = drawing.coverage(drawing.cells)
    for _ in range(rounds):
        picture = composite(coverage, np.clip(drawing.colours, 0, 255), drawing.order, shape)
        error, area = error_sums(coverage, drawing.order, planes.reshape(3, -1), picture.reshape(-1, 3))
        if palette is not None:
            area = np.bincount(palette, area)[palette]
            error = np.stack([np.bincount(palette, error[:, c])[palette] for c in range(3)], axis=1)
        change = np.where(fixed[:, None], 0.0, error / np.maximum(area, 1.0)[:, None])
        drawing = replace(drawing, colours=np.clip(drawing.colours + change, 0, 255))
    return drawing


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
