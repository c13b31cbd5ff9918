"""Registration: colours and outlines fitted again to what a renderer makes of them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.compiled.jit import kernel
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines import Outlines
from pixtree.vector.placement import Samples, moved_samples
from pixtree.vector.planar import PlanarMap

Array = NDArray[Any]
GAIN = 0.7


def registered(
    drawing: Drawing,
    samples: Samples,
    labels: Array,
    planes: Array,
    *,
    fit: Callable[[Samples, PlanarMap, Array], Outlines],
    rounds: int,
    palette: Array | None = None,
) -> Drawing:
    """The drawing after `rounds` of: paint it, move samples and colours by the error, fit the outlines again.

    labels (H, W) and planes (3, H, W) float32 in 0…255 are what the drawing was made from; palette (N,) as in `trace`.
    """
    for _ in range(rounds):
        error = planes - np.ascontiguousarray(np.moveaxis(drawing.pixels(), 2, 0))
        part = labels if palette is None else np.where(labels < 0, -1, palette[labels]).astype(np.int32)
        change = region_means(part, error, int(part.max()) + 1)
        colours = np.clip(drawing.colours + (change if palette is None else change[palette]), 0, 255)
        samples = moved_samples(samples, drawing.arcs, error, drawing.colours, GAIN)
        drawing = replace(drawing, outlines=fit(samples, drawing.arcs, colours), colours=colours)
    return drawing


@kernel
def region_means(labels: Array, planes: Array, count: int) -> Array:
    """Mean (N, C) float64 of planes (C, H, W) over every region of a label map (H, W), −1 outside."""
    channels = planes.shape[0]
    total, size = np.zeros((count, channels)), np.zeros(count)
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            region = labels[y, x]
            if region >= 0:
                size[region] += 1
                for c in range(channels):
                    total[region, c] += planes[c, y, x]
    for region in range(count):
        for c in range(channels):
            total[region, c] /= max(size[region], 1.0)
    return total
