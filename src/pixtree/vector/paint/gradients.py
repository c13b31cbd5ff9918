"""Linear gradients: where a region's colour changes along a line, and the change is worth its characters."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import kernel
from pixtree.vector.drawing import Drawing
from pixtree.vector.svg.document import Gradient

Array = NDArray[Any]
CHARACTERS = 150.0  # of a gradient's definition and its reference
SMALLEST = 8  # pixels inside a shape that a gradient needs


def gradients_that_pay(drawing: Drawing, labels: Array, planes: Array, price: float) -> dict[int, Gradient]:
    """Gradients of the shapes whose squared error they lower by more than `price` per character; planes and labels on its cells.

    Fitted to what the flat drawing leaves over inside each shape, where no neighbour has a part in a pixel: the best plane of rank
    one, u · (g · (p − p̄)) with one direction g in the picture and one unit vector u among colours. The stops stand where the
    gradient leaves the shape or the legal colours.
    """
    left_over = planes - np.ascontiguousarray(np.moveaxis(drawing.pixels(drawing.cells), 2, 0))
    moments = region_moments(labels, left_over, drawing.paths)
    cells = drawing.cells
    price = price * CHARACTERS * cells**2  # squared errors are summed over cells
    found: dict[int, Gradient] = {}
    for shape in np.flatnonzero(moments[:, 0] >= SMALLEST * cells**2).tolist():
        model = best_direction(moments[shape]) if drawing.alpha[shape] == 1 else None
        if model is None or model[0] <= price:
            continue
        _, centre, slope, direction = model
        colour = drawing.colours[shape, :3] + moments[shape, 12:15] / moments[shape, 0]
        gradient = _gradient(centre, slope, direction, colour, _reach(moments[shape], slope))
        if gradient is not None:
            found[shape] = gradient._replace(**{name: getattr(gradient, name) / cells for name in ("x1", "y1", "x2", "y2")})
    return found


@kernel
def region_moments(labels: Array, planes: Array, count: int) -> Array:
    """Per region (N, 15), of its pixels without neighbours of other regions:

    n, Σx, Σy, Σx², Σxy, Σy², Σ x·colour (3), Σ y·colour (3), Σ colour (3).
    """
    moments = np.zeros((count, 15))
    height, width = labels.shape
    for y in range(height):
        for x in range(width):
            region = labels[y, x]
            if region < 0:
                continue
            beside = labels[y, max(x - 1, 0)] != region or labels[y, min(x + 1, width - 1)] != region
            if beside or labels[max(y - 1, 0), x] != region or labels[min(y + 1, height - 1), x] != region:
                continue
            at_x, at_y = x + 0.5, y + 0.5
            row = moments[region]
            row[0] += 1
            row[1] += at_x
            row[2] += at_y
            row[3] += at_x * at_x
            row[4] += at_x * at_y
            row[5] += at_y * at_y
            for c in range(3):
                row[6 + c] += at_x * planes[c, y, x]
                row[9 + c] += at_y * planes[c, y, x]
                row[12 + c] += planes[c, y, x]
    return moments


def best_direction(moments: Array) -> tuple[float, Array, Array, Array] | None:
    """Gain in squared error, centre, gradient g (grey levels per pixel) and unit colour direction u of one region."""
    n = moments[0]
    centre = moments[1:3] / n
    spread = np.array([[moments[3], moments[4]], [moments[4], moments[5]]]) - n * np.outer(centre, centre) + n / 24 * np.eye(2)
    if np.linalg.det(spread) <= 1e-6 * np.trace(spread) ** 2:
        return None
    cross = np.stack([moments[6:9], moments[9:12]]) - np.outer(centre, moments[12:15])  # (2, 3)
    solved = np.linalg.solve(spread, cross)
    gains, directions = np.linalg.eigh(cross.T @ solved)
    direction = directions[:, -1]
    return float(gains[-1]), centre, solved @ direction, direction


def _reach(moments: Array, slope: Array) -> float:
    """How far from the centre along the gradient the shape extends, about: twice its standard deviation, in pixels."""
    n = moments[0]
    centre = moments[1:3] / n
    spread = np.array([[moments[3], moments[4]], [moments[4], moments[5]]]) / n - np.outer(centre, centre)
    along = slope / max(float(np.hypot(*slope)), 1e-12)
    return 2.0 * float(np.sqrt(max(along @ spread @ along, 0.25)))


def _gradient(centre: Array, slope: Array, direction: Array, colour: Array, reach: float) -> Gradient | None:
    """The gradient with stops `reach` pixels before and after the centre, nearer where colours would leave 0…255."""
    steepness = float(np.hypot(*slope))
    if steepness <= 0:
        return None
    along = slope / steepness
    low, high = -reach, reach
    for c in range(3):
        change = direction[c] * steepness
        if abs(change) > 1e-9:
            ends = sorted(((0 - colour[c]) / change, (255 - colour[c]) / change))
            low, high = max(low, ends[0]), min(high, ends[1])
    if high - low < 1:
        return None
    start, end = centre + along * low, centre + along * high
    stops = [tuple(int(v) for v in np.clip(np.rint(colour + direction * steepness * t), 0, 255)) for t in (low, high)]
    return Gradient(float(start[0]), float(start[1]), float(end[0]), float(end[1]), stops[0], stops[1])  # type: ignore[arg-type]
