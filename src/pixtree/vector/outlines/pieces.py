"""Outlines as vertices on a fine grid, joined by lines or cubic curves; and the exact ones, along the pixels' own edges."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import kernel

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Outlines:
    """Vertices of all arcs in units of 1/unit pixel; arc i has points[offsets[i]:offsets[i + 1]], its ends included.

    Where `controls` (V, 4) is not empty, the piece that ends at vertex v is a cubic Bézier curve with control points
    controls[v, :2] and controls[v, 2:], or a line if `curved[v]` is false. Where `radii` (V,) is not empty and radii[v] not 0, the
    piece is an arc of a circle of that radius, less than half of it: clockwise on the screen if positive.
    """

    points: NDArray[np.int32]  # (V, 2) x, y
    offsets: NDArray[np.int32]  # (A + 1,)
    unit: int
    controls: NDArray[np.int32]
    curved: NDArray[np.bool_]
    radii: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))

    @property
    def is_curved(self) -> bool:
        """Whether any piece may be a curve."""
        return len(self.controls) > 0


def of_lines(points: Array, offsets: Array, unit: int) -> Outlines:
    """Outlines of lines only."""
    return Outlines(points, offsets, unit, np.empty((0, 4), np.int32), np.empty(0, np.bool_))


def exact_outlines(arcs: PlanarMap) -> Outlines:
    """Outlines along the cracks, with a vertex where they turn: what reproduces the label map."""
    points, offsets = keep_turns(arcs.offsets, arcs.corners)
    return of_lines(points, offsets, 1)


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
            kept[used] = corners[k]
            used += 1
    starts[arcs] = used
    return kept[:used].copy(), starts
