"""Curves as lines."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.pieces import Outlines

Array = NDArray[Any]
PIECES = 8  # lines that stand for one curve, and more for a large arc of a circle
COARSEST = 0.02  # pixels between such an arc and its lines


def flattened(outlines: Outlines) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Points (V, 2) float64 in pixels and offsets (A + 1,) of the arcs, curves replaced by lines."""
    if not outlines.is_curved:
        return outlines.points / outlines.unit, outlines.offsets
    coarsest = COARSEST * outlines.unit if len(outlines.radii) else np.inf  # arcs of circles may be large
    points, offsets = flatten_curves(outlines.points, outlines.offsets, outlines.controls, outlines.curved, coarsest)
    return points / outlines.unit, offsets


@inlined
def lines_of(points: Array, controls: Array, k: int, coarsest: float) -> Any:
    """Number of lines of equal parameter that stay as near to the curve which ends at vertex k."""
    bend = 0.0
    for c in range(2):
        bend = max(bend, abs(points[k - 1, c] - 2 * controls[k, c] + controls[k, 2 + c]))
        bend = max(bend, abs(controls[k, c] - 2 * controls[k, 2 + c] + points[k, c]))
    return max(PIECES, int(np.sqrt(0.75 * bend / coarsest)) + 1)


@kernel
def flatten_curves(points: Array, offsets: Array, controls: Array, curved: Array, coarsest: float) -> tuple[Array, Array]:
    """Each curve as eight lines of equal parameter, or more."""
    total = len(points)
    for k in range(1, len(points)):
        if curved[k]:
            total += lines_of(points, controls, k, coarsest) - 1
    flat = np.empty((total, 2))
    starts = np.empty(len(offsets), np.int32)
    used = 0
    for arc in range(len(offsets) - 1):
        starts[arc] = used
        for k in range(offsets[arc], offsets[arc + 1]):
            if k > offsets[arc] and curved[k]:
                pieces = lines_of(points, controls, k, coarsest)
                for j in range(1, pieces):
                    t = j / pieces
                    s = 1.0 - t
                    for c in range(2):
                        ends = s * s * s * points[k - 1, c] + t * t * t * points[k, c]
                        flat[used, c] = ends + 3 * s * t * (s * controls[k, c] + t * controls[k, 2 + c])
                    used += 1
            flat[used, 0], flat[used, 1] = points[k, 0], points[k, 1]
            used += 1
    starts[len(offsets) - 1] = used
    return flat, starts
