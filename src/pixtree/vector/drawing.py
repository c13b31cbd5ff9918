"""Drawing: arcs, shapes and fills of an image, and their form as SVG text and as pixels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.vector.outlines.pieces import Outlines, flattened
from pixtree.vector.outlines.trapping import TRAP, outer_areas, painting_order, trapped
from pixtree.vector.paint import Coverage, composite, cover
from pixtree.vector.path_data import path_data
from pixtree.vector.regions.objects import Layer
from pixtree.vector.svg import Markup, Shapes, Svg, document

Array = NDArray[Any]
Planes = TypeVar("Planes", NDArray[Any], Tensor)
MOST_COPIED = 190_000  # shapes: resvg refuses documents of more than a million elements, and every copy of a shape is one
EMPTY = 0.02  # square pixels: the rest of an artwork's shape whose pixels are all blends of its neighbours
HIDDEN, SOLID = 8.0, 245.0  # alpha, of 255, below which a shape is not drawn, and from which on it is opaque


@dataclass(frozen=True, eq=False, repr=False)
class Drawing(Svg):
    """Shapes that tile a canvas: every arc is stored once and used by one or two shapes.

    colours (N, 3) float64 in 0…255, or (N, 4): colours times alpha, and alpha. layers (N,): shapes of one do not touch; `groups`
    are nested lists of shapes.
    cells: per pixel and axis, of the grid on which the arcs were found. artwork: whether the image was traced as flat
    artwork rather than as a photograph. photographs: (H, W) bool, the pixels of photographs inside artwork, None if there are none.
    """

    arcs: PlanarMap
    outlines: Outlines
    colours: NDArray[np.float64]
    layers: NDArray[np.int32]
    markup: Markup = field(default_factory=Markup)
    groups: Sequence[Any] | None = None
    cells: int = 1
    artwork: bool = False
    photographs: NDArray[np.bool_] | None = None

    @property
    def areas(self) -> NDArray[np.str_]:
        """How each pixel (H, W) was traced, "flat" or "photograph".

        >>> import numpy as np, pixtree
        >>> np.unique(pixtree.vectorize(np.zeros((8, 9), np.uint8), paths=1).areas).tolist()
        ['flat']
        """
        width, height = self.size
        photographs = np.full((height, width), not self.artwork) if self.photographs is None else self.photographs
        return np.where(photographs, "photograph", "flat")

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.arcs.shape[1] // self.cells, self.arcs.shape[0] // self.cells

    @property
    def paths(self) -> int:
        """Number of shapes that are drawn, each one path element."""
        return int(self.drawn.sum())

    @cached_property
    def drawn(self) -> NDArray[np.bool_]:
        """Which shapes (N,) are written: neither invisible ones nor those of artwork that have no area."""
        visible: NDArray[np.bool_] = self.alpha > 0
        return visible & (outer_areas(self.arcs, self.outlines) > EMPTY) if self.artwork else visible

    @cached_property
    def alpha(self) -> NDArray[np.float64]:
        """Opacity (N,) of the shapes, 0…1: exactly 0 for invisible, exactly 1 for opaque ones."""
        if self.colours.shape[1] == 3:
            return np.ones(len(self.colours))
        alpha = self.colours[:, 3]
        return np.where(alpha < HIDDEN, 0.0, np.where(alpha > SOLID, 1.0, alpha / 255))

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Shapes in the order in which they are painted: layer after layer."""
        return np.argsort(self.layers, kind="stable")

    @cached_property
    def text(self) -> str:
        """The SVG document."""
        unit = self.outlines.unit * self.cells
        copied = self.paths <= MOST_COPIED and (len(self.alpha) == 0 or bool(self.alpha.min() == 1))
        markup = self.markup if copied or self.markup.passes == "crisp" else replace(self.markup, passes="single")
        if markup.passes == "single":
            data, layers = self._plain_paths(unit)
        else:
            data, layers = path_data(self.arcs, self.outlines), self.layers
        colours = self.colours[:, :3] / np.maximum(np.where(self.alpha < 1, self.alpha, 1), 1e-3)[:, None]
        fills = np.clip(np.rint(colours), 0, 255).astype(np.uint8)
        shapes = Shapes(data, fills, np.where(self.drawn, self.alpha, 0.0), layers)
        return document(self.size, unit, shapes, markup, self.groups)

    def _plain_paths(self, unit: int) -> tuple[list[str], NDArray[np.int32]]:
        """Path data of shapes that are painted once, and the place of each in the order of painting."""
        order = painting_order(self.arcs, self.outlines)
        if self.groups is not None:
            order = np.array(list(_flat(self.groups)), np.int64)
        data = path_data(*trapped(self.arcs, self.outlines, order, self.alpha, TRAP * self.cells, backing=self.markup.backing))
        layered = isinstance((self.groups or [None])[0], Layer)  # then the first shape is part of an object
        if len(order) and self.alpha.min() == 1 and not layered:  # nothing lies under the first shape, and all others lie over it
            width, height = self.size
            data[order[0]] = f"m0 0h{width * unit}v{height * unit}h{-width * unit}z"
        layers = np.empty(len(order), np.int32)
        layers[order] = np.arange(len(order))
        return data, layers

    def coverage(self, zoom: int = 1) -> Coverage:
        """Which share of which pixel every shape covers, at `zoom` times the native size."""
        points, offsets = flattened(self.outlines)
        loops = (self.arcs.loops, self.arcs.loop_offsets, self.arcs.shape_offsets)
        return cover(points * (zoom / self.cells), offsets, loops, self.order, self._shape(zoom))

    def pixels(self, zoom: int = 1) -> NDArray[np.float32]:
        """The drawing as a renderer shows it over white at `zoom` times the native size, (H, W, 3) in 0…255.

        >>> import numpy as np, pixtree
        >>> pixtree.vectorize(np.zeros((8, 9), np.uint8), paths=1).pixels(zoom=2).shape
        (16, 18, 3)
        """
        colours, coverage = np.clip(np.rint(self.colours), 0, 255), self.coverage(zoom)
        if colours.shape[1] == 4:
            colours = colours[:, :3] + (255.0 - colours[:, 3:])  # a sum of shares: what holds for each holds for all
        return composite(coverage, colours, self.order, self._shape(zoom))

    def _shape(self, zoom: int) -> tuple[int, int]:
        width, height = self.size
        return height * zoom, width * zoom


def over_white(planes: Planes) -> Planes:
    """Planes (3, H, W) in 0…255, or (4, H, W) of colours times alpha and alpha, as they show on a white page: (3, H, W)."""
    return planes if len(planes) == 3 else planes[:3] + (255.0 - planes[3:])


def _flat(groups: Sequence[Any]) -> Iterator[int]:
    """The shapes of nested groups, in the order in which they stand."""
    for item in groups:
        if isinstance(item, int):
            yield item
        else:
            yield from _flat(item.members if isinstance(item, Layer) else item)
