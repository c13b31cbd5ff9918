"""Tracing: from an image and its regions to a drawing, with every choice made."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.vector.artwork import without_blends
from pixtree.vector.beziers import fit_curves
from pixtree.vector.drawing import Drawing
from pixtree.vector.fills import gradients_that_pay
from pixtree.vector.grouping import groups_of
from pixtree.vector.layers import layers_of
from pixtree.vector.merging import Agglomeration
from pixtree.vector.outlines import Outlines, exact_outlines, fit_polylines
from pixtree.vector.palette import limited_palette
from pixtree.vector.placement import Samples, place_samples
from pixtree.vector.planar import PlanarMap, planar_map
from pixtree.vector.regions import grow_regions, pixel_weights
from pixtree.vector.registration import region_means, registered
from pixtree.vector.svg import Style

Array = NDArray[Any]
STYLES = ("polyline", "smooth", "polygon")
FILLS = ("flat", "linear")
SMALLEST_FEATURE = 20_000.0  # squared error (grey levels², all channels) below which a region of artwork is what is left of a blend
UNITS = {"polyline": 4, "smooth": 10, "polygon": 1}  # grid steps per pixel


@dataclass(frozen=True)
class Tracing:
    """How regions become shapes.

    style: "polyline", "smooth" (Bézier curves that keep corners) or "polygon" (the pixels' own edges).
    fill: "flat" or "linear", gradients where they pay.
    rounds: of registration, 0 for speed.
    tolerance: pixels that a smooth curve may deviate.
    artwork: whether blends at edges are taken as anti-aliasing, not as regions.
    groups: counts of coarser regions that nest the shapes, coarsest first; none for plain layers.
    detail: characters that a pixel edge of outline is taken to cost when a character's worth is found from that of a region; about
    1 spends bytes best, more draws a limited number of paths better.
    """

    style: str = "polyline"
    fill: str = "flat"
    rounds: int = 2
    tolerance: float = 0.4
    artwork: bool = False
    colors: int | None = None
    groups: tuple[int, ...] = ()
    detail: float = 2.7
    paint: Style = field(default_factory=Style)

    def __post_init__(self) -> None:
        for name, value, choices in (("style", self.style, STYLES), ("fill", self.fill, FILLS)):
            if value not in choices:
                raise ValueError(f"{name} is one of {', '.join(choices)}, got {value!r}; choose one of these")
        if self.colors is not None and (self.colors < 1 or self.fill == "linear"):
            raise ValueError(
                f"colors= is a whole number of at least 1 with fill='flat', got {self.colors} and {self.fill!r}; drop one"
            )
        if not 0 < self.tolerance <= 10:
            raise ValueError(f"tolerance is a distance above 0 and up to 10 pixels, got {self.tolerance}; 0.4 is the default")


@dataclass(frozen=True, eq=False)
class Source:
    """An image ready for tracing: planes (3, H, W) float32 in 0…255, and its regions at every count."""

    planes: NDArray[np.float32]
    regions: Agglomeration
    tracing: Tracing

    @classmethod
    def of(cls, planes: Tensor, tracing: Tracing, *, most: int, mask: Tensor | None = None) -> "Source":
        """Grow the regions of an image, for counts up to `most`."""
        # Artwork has no texture that hides errors: its thin lines count as much as its areas.
        grown = torch.from_numpy(without_blends(planes.numpy())) if tracing.artwork else planes
        weights = torch.ones_like(planes[0]) if tracing.artwork else pixel_weights(planes)
        regions = grow_regions(grown, most=most, mask=mask, weights=weights)
        return cls(planes.numpy(), regions, tracing)

    def drawing(self, count: int, *, quick: bool = False) -> Drawing:
        """The drawing with at most `count` shapes; `quick` leaves registration and gradients out."""
        if self.tracing.artwork:
            count = min(count, self.regions.fewest + int((self.regions.growth > SMALLEST_FEATURE).sum()))
        labels = self.regions.labels(count)
        slope = self.regions.slope(count)
        palette = None
        if self.tracing.colors is not None:
            labels, palette = limited_palette(labels, self.planes, self.tracing.colors)
        tracing = replace(self.tracing, rounds=0, fill="flat") if quick else self.tracing
        drawing = trace(labels, self.planes, tracing, slope=slope, palette=palette)
        if tracing.groups:
            drawing = replace(drawing, groups=groups_of(labels, self.regions, tracing.groups))
        return drawing


def trace(labels: NDArray[np.int32], planes: Array, tracing: Tracing, *, slope: float, palette: Array | None = None) -> Drawing:
    """The drawing of a label map (H, W) with regions 0…N−1, −1 outside; planes (3, H, W) float32 in 0…255.

    slope: squared error that one more region would save; what a character may cost follows from it, so that lines and regions buy
    equally much. palette: (N,) the palette entry of every region, whose shapes keep one colour.
    """
    arcs = planar_map(labels)
    colours = _shared(region_means(labels, planes, arcs.count), labels, palette)
    layers = layers_of(arcs)
    if tracing.style == "polygon":
        return Drawing(arcs, exact_outlines(arcs), colours, layers, replace(tracing.paint, passes="crisp"))
    price = slope * arcs.count / (tracing.detail * max(len(arcs.corners), 1))
    fit = _fitter(tracing, price)
    samples = place_samples(arcs, planes, colours)
    drawing = Drawing(arcs, fit(samples, arcs, colours), colours, layers, tracing.paint)
    drawing = registered(drawing, samples, labels, planes, fit=fit, rounds=tracing.rounds, palette=palette)
    if tracing.fill == "linear":
        drawing = replace(drawing, gradients=gradients_that_pay(drawing, labels, planes, price))
    return drawing


def _fitter(tracing: Tracing, price: float) -> Callable[[Samples, PlanarMap, Array], Outlines]:
    unit = UNITS[tracing.style]
    if tracing.style == "smooth":
        return lambda samples, arcs, colours: fit_curves(samples, arcs, unit=unit, tolerance=tracing.tolerance)
    return lambda samples, arcs, colours: fit_polylines(samples, arcs, colours, unit=unit, price=price)


def _shared(colours: Array, labels: Array, palette: Array | None) -> Array:
    """Colours (N, 3), the same for all regions of one palette entry: their mean by area."""
    if palette is None:
        return colours
    area = np.bincount(labels[labels >= 0].ravel(), minlength=len(palette)).astype(np.float64)
    total = np.stack([np.bincount(palette, colours[:, c] * area) for c in range(3)], axis=1)
    return np.asarray((total / np.maximum(np.bincount(palette, area), 1)[:, None])[palette])
