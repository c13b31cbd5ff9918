"""Tracing: from an image and its regions to a drawing."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels.image.cracks import PlanarMap, planar_map
from pixtree.runtime.jit import kernel
from pixtree.runtime.stopping import check_wanted
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines.beziers import fit_curves
from pixtree.vector.outlines.joints import fit_shapes
from pixtree.vector.outlines.pieces import Outlines, exact_outlines
from pixtree.vector.outlines.placement import Samples, place_samples
from pixtree.vector.outlines.polylines import fit_polylines
from pixtree.vector.outlines.primitives import Prices
from pixtree.vector.paint import Coverage, composite, layers_of
from pixtree.vector.regions.colours import limited_palette, mean_colours, modal_colours, one_coloured
from pixtree.vector.regions.flat import FlatColours
from pixtree.vector.regions.growing import (
    branches,
    groups_of,
    grow_regions,
    near_alpha_edges,
    pixel_weights,
    without_blends,
    without_single_groups,
)
from pixtree.vector.regions.merging import Agglomeration
from pixtree.vector.regions.objects import Objects
from pixtree.vector.regions.refinement import enlarged, refined
from pixtree.vector.svg import Markup

Array = NDArray[Any]
STYLES = ("polyline", "smooth", "polygon")
SMALLEST_FEATURE = 20_000.0  # squared error (grey levels²) below which a region of artwork is the remainder of a blend
SAME_COLOUR = 1e-6  # the same for regions whose colours look equal
UNITS = {"polyline": 4, "smooth": 10, "artwork": 20}  # grid steps per pixel
STIFFNESS = 0.04  # of boundaries as they are refined: characters that an edge of a cell is taken to cost
PRICES = Prices(noise=0.1, line=6.0, circle=6.0)  # noise as a share of the tolerance


@dataclass(frozen=True)
class Tracing:
    """How regions become shapes.

    style: "polyline", "smooth" (Bézier curves that keep corners) or "polygon" (the pixels' own edges).
    rounds: rounds of registration; 0 is faster.
    cells: cells per pixel and axis of the grid on which boundaries are found; 1 is faster.
    tolerance: the largest deviation of a smooth curve, in pixels.
    artwork: whether blends at edges are treated as anti-aliasing instead of regions.
    groups: counts of coarser regions that nest the shapes, coarsest first; none for plain layers.
    editable: nest the shapes as the tree does, where `groups` names no counts, and without groups of one member.
    detail: assumed characters per pixel edge of outline, from which the worth of a character follows; about 1 makes the most of a
    budget of bytes, more makes the most of a budget of paths.
    """

    style: str = "polyline"
    rounds: int = 2
    cells: int = 2
    tolerance: float = 0.4
    artwork: bool = False
    colors: int | None = None
    groups: tuple[int, ...] = ()
    editable: bool = False
    detail: float = 2.4
    markup: Markup = field(default_factory=Markup)

    def __post_init__(self) -> None:
        if self.style not in STYLES:
            raise ValueError(
                f"style is one of {', '.join(STYLES)}, lineart, strokes and paper, got {self.style!r}; choose one of these"
            )
        if self.colors is not None and self.colors < 1:
            raise ValueError(f"colors= is a whole number of at least 1, got {self.colors}; leave it out for any number")
        if self.cells not in (1, 2, 4):
            raise ValueError(f"cells= is 1, 2 or 4 per pixel, got {self.cells}; 2 is the default")
        if not 0 < self.tolerance <= 10:
            raise ValueError(f"tolerance is a distance above 0 and up to 10 pixels, got {self.tolerance}; 0.4 is the default")


@dataclass(frozen=True, eq=False)
class Source:
    """An image ready for tracing: its planes, the same on finer cells, and its regions at every count.

    planes: (3, H, W) float32 in 0…255; with transparency (4, H, W): colours times alpha, and alpha. sharp: the planes from which
    the regions are grown, without blends at edges where those count as anti-aliasing. flat: whether these have the few colours of
    flat artwork only, which its shapes keep. objects: whose shapes are layers of their own.
    """

    planes: NDArray[np.float32]
    fine: NDArray[np.float32]
    sharp: NDArray[np.float32]
    regions: Agglomeration
    tracing: Tracing
    photographs: NDArray[np.bool_] | None = None
    objects: Objects | None = None

    @property
    def flat(self) -> bool:
        """Whether the image is flat artwork, at least around its photographs."""
        return self.photographs is not None

    @classmethod
    def of(
        cls, planes: Tensor, tracing: Tracing, *, most: int, flat: FlatColours | None = None, objects: Objects | None = None
    ) -> "Source":
        """Grow the regions of an image, for counts up to `most`; flat: the palette of artwork that keeps its colours."""
        check_wanted()
        if flat is not None:
            sharp = flat.planes(planes.numpy())
            weights = torch.ones_like(planes[0])
            regions = grow_regions(torch.from_numpy(sharp), flat.steps(), most=most, cells=1, weights=weights, objects=objects)
            return cls(planes.numpy(), planes.numpy(), sharp, regions, tracing, flat.photographs, objects)
        # Artwork has no texture that hides errors: its thin lines count as much as its areas.
        grown = torch.from_numpy(without_blends(planes.numpy())) if tracing.artwork or len(planes) == 4 else planes
        if len(planes) == 4 and not tracing.artwork:
            grown = torch.where(near_alpha_edges(planes), grown, planes)
        weights = torch.ones_like(planes[0]) if tracing.artwork else pixel_weights(planes)
        regions = grow_regions(grown, most=most, cells=tracing.cells, weights=weights, objects=objects)
        fine = planes if tracing.style == "polygon" else enlarged(planes, tracing.cells)
        return cls(planes.numpy(), fine.numpy(), grown.numpy(), regions, tracing, objects=objects)

    def drawing(self, count: int, *, quick: bool = False) -> Drawing:
        """The drawing with at most `count` shapes; `quick` leaves registration out."""
        check_wanted()
        smallest = SMALLEST_FEATURE if self.tracing.artwork else SAME_COLOUR
        count = min(count, self.regions.fewest + int((self.regions.growth > smallest).sum()))
        labels = self.regions.labels(count)
        slope = self.regions.slope(count)
        palette = None
        if self.tracing.colors is not None:
            labels, palette = limited_palette(labels, self.sharp if self.flat else self.planes, self.tracing.colors)
        if self.flat:
            return self._flat_drawing(labels, palette)
        tracing = replace(self.tracing, rounds=0) if quick else self.tracing
        drawing = trace(labels, self.planes, self.fine, tracing, slope=slope, palette=palette, objects=self.objects)
        if len(self.planes) == 4:
            drawing = replace(
                drawing, colours=_with_alpha(drawing.colours, mean_colours(labels, self.sharp[3:], len(drawing.colours)))
            )
        if tracing.artwork:
            drawing = replace(drawing, artwork=True)
        return replace(drawing, groups=self._groups(labels))

    def _groups(self, labels: NDArray[np.int32]) -> list[Any] | None:
        """The shapes of a label map in groups and layers, None if nothing asks for these."""
        tracing = self.tracing
        if not (tracing.groups or tracing.editable or self.objects):
            return None
        counts = tracing.groups or (branches(int(labels.max()) + 1) if tracing.editable else ())
        groups = groups_of(labels, self.regions, counts, self.objects)
        return without_single_groups(groups) if tracing.editable else groups

    def _flat_drawing(self, labels: NDArray[np.int32], palette: Array | None) -> Drawing:
        """The drawing of flat artwork, in the most frequent colour of every region, or palette entry."""
        own = np.arange(int(labels.max()) + 1) if palette is None else palette
        entries = np.where(labels < 0, -1, own[labels])
        colours = modal_colours(entries, self.sharp, int(own.max(initial=-1)) + 1)
        if self.photographs is not None and self.photographs.any():
            shown = mean_colours(entries, self.planes, len(colours))
            in_photograph = mean_colours(entries, self.photographs[None], len(colours)) > 0.5
            colours = np.where(in_photograph, shown, colours)
        colours = colours[own]
        tracing = self.tracing
        drawing = trace_artwork(labels, self.planes, colours, tolerance=tracing.tolerance, markup=tracing.markup)
        if self.photographs is not None and self.photographs.any():
            drawing = replace(drawing, photographs=self.photographs)
        return replace(drawing, groups=self._groups(labels))


def trace(
    labels: NDArray[np.int32],
    planes: Array,
    fine: Array,
    tracing: Tracing,
    *,
    slope: float,
    palette: Array | None = None,
    objects: Objects | None = None,
) -> Drawing:
    """The drawing of a label map (H, W) with regions 0…N−1, −1 outside.

    planes: (3, H, W) float32 in 0…255, and `fine` (3, H · cells, W · cells) the same on finer cells. Boundaries and colours are
    found on the cells, but a region of one colour keeps it: interpolation would mix it with its neighbours'.
    slope: squared error that one more region would save. The price of a character follows from it, so that characters spent on
    lines and on regions save equally much. palette: (N,) the palette entry of every region, whose shapes keep one colour.
    objects: whose edges stay where they are.
    """
    colours = _shared(mean_colours(labels, planes, int(labels.max()) + 1), labels, palette)
    if tracing.style == "polygon":
        arcs = planar_map(labels)
        return Drawing(arcs, exact_outlines(arcs), colours, layers_of(arcs), replace(tracing.markup, passes="crisp"))
    cells = tracing.cells
    price = slope * len(colours) / max(pixel_edges(labels), 1)  # squared error that a pixel edge of outline is worth
    plain = one_coloured(labels, planes, colours)
    if palette is not None:  # an entry keeps its colour only if all its regions do, or they would part
        plain = (np.bincount(palette, ~plain) == 0)[palette]
    labels = refined(labels, fine if objects is None else objects.apart(fine), cells, STIFFNESS * price)
    check_wanted()
    arcs = planar_map(labels)
    colours = np.where(plain[:, None], colours, _shared(mean_colours(labels, fine, arcs.count), labels, palette))
    samples = place_samples(arcs, fine, colours)
    outlines = _fitted(samples, arcs, colours, tracing, price / tracing.detail)
    drawing = Drawing(arcs, outlines, colours, layers_of(arcs), tracing.markup, cells=cells)
    return registered(drawing, fine, rounds=tracing.rounds, fixed=plain, palette=palette)


def pixel_edges(labels: Array) -> int:
    """Number of edges between pixels of different regions, and of the image's border."""
    inner = np.count_nonzero(labels[1:] != labels[:-1]) + np.count_nonzero(labels[:, 1:] != labels[:, :-1])
    return int(inner) + 2 * sum(labels.shape)


def _fitted(samples: Samples, arcs: PlanarMap, colours: Array, tracing: Tracing, price: float) -> Outlines:
    """Outlines in the tracing's style; price: squared error per character, over pixels."""
    cells = tracing.cells
    unit = UNITS[tracing.style] // cells
    if tracing.style == "smooth":
        return fit_curves(samples, arcs, unit=unit, tolerance=tracing.tolerance * cells)
    # A deviation shows in `cells` times as many samples, and its square is cells² as large.
    return fit_polylines(samples, arcs, colours, unit=unit, price=price * cells**3)


def _with_alpha(colours: Array, alpha: Array) -> Array:
    """Colours (N, 4) of the same hue with another alpha (N, 1): that of a region's inside, since its rim is blended."""
    return np.concatenate((colours[:, :3] * (alpha / np.maximum(colours[:, 3:], 1.0)), alpha), axis=1)


def _shared(colours: Array, labels: Array, palette: Array | None) -> Array:
    """Colours (N, 3), the same for all regions of one palette entry: their mean by area."""
    if palette is None:
        return colours
    area = np.bincount(labels[labels >= 0].ravel(), minlength=len(palette)).astype(np.float64)
    total = np.stack([np.bincount(palette, colours[:, c] * area) for c in range(colours.shape[1])], axis=1)
    return np.asarray((total / np.maximum(np.bincount(palette, area), 1)[:, None])[palette])


def trace_artwork(labels: NDArray[np.int32], planes: Array, colours: Array, *, tolerance: float, markup: Markup) -> Drawing:
    """The drawing of a label map (H, W) with regions 0…N−1 of colours (N, C), −1 outside; planes (C, H, W) in 0…255.

    Boundaries run where the blends of the pixels on both sides put them, and lines and arcs are fitted to that.
    """
    arcs = planar_map(labels)
    prices = PRICES._replace(noise=PRICES.noise * tolerance)
    samples = place_samples(arcs, planes, colours, labels=labels)
    outlines = fit_shapes(samples, arcs, unit=UNITS["artwork"], prices=prices)
    return Drawing(arcs, outlines, colours, layers_of(arcs), markup, artwork=True)


def registered(drawing: Drawing, planes: Array, *, rounds: int, fixed: Array, palette: Array | None = None) -> Drawing:
    """The drawing after `rounds` of: paint it, change every colour by the mean error over what its shape covers.

    planes: (3 or 4, H, W) float32 in 0…255 with as many values per pixel as the drawing has cells; fixed: (N,) bool, whose colour
    stays; palette: (N,) as in `trace`.
    """
    if rounds == 0:
        return drawing
    coverage = drawing.coverage(drawing.cells)
    for _ in range(rounds):
        check_wanted()
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
        shown = composite(coverage, colours[:, part], drawing.order, (shape[0], shape[1])).reshape(-1, 3)
        lack, area = error_sums(coverage, drawing.order, planes[part].reshape(3, -1), shown)
        sums.append(lack)
    return np.concatenate(sums, axis=1)[:, : len(planes)], area


@kernel
def error_sums(coverage: Coverage, order: Array, planes: Array, shown: Array) -> tuple[Array, Array]:
    """Sums of planes (3, P) − shown (P, 3) over the pixels of every shape, by its share of them: (N, 3); and its area (N,)."""
    offsets, begin, end, share = coverage
    error, area = np.zeros((len(order), 3)), np.zeros(len(order))
    for k in range(len(order)):
        shape = order[k]
        for run in range(offsets[k], offsets[k + 1]):
            part = share[run]
            area[shape] += part * (end[run] - begin[run])
            for c in range(3):
                lack = 0.0
                for pixel in range(begin[run], end[run]):
                    lack += planes[c, pixel] - shown[pixel, c]
                error[shape, c] += part * lack
    return error, area
