"""Drawing: arcs, shapes and fills of an image, and their form as SVG text and as pixels."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.cracks import PlanarMap, planar_map
from pixtree.vector.outlines.flattening import flattened
from pixtree.vector.outlines.pieces import Outlines, exact_outlines
from pixtree.vector.outlines.trapping import TRAP, is_opaque, painting_order, trapped
from pixtree.vector.paint.coverage import Coverage, composite, cover
from pixtree.vector.svg.document import Gradient, Markup, document, save_text
from pixtree.vector.svg.pathdata import path_data

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Drawing:
    """Shapes that tile a canvas: every arc is stored once and used by one or two shapes.

    colours (N, 3) float64 in 0…255; layers (N,): shapes of one do not touch; `groups` are nested lists of shapes.
    cells: per pixel and axis, of the grid on which the arcs were found.
    """

    arcs: PlanarMap
    outlines: Outlines
    colours: NDArray[np.float64]
    layers: NDArray[np.int32]
    markup: Markup = field(default_factory=Markup)
    gradients: dict[int, Gradient] = field(default_factory=dict)
    groups: Sequence[Any] | None = None
    cells: int = 1

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        return self.arcs.shape[1] // self.cells, self.arcs.shape[0] // self.cells

    @property
    def paths(self) -> int:
        """Number of shapes, each one path element."""
        return self.arcs.count

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Shapes in the order in which they are painted: layer after layer."""
        return np.argsort(self.layers, kind="stable")

    @cached_property
    def text(self) -> str:
        """The SVG document."""
        fills = np.clip(np.rint(self.colours), 0, 255).astype(np.uint8)
        unit = self.outlines.unit * self.cells
        if self.markup.passes == "single":
            data, layers = self._plain_paths(unit)
        else:
            data, layers = path_data(self.arcs, self.outlines), self.layers
        return document(self.size, unit, data, fills, layers, self.markup, self.gradients, self.groups)

    def _plain_paths(self, unit: int) -> tuple[list[str], NDArray[np.int32]]:
        """Path data of shapes that are painted once, and the place of each in the order of painting."""
        order = painting_order(self.arcs, self.outlines)
        if self.groups is not None:
            order = np.array(list(_flat(self.groups)), np.int64)
        data = path_data(*trapped(self.arcs, self.outlines, order, TRAP * self.cells))
        if len(order) and is_opaque(self.arcs):  # nothing lies under the first shape, and all others lie over it
            width, height = self.size
            data[order[0]] = f"m0 0h{width * unit}v{height * unit}h{-width * unit}z"
        layers = np.empty(self.paths, np.int32)
        layers[order] = np.arange(self.paths)
        return data, layers

    def __str__(self) -> str:
        return self.text

    @property
    def bytes(self) -> int:
        """Size of the SVG file."""
        return len(self.text.encode())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write .svg, or .svgz (gzip, the same bytes for the same drawing); the file appears whole or not at all."""
        save_text(self.text, path)

    def coverage(self, zoom: int = 1) -> Coverage:
        """Which share of which pixel every shape covers, at `zoom` times the native size."""
        points, offsets = flattened(self.outlines)
        loops = (self.arcs.loops, self.arcs.loop_offsets, self.arcs.shape_offsets)
        return cover(points * (zoom / self.cells), offsets, loops, self.order, self._shape(zoom))

    def pixels(self, zoom: int = 1) -> NDArray[np.float32]:
        """The picture that a renderer shows over white at `zoom` times the native size, (H, W, 3) in 0…255; flat fills."""
        return composite(self.coverage(zoom), np.clip(np.rint(self.colours), 0, 255), self.order, self._shape(zoom))

    def _shape(self, zoom: int) -> tuple[int, int]:
        width, height = self.size
        return height * zoom, width * zoom


def empty_drawing(shape: tuple[int, int], markup: Markup) -> Drawing:
    """A canvas (H, W) without shapes, for a wholly transparent image."""
    arcs = planar_map(np.full(shape, -1, np.int32))
    return Drawing(arcs, exact_outlines(arcs), np.empty((0, 3)), np.empty(0, np.int32), markup)


def _flat(groups: Sequence[Any]) -> Iterator[int]:
    """The shapes of nested groups, in the order in which they stand."""
    for item in groups:
        if isinstance(item, int):
            yield item
        else:
            yield from _flat(item)
