"""Curves as lines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import kernel
from pixtree.vector.outlines.pieces import Outlines

Array = NDArray[Any]
PIECES = 8  # lines that stand for one curve


def flattened(outlines: Outlines) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Points (V, 2) float64 in pixels and offsets (A + 1,) of the arcs, curves replaced by lines."""
    if not outlines.is_curved:
        return outlines.points / outlines.unit, outlines.offsets
    points, offsets = flatten_curves(outlines.points, outlines.offsets, outlines.controls, outlines.curved)
    return points / outlines.unit, offsets


@kernel
def flatten_curves(points: Array, offsets: Array, controls: Array, curved: Array) -> tuple[Array, Array]:
    """Each curve as eight lines of equal parameter."""
    total = len(points) + (PIECES - 1) * int(curved.sum())
    flat = np.empty((total, 2))
    starts = np.empty(len(offsets), np.int32)
    used = 0
    for arc in range(len(offsets) - 1):
        starts[arc] = used
        for k in range(offsets[arc], offsets[arc + 1]):
            if k > offsets[arc] and curved[k]:
                for j in range(1, PIECES):
                    t = j / PIECES
                    s = 1.0 - t
                    for c in range(2):
                        ends = s * s * s * points[k - 1, c] + t * t * t * points[k, c]
                        flat[used, c] = ends + 3 * s * t * (s * controls[k, c] + t * controls[k, 2 + c])
                    used += 1
            flat[used, 0], flat[used, 1] = points[k, 0], points[k, 1]
            used += 1
    starts[len(offsets) - 1] = used
    return flat, starts
