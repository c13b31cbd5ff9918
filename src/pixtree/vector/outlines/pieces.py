"""Outlines: vertices on a fine grid, joined by lines or curves; exact ones along pixel edges; and curves flattened to lines."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel

Array = NDArray[Any]
PIECES = 8  # lines that stand for one curve, and more for a large arc of a circle
COARSEST = 0.02  # pixels between such an arc and its lines


class Outlines(NamedTuple):
    """Vertices of all arcs in units of 1/unit pixel; arc i has points[offsets[i]:offsets[i + 1]], its ends included.

    Where `controls` (V, 4) is not empty, the piece that ends at vertex v is a cubic Bézier curve with control points
    controls[v, :2] and controls[v, 2:], or a line if `curved[v]` is false. Where `radii` (V,) is not empty and radii[v] not 0, the
    piece is an arc of a circle of that radius, less than half of it: clockwise on the screen if positive.
    """

    points: NDArray[np.int32]  # (V, 2) x, y
    offsets: NDArray[np.int32]  # (A + 1,)
    unit: int
    controls: NDArray[np.int32] = np.empty((0, 4), np.int32)
    curved: NDArray[np.bool_] = np.empty(0, np.bool_)
    radii: NDArray[np.int32] = np.empty(0, np.int32)

    @property
    def is_curved(self) -> bool:
        """Whether any piece may be a curve."""
        return len(self.controls) > 0


def exact_outlines(arcs: PlanarMap) -> Outlines:
    """Outlines along the cracks, with a vertex where they turn; they reproduce the label map."""
    points, offsets = keep_turns(arcs.offsets, arcs.corners)
    return Outlines(points, offsets, 1)


@kernel
def keep_turns(offsets: Array, corners: Array) -> tuple[Array, Array]:
    """Arcs without the corners they pass straight on."""
    arcs = len(offsets) - 1
    kept = np.empty_like(corners)
    starts = np.empty(arcs + 1, np.int32)
    used = 0
    for arc in range(arcs):
        starts[arc] = used
        for k in range(offsets[arc], offsets[arc + 1]):
            before, after = max(k - 1, offsets[arc]), min(k + 1, offsets[arc + 1] - 1)
            level = corners[before, 0] + corners[after, 0] == 2 * corners[k, 0]
            if before < k < after and level and corners[before, 1] + corners[after, 1] == 2 * corners[k, 1]:
                continue
            kept[used, 0], kept[used, 1] = corners[k, 0], corners[k, 1]
            used += 1
    starts[arcs] = used
    return kept[:used].copy(), starts


def flattened(outlines: Outlines) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Points (V, 2) float64 in pixels and offsets (A + 1,) of the arcs, curves replaced by lines."""
    if not outlines.is_curved:
        return outlines.points / outlines.unit, outlines.offsets
    coarsest = COARSEST * outlines.unit if len(outlines.radii) else np.inf  # arcs of circles may be large
    points, offsets = flatten_curves(outlines, coarsest)
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
def flatten_curves(outlines: Outlines, coarsest: float) -> tuple[Array, Array]:
    """Each curve as eight lines of equal parameter, or more."""
    points, offsets, _, controls, curved, _ = outlines
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
