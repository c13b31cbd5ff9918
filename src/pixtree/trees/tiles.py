"""Tiles: the regions of an image that does not fit into memory, as if it did.

The first rounds of a tree are local: what a region becomes in a round depends on its neighbours and on theirs, and regions are
small. So every tile is grown for a few rounds inside a window with a margin around it. Windows that overlap then agree about the
regions at their seam, which are put together from their pieces, and the tree goes on above the regions of all tiles, with
the same costs as for an image that is in memory as a whole. Seams leave no trace.

Where costs are equal, as between pixels of one colour, the tree of an image lets the numbers of regions decide, which no window
knows; here their first pixels decide (`Place`). So tiles of any size give the same labels, and those of `pixtree.segment`
where no costs are equal.

The flat zones of a drawn image are not local. They are found over the whole image first (`tile_zones`), and windows then grow for
one round, in which no two zones merge.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.images.rasters import Raster
from pixtree.kernels import kernels_for
from pixtree.kernels.tree import Edges
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.cuts import Level, cut_labels
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition
from pixtree.trees.rectangles import Box, Store, boxes, place_of, planes_in, united, widened, within
from pixtree.trees.tile_zones import TileZones, find_zones

TILE, MARGIN = 1024, 64  # pixels; regions of three rounds reach a few dozen pixels far
ROUNDS = 3  # within windows: regions of about 50 pixels
ROUNDS_WITH_ZONES = 1  # the next one needs the sizes of zones, and no window knows them


@dataclass
class _Pieces:
    """The pieces of all tiles so far; a piece is the part of a region inside one tile."""

    count: int = 0
    size: list[NDArray[np.int64]] = field(default_factory=list)
    sums: list[NDArray[np.float64]] = field(default_factory=list)  # (N, C) each
    deviation: list[NDArray[np.float64]] = field(default_factory=list)  # (N, C) each: squared, from the mean of the piece
    first: list[NDArray[np.int64]] = field(default_factory=list)  # pixel of the image
    pairs: list[NDArray[np.int64]] = field(default_factory=list)  # (E, 2) pieces that touch
    length: list[NDArray[np.int64]] = field(default_factory=list)
    same: list[NDArray[np.int64]] = field(default_factory=list)  # (E, 2) pieces of one region


class FineRegions(NamedTuple):
    """The regions of an image after some rounds, with the tree above them."""

    region: NDArray[np.int32]  # (pieces,) the region of every piece
    number: int  # of regions
    disputed: int  # pixel edges at seams about which two windows did not agree; 0: the result equals that of the whole image
    tree: Any  # of kernels: its leaves are the regions

    def labels(self, tokens: int) -> NDArray[np.int32]:
        """The label of every piece in the cut with exactly `tokens` regions, numbered by first pixel."""
        kernels = kernels_for()
        opened = kernels.open_largest(self.tree.gain, self.tree.left, self.tree.right, tokens - 1)
        labels: NDArray[np.int32] = kernels.cut_labels(self.tree.parent, opened).numpy()[self.region]
        return labels


def fine_regions(
    raster: Raster,
    store: Store,
    *,
    tile: int = TILE,
    margin: int = MARGIN,
    rounds: int = ROUNDS,
    options: TreeOptions = TreeOptions(),
    tell: Callable[[int, int], None] = lambda done, all: None,
) -> FineRegions:
    """Grow all tiles, keep the numbers of their pieces in `store`, and build the tree above. Linear time; memory of one window,
    and some hundred bytes per region.

    tell: called after each tile with the number of finished tiles and of all tiles.
    """
    store.make()
    pieces, seams = _Pieces(), _Seams(raster.shape)
    tiles = boxes(raster.shape, tile)
    parts = Store(store.path.with_suffix(".zones"), store.shape)
    try:
        zones = find_zones(raster, parts, tiles)
        rounds = rounds if zones is None else ROUNDS_WITH_ZONES
        for number, box in enumerate(tiles):
            window = widened(box, margin, raster.shape)
            planes = planes_in(raster, window)
            labels = _grown(planes, window, raster.shape[1], zones, rounds, options)
            inner = within(box, window)
            _add(pieces, store, box, labels[inner], planes[(slice(None), *inner)].numpy(), raster.shape[1])
            seams.add(pieces, store, box, labels, window)
            tell(number + 1, len(tiles))
    finally:
        parts.path.unlink(missing_ok=True)
    return _joined(pieces, seams.disputed, options, rounds)


def _grown(
    planes: torch.Tensor, window: Box, width: int, zones: TileZones | None, rounds: int, options: TreeOptions
) -> NDArray[np.int32]:  # fmt: skip
    """The regions of a window (h, w) after some rounds; parts of a region that are joined outside the window have one label."""
    found = None if zones is None else zones.inside(window, planes)
    shape = (planes.shape[1], planes.shape[2])
    tree = hierarchy_of_planes(planes.flatten(1), shape, options.rule, place=place_of(window, width), zones=found)
    labels: NDArray[np.int32] = cut_labels(tree, Level(rounds)).numpy()
    if zones is None or found is None:
        return labels
    there = found.root.view(shape).numpy() >= 0
    name = np.arange(labels.max() + 1, dtype=np.int32) + np.int32(zones.solid.size)
    name[labels[there]] = zones.numbers(window)[there]
    return name[labels]


def _add(
    pieces: _Pieces, store: Store, box: Box, labels: NDArray[np.int32], planes: NDArray[np.float32], width: int
) -> None:  # fmt: skip
    """Number the pieces of a tile, and keep their sums and neighbours."""
    part = Partition.from_labels(np.ascontiguousarray(labels))
    number = part.labels[0].numpy().ravel()
    size = np.bincount(number)
    values = planes.reshape(len(planes), -1).astype(np.float64)
    pieces.size.append(size)
    sums = np.asarray([np.bincount(number, plane) for plane in values], np.float64)
    steps = values - (sums / size)[:, number]
    pieces.sums.append(sums.T)
    pieces.deviation.append(np.stack([np.bincount(number, step * step) for step in steps], axis=1))
    first = np.empty_like(size)
    first[number[::-1]] = np.arange(number.size)[::-1]  # the last one to be written is the first pixel
    row, column = np.divmod(first, box[3] - box[1])
    pieces.first.append((row + box[0]) * width + column + box[1])
    pairs, length = part.adjacency()
    pieces.pairs.append(pairs.numpy() + pieces.count)
    pieces.length.append(length.numpy())
    store.write(box, part.labels[0].numpy() + np.int32(pieces.count))
    pieces.count += size.size


class _Seams:
    """Whether pixel edges across the borders of tiles lie inside a region, according to the windows on both sides."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape, self.disputed = shape, 0
        self.heard: dict[Box, NDArray[np.bool_]] = {}  # by the row or column of pixels that follows the seam

    def add(self, pieces: _Pieces, store: Store, box: Box, labels: NDArray[np.int32], window: Box) -> None:
        """Join a tile to those above and to the left of it, and keep what its window found at the other seams."""
        for after in self._after(box):
            before = (after[0] - 1, after[1], after[2] - 1, after[3]) if after[2] - after[0] == 1 else None
            before = before or (after[0], after[1] - 1, after[2], after[3] - 1)
            same = _inside(labels, before, window) == _inside(labels, after, window)
            if after not in self.heard:
                self.heard[after] = same
                continue
            other = self.heard.pop(after)
            self.disputed += int((same != other).sum())
            ends = np.stack((store.read(before).ravel(), store.read(after).ravel()), axis=1).astype(np.int64)
            pieces.same.append(np.unique(ends[same | other], axis=0))
            pairs, length = np.unique(ends, axis=0, return_counts=True)
            pieces.pairs.append(pairs)
            pieces.length.append(length)

    def _after(self, box: Box) -> Iterator[Box]:
        """Rows and columns of pixels that follow the seams of a tile; those of one pixel's height and width count as rows."""
        top, left, bottom, right = box
        for row in (top, bottom):
            if 0 < row < self.shape[0]:
                yield row, left, row + 1, right
        for column in (left, right):
            if 0 < column < self.shape[1]:
                yield top, column, bottom, column + 1


def _inside(labels: NDArray[np.int32], box: Box, window: Box) -> NDArray[np.int32]:
    return labels[within(box, window)].ravel()


def _joined(pieces: _Pieces, disputed: int, options: TreeOptions, rounds: int) -> FineRegions:
    """Regions from their pieces, numbered by first pixel, and the tree above them."""
    count, component = united(pieces.same, pieces.count)
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, component, np.concatenate(pieces.first))
    place = np.empty(count, np.int64)
    place[np.argsort(first)] = np.arange(count)
    region = place[component]
    sizes = np.concatenate(pieces.size)
    size = np.bincount(region, sizes, count).astype(np.float64)
    mean, deviation = _moments(region, size, sizes, np.concatenate(pieces.sums), np.concatenate(pieces.deviation))
    edges = _edges(region[np.concatenate(pieces.pairs)], np.concatenate(pieces.length), count)
    tree = kernels_for().build_on_regions(torch.from_numpy(size).to(torch.float32), mean, deviation, edges, options.rule, rounds)
    return FineRegions(region.astype(np.int32), count, disputed, tree)


def _moments(
    region: NDArray[np.int64],
    size: NDArray[np.float64],
    sizes: NDArray[np.int64],
    sums: NDArray[np.float64],
    deviations: NDArray[np.float64],
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and sums of squared deviations (R, C) float32 of regions, from those of their pieces.

    Without differences of large sums: regions of one colour have no deviation, however many pieces they have.
    """
    mean = np.stack([np.bincount(region, column) for column in sums.T], axis=1) / size[:, None]
    steps = sums / sizes[:, None] - mean[region]
    deviations = deviations + sizes[:, None] * steps * steps
    deviation = np.stack([np.bincount(region, column) for column in deviations.T], axis=1)
    return torch.from_numpy(mean).to(torch.float32), torch.from_numpy(deviation).to(torch.float32)


def _edges(pairs: NDArray[np.int64], length: NDArray[np.int64], count: int) -> Edges:
    """Regions that touch, sorted, each pair once with all the pixel edges that it shares."""
    apart = pairs[:, 0] != pairs[:, 1]
    low, high = pairs.min(axis=1)[apart], pairs.max(axis=1)[apart]
    pair, place = np.unique(low * count + high, return_inverse=True)
    shared = np.bincount(place, length[apart], len(pair)).astype(np.int64)
    return Edges(torch.from_numpy(pair // count), torch.from_numpy(pair % count), torch.from_numpy(shared))
