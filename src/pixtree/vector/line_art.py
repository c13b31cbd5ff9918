"""Line art: a scan, or a photo of a page or a whiteboard, as smooth shapes of ink on white paper."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from pixtree.kernels.image.cracks import PlanarMap, planar_map
from pixtree.runtime.stopping import check_wanted
from pixtree.vector.budgets import Limits
from pixtree.vector.drawing import Drawing, over_white
from pixtree.vector.outlines.beziers import fit_curves
from pixtree.vector.outlines.joints import fit_shapes
from pixtree.vector.outlines.pieces import Outlines
from pixtree.vector.outlines.placement import Samples, crack_middles
from pixtree.vector.outlines.primitives import Prices
from pixtree.vector.paint import layers_of
from pixtree.vector.regions.ink import MOST_INKS, ink_of
from pixtree.vector.svg import Markup

Array = NDArray[Any]
CELLS = 2  # per pixel and axis, of the grid on which outlines are found: thin lines have both of theirs within a pixel
UNIT = 10  # grid steps per pixel
SMOOTH = 0.3  # pixels, σ: against the noise of the sensor
TURN, ALONG, STEPS = 1.5, 1.0, 2  # pixels, σ, by which lines are judged and over which they are averaged; steps each way
WEIGHT = 2.0  # pixels, σ, of the surroundings whose weight of ink a drawing keeps
LEVELS = np.linspace(0.2, 0.65, 7)  # of coverage at which an outline may run
NEAR = 2  # pixels from ink within which paper is not quite white
PRICES = Prices(noise=0.5, line=6.0, circle=10.0)  # noise as a share of the tolerance
CHARACTERS = {"line": 6, "circle": 15, "curve": 16}  # that a piece of path data has on average
SPECK = 3.0  # square pixels: smaller spots and holes are noise


@dataclass(frozen=True, eq=False)
class Strokes:
    """Shapes of ink as labels (H · CELLS, W · CELLS) int32, 0 on paper, from 1 on the largest first, and what they were found in.

    over (same shape): coverage above the level at which outlines run, 0 on an outline. colours (N, 3): those of the labels.
    """

    labels: NDArray[np.int32]
    over: NDArray[np.float32]
    colours: NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number of shapes of ink."""
        return len(self.colours) - 1

    def drawing(self, count: int, tolerance: float, markup: Markup) -> Drawing:
        """The drawing of the largest `count` shapes; tolerance: the largest deviation of a curve, in pixels."""
        check_wanted()
        labels = np.where(self.labels <= count, self.labels, 0)
        arcs = planar_map(labels)
        outlines = shorter_outlines(crossings(arcs, self.over), arcs, tolerance * CELLS)
        colours = self.colours[: int(labels.max()) + 1]
        return Drawing(arcs, outlines, colours, layers_of(arcs), markup, cells=CELLS, artwork=True)


def line_art(planes: Tensor, limits: Limits, *, colors: int | None, tolerance: float, markup: Markup) -> Drawing:
    """The drawing of planes (3 or 4, H, W), as `planes_of` gives them, with as many of the largest shapes as the limits allow.

    colors: the most colours, the paper's white among them.
    """
    strokes = strokes_of(over_white(planes).numpy(), MOST_INKS if colors is None else max(colors - 1, 1))
    most = min(strokes.count, (limits.paths or strokes.count + 1) - 1)
    for name, limit in limits.sizes():
        most = _fitting(lambda count: strokes.drawing(count, tolerance, markup), most, name, limit)
    return strokes.drawing(most, tolerance, markup)


def _fitting(draw: Callable[[int], Drawing], most: int, name: str, limit: int) -> int:
    """How many of the first shapes take at most `limit` bytes or points, by `name`."""
    count = bisect_right(range(most + 1), limit, key=lambda number: int(getattr(draw(number), name))) - 1
    if count < 0:
        raise ValueError(
            f"the smallest drawing of this image takes {getattr(draw(0), name)} {name}, got {name}={limit}; allow more"
        )
    return count


def strokes_of(planes: NDArray[np.float32], inks: int) -> Strokes:
    """The shapes of ink in planes (3, H, W) in 0…255."""
    ink = ink_of(planes, inks)
    fine = ndimage.zoom(ink.coverage, CELLS, order=3, mode="nearest", grid_mode=True)
    fine = even_along(ndimage.gaussian_filter(fine, SMOOTH * CELLS))
    levels = np.repeat(np.repeat(levels_of(fine), CELLS, axis=0), CELLS, axis=1)
    over = fine - levels
    inked = _without_specks(over > 0)
    entries = np.repeat(np.repeat(ink.entries, CELLS, axis=0), CELLS, axis=1)
    labels, owners = np.zeros(inked.shape, np.int32), [0]
    for entry in range(len(ink.colours)):
        pieces, count = ndimage.label(inked & (entries == entry), structure=np.ones((3, 3)))
        labels = np.where(pieces > 0, pieces + len(owners) - 1, labels)
        owners += [entry] * count
    area = np.bincount(labels.ravel(), minlength=len(owners))
    area[0] = labels.size + 1
    order = np.argsort(-area, kind="stable")
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    colours = np.concatenate((np.full((1, 3), 255.0), ink.colours[np.array(owners)[order[1:]]]))
    return Strokes(rank[labels], np.asarray(over, np.float32), colours)


def even_along(fine: Array) -> NDArray[np.float32]:
    """Coverage (H, W) averaged along the lines and edges that it shows, the more so the straighter they are."""
    down, right = (ndimage.gaussian_filter(fine, TURN * CELLS / 2, order=order, truncate=3) for order in ((1, 0), (0, 1)))
    products = (down * down, right * right, down * right)
    dd, rr, dr = (ndimage.gaussian_filter(product, TURN * CELLS, truncate=2.5) for product in products)
    near = np.flatnonzero((ndimage.maximum_filter(fine, 2 * NEAR * CELLS + 1) > 0.5 * LEVELS[0]).ravel())
    dd, rr, dr = (values.ravel()[near] for values in (dd, rr, dr))
    angle = 0.5 * np.arctan2(2 * dr, rr - dd) + 0.5 * np.pi  # of the line: across it, the gradient is largest
    straight = ((rr - dd) ** 2 + 4 * dr**2) / np.maximum(dd + rr, 1e-9) ** 2
    y, x = np.divmod(near, fine.shape[1])
    total, weights = np.zeros(len(near)), 0.0
    for step in range(-STEPS, STEPS + 1):
        weight, reach = np.exp(-0.5 * (step / STEPS * 2) ** 2), step / STEPS * 2 * ALONG * CELLS
        place = np.stack((y + reach * np.sin(angle), x + reach * np.cos(angle)))
        total += weight * ndimage.map_coordinates(fine, place, order=1, mode="nearest")
        weights += weight
    found = fine.copy()
    found.ravel()[near] += (straight**2 * (total / weights - fine.ravel()[near])).astype(np.float32)
    return found


def levels_of(fine: Array) -> NDArray[np.float32]:
    """The level (H, W) of coverage, given on cells (H · CELLS, W · CELLS), at which shapes weigh as much as the ink nearby.

    Out of focus, a line thinner than the blur nowhere reaches half of its coverage, yet no ink is lost: the level at which the area
    above it equals the sum of the coverage is the one of the line's true width. For wide strokes it is ½.
    """
    near = ndimage.maximum_filter(fine, 2 * NEAR * CELLS + 1) > LEVELS[0]
    weight = _around(np.clip(fine, 0.0, 1.05) * near)
    found = np.full(weight.shape, LEVELS[0], np.float32)
    area = _around(fine > LEVELS[0])
    for low, high in pairwise(LEVELS.tolist()):
        less = _around(fine > high)
        here = (area >= weight) & (less < weight)
        found = np.where(here, low + (high - low) * (area - weight) / np.maximum(area - less, 1e-9), found)
        area = less
    return np.where(area >= weight, np.float32(LEVELS[-1]), found).astype(np.float32)


def _around(cells: Array) -> NDArray[np.float32]:
    """Mean of cells (H · CELLS, W · CELLS) over the surroundings of every pixel (H, W)."""
    height, width = cells.shape[0] // CELLS, cells.shape[1] // CELLS
    pixels = cells.astype(np.float32).reshape(height, CELLS, width, CELLS).mean(axis=(1, 3))
    return np.asarray(ndimage.gaussian_filter(pixels, WEIGHT, truncate=2.5))


def _without_specks(inked: Array) -> NDArray[np.bool_]:
    """A mask of cells without its smallest spots, and without the smallest holes of what remains."""
    least = SPECK * CELLS**2
    for value, structure in ((True, np.ones((3, 3))), (False, None)):
        pieces, count = ndimage.label(inked == value, structure=structure)
        small = np.bincount(pieces.ravel(), minlength=count + 1) < least
        small[0] = False
        inked = inked ^ small[pieces]
    return np.asarray(inked)


def shorter_outlines(samples: Samples, arcs: PlanarMap, tolerance: float) -> Outlines:
    """Every ring as free curves, or as lines and arcs of circles where these take fewer characters; tolerance in cells.

    Hands draw free curves, rulers and compasses the others. An arc between two inks is always free, so that it keeps its ends.
    """
    unit = UNIT // CELLS
    free = fit_curves(samples, arcs, unit=unit, tolerance=tolerance)
    ruled = fit_shapes(samples, arcs, unit=unit, prices=PRICES._replace(noise=PRICES.noise * tolerance))
    first, last = arcs.corners[arcs.offsets[:-1]], arcs.corners[arcs.offsets[1:] - 1]
    chosen = (first == last).all(axis=1) & (_characters(ruled) < _characters(free))
    vertices = [np.flatnonzero(np.repeat(which, np.diff(one.offsets))) for one, which in ((free, ~chosen), (ruled, chosen))]
    lengths = np.where(chosen, np.diff(ruled.offsets), np.diff(free.offsets))
    place = np.concatenate([np.repeat(np.arange(len(lengths)), np.diff(one.offsets)) for one in (free, ruled)])
    kept = np.concatenate((vertices[0], vertices[1] + len(free.points)))
    kept = kept[np.argsort(place[kept], kind="stable")]
    radii = np.concatenate((np.zeros(len(free.points), np.int32), ruled.radii))
    parts = [np.concatenate(pair)[kept] for pair in ((free.points, ruled.points), (free.controls, ruled.controls))]
    curved = np.concatenate((free.curved, ruled.curved))[kept]
    return Outlines(parts[0], np.append(0, np.cumsum(lengths)).astype(np.int32), unit, parts[1], curved, radii[kept])


def _characters(outlines: Outlines) -> NDArray[np.float64]:
    """About how many characters each arc (A,) takes."""
    size = np.where(outlines.curved, CHARACTERS["curve"], CHARACTERS["line"])
    if len(outlines.radii):
        size = np.where(outlines.radii != 0, CHARACTERS["circle"], size)
    return np.add.reduceat(size, outlines.offsets[:-1]).astype(np.float64)


def crossings(arcs: PlanarMap, over: Array) -> Samples:
    """Samples of arcs where `over` (H, W), linear between the middles of cells, is 0; a ring begins between its first and last."""
    points, starts = crack_middles(arcs.offsets, arcs.corners)
    arc = np.repeat(np.arange(len(arcs.left)), np.diff(arcs.offsets))
    crack = np.flatnonzero(arc[1:] == arc[:-1])
    (x, y), (east, south) = arcs.corners[crack].T, (arcs.corners[crack + 1] - arcs.corners[crack]).T
    # The cells on the right and on the left of a crack that leaves corner (x, y).
    right = np.stack((np.where((east == -1) | (south == 1), x - 1, x), np.where((east == -1) | (south == -1), y - 1, y)))
    left = np.stack((right[0] + south, right[1] - east))
    limits = np.array([[over.shape[1]], [over.shape[0]]])
    inside = ((np.minimum(left, right) >= 0) & (np.maximum(left, right) < limits)).all(axis=0)
    on_right, on_left = (over[tuple(np.clip(cell, 0, limits - 1)[::-1])] for cell in (right, left))
    apart = np.where(inside & ((on_right > 0) != (on_left > 0)), on_right - on_left, np.inf)
    share = np.where(np.isinf(apart), 0.5, on_right / np.where(np.isinf(apart), 1, apart))
    points[crack + arc[crack] + 1] += ((share - 0.5) * (left - right)).T
    first, last = starts[:-1], starts[1:] - 1
    ring = (points[first] == points[last]).all(axis=1)
    middle = 0.5 * (points[first + 1] + points[last - 1])
    points[first[ring]] = points[last[ring]] = middle[ring]
    return Samples(points, starts)
