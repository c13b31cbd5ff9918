"""Rectangles of an image that does not fit into memory: their features, and numbers of their pixels in a file."""

from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from pixtree.images.rasters import Raster
from pixtree.kernels.tree import Place
from pixtree.trees.build import image_planes

Box = tuple[int, int, int, int]  # top, left, bottom, right


class Store(NamedTuple):
    """Numbers of pieces (H, W) int32 in a file; a rectangle is mapped while it is used, so that memory stays small."""

    path: Path
    shape: tuple[int, int]

    def _mapped(self, mode: Any) -> NDArray[np.int32]:
        return np.memmap(self.path, np.int32, mode, shape=self.shape)

    def make(self) -> None:
        """An empty file of the right length."""
        with self.path.open("wb") as file:
            file.truncate(4 * self.shape[0] * self.shape[1])

    def write(self, box: Box, values: NDArray[np.int32]) -> None:
        """Keep the numbers of a rectangle."""
        top, left, bottom, right = box
        self._mapped("r+")[top:bottom, left:right] = values

    def read(self, box: Box) -> NDArray[np.int32]:
        """The numbers of a rectangle."""
        top, left, bottom, right = box
        return np.array(self._mapped("r")[top:bottom, left:right])


def boxes(shape: tuple[int, int], tile: int) -> list[Box]:
    """The tiles of an image, row by row."""
    height, width = shape
    corners = product(range(0, height, tile), range(0, width, tile))
    return [(top, left, min(top + tile, height), min(left + tile, width)) for top, left in corners]


def widened(box: Box, margin: int, shape: tuple[int, int]) -> Box:
    """A rectangle and a margin around it, as far as the image reaches."""
    height, width = shape
    return (max(box[0] - margin, 0), max(box[1] - margin, 0), min(box[2] + margin, height), min(box[3] + margin, width))


def within(box: Box, window: Box) -> tuple[slice, slice]:
    """Where a rectangle lies in a window that contains it."""
    return slice(box[0] - window[0], box[2] - window[0]), slice(box[1] - window[1], box[3] - window[1])


def place_of(box: Box, width: int) -> Place:
    """Where a rectangle lies in an image of that width."""
    return Place(box[0] * width + box[1], width)


def united(same: list[NDArray[np.int64]], count: int) -> tuple[int, NDArray[np.int32]]:
    """How many things `count` parts make up, and the thing of each part, (count,); same: pairs (E, 2) of parts of one thing."""
    pairs = np.concatenate([*same, np.empty((0, 2), np.int64)])
    links = coo_array((np.ones(len(pairs), np.bool_), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    found, thing = connected_components(links, directed=False)
    return found, thing


def planes_in(raster: Raster, box: Box) -> Tensor:
    """The features (C, h, w) of a rectangle."""
    values, shape, _ = image_planes(raster.read(*box), 0.0)
    return values.view(-1, *shape)
