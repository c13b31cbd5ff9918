"""The flat zones of an image that does not fit into memory; see `kernels.tree.zones`.

A zone may cross any number of tiles, and whether it is large, solid or loses a pixel depends on all of it. So there are two passes
over the tiles before any region grows. The first numbers the parts of zones inside each tile, and joins equal neighbours across
seams; then sizes and solid zones are known. The second finds blended pixels, and with them the thin zones that lose one.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.images.rasters import Raster
from pixtree.kernels import kernels_for
from pixtree.kernels.tree.zones import LARGE, Zones, fewest_in_zones
from pixtree.trees.rectangles import Box, Store, place_of, planes_in, united, widened, within


class TileZones(NamedTuple):
    """The flat zones of an image in tiles: some bytes per zone."""

    store: Store  # the part that each pixel is in, −1 where in none
    zone: NDArray[np.int32]  # (parts,) the zone of every part
    solid: NDArray[np.bool_]  # (zones,)
    whole: NDArray[np.bool_]  # (zones,) whether it counts: it has two pixels or more, and lost none

    def numbers(self, box: Box) -> NDArray[np.int32]:
        """The zone that each pixel of a rectangle is in, (h, w), −1 where in none; zones that do not count are numbered too."""
        part = self.store.read(box)
        return np.where(part >= 0, self.zone[part], -1)

    def inside(self, window: Box, planes: torch.Tensor) -> Zones:
        """The zones of a window with features (C, h, w); a zone that is not connected inside it becomes several."""
        kernels, features = kernels_for(), planes.flatten(1)
        everywhere = torch.ones(planes.shape[1:], dtype=torch.bool)
        number = torch.from_numpy(self.numbers(window).ravel())
        solid = _looked_up(self.solid, number)
        root = kernels.equal_components(features, everywhere)
        size = torch.bincount(root, minlength=root.numel())
        root = torch.where(_looked_up(self.whole, number) & (size[root] > 1), root, -1)
        joins = kernels.blends(features, everywhere, solid, place_of(window, self.store.shape[1]))
        return Zones(root, torch.where(root < 0, joins, -1), solid)


def _looked_up(flags: NDArray[np.bool_], number: torch.Tensor) -> torch.Tensor:
    """The flags of the zones of pixels, False where a pixel is in none."""
    return torch.from_numpy(np.append(flags, False))[number]


@dataclass
class _Parts:
    """The parts of zones in the tiles so far."""

    count: int = 0
    size: list[NDArray[np.int64]] = field(default_factory=list)
    solid: list[NDArray[np.bool_]] = field(default_factory=list)
    same: list[NDArray[np.int64]] = field(default_factory=list)  # (E, 2) parts of one zone
    may_be_large: int = 0  # pixels in parts that are large, or may belong to large zones


def find_zones(raster: Raster, store: Store, tiles: list[Box]) -> TileZones | None:
    """The zones of the whole image, None where large ones cover too little of it; keeps the numbers of parts in `store`.

    Linear time. Photographs are refused as soon as the tiles that are left cannot have enough zones.
    """
    store.make()
    parts, pixels = _Parts(), raster.shape[0] * raster.shape[1]
    fewest, left = fewest_in_zones(pixels), pixels
    for box in tiles:
        _add_parts(parts, raster, store, box)
        left -= (box[2] - box[0]) * (box[3] - box[1])
        if parts.may_be_large + left < fewest:
            return None
    count, zone = united(parts.same, parts.count)
    size = np.bincount(zone, np.concatenate(parts.size), count)
    if size[size >= LARGE].sum() < fewest:
        return None
    solid = np.bincount(zone, np.concatenate(parts.solid), count) > 0
    found = TileZones(store, zone, solid, size > 1)
    for box in tiles:
        _dissolve(found, raster, box)
    return found


def _add_parts(parts: _Parts, raster: Raster, store: Store, box: Box) -> None:
    """Number the parts of zones in a tile, and join them to those above and to the left of it.

    Parts are components of equal pixels; those of one pixel count only at the sides, where they may belong to a larger zone.
    """
    around = (max(box[0] - 1, 0), max(box[1] - 1, 0), box[2], box[3])
    planes = planes_in(raster, around)
    features = planes[(slice(None), *within(box, around))]
    shape = features.shape[1:]
    root = kernels_for().equal_components(features.flatten(1), torch.ones(shape, dtype=torch.bool)).view(shape).numpy()
    size = np.bincount(root.ravel(), minlength=root.size)
    beyond = np.zeros(root.size, np.bool_)
    for side in (root[0], root[-1], root[:, 0], root[:, -1]):
        beyond[side] = True
    kept = (size > 1) | beyond
    parts.may_be_large += int(size[kept & ((size >= LARGE) | beyond)].sum())
    number = np.where(kept, np.cumsum(kept) - 1, -1)[root]
    blocks = _blocks(planes.numpy())
    top, left = box[0] - around[0], box[1] - around[1]  # 1 where there are tiles above and to the left
    solid = np.zeros(int(kept.sum()), np.bool_)
    solid[number[1 - top :, 1 - left :][blocks]] = True
    number = np.where(number < 0, -1, number + parts.count).astype(np.int32)
    store.write(box, number)
    parts.size.append(size[kept])
    parts.solid.append(solid)
    parts.count += solid.size
    for axis, before in (
        (1, (box[0] - 1, box[1], box[0], box[3]) if top else None),
        (2, (box[0], box[1] - 1, box[2], box[1]) if left else None),
    ):  # fmt: skip
        if before is not None:
            near = features.narrow(axis, 0, 1)
            equal = (planes[(slice(None), *within(before, around))] == near).all(0).numpy().ravel()
            here = number[:1] if axis == 1 else number[:, :1]
            pairs = np.stack((store.read(before).ravel(), here.ravel()), axis=1)[equal]
            parts.same.append(np.unique(pairs, axis=0).astype(np.int64))


def _blocks(planes: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Whether each 2 × 2 block of pixels has one colour, (H − 1, W − 1)."""
    equal = np.ones((planes.shape[1] - 1, planes.shape[2] - 1), np.bool_)
    for plane in planes:
        last = plane[1:, 1:]
        equal &= (plane[:-1, :-1] == last) & (plane[:-1, 1:] == last) & (plane[1:, :-1] == last)
    return equal


def _dissolve(zones: TileZones, raster: Raster, box: Box) -> None:
    """Let the thin zones that lose a blended pixel in a tile count no more."""
    around = widened(box, 1, raster.shape)
    planes, number = planes_in(raster, around), torch.from_numpy(zones.numbers(around).ravel())
    everywhere = torch.ones(planes.shape[1:], dtype=torch.bool)
    joins = kernels_for().blends(planes.flatten(1), everywhere, _looked_up(zones.solid, number), place_of(around, raster.shape[1]))
    lost = number.view(everywhere.shape)[within(box, around)][joins.view(everywhere.shape)[within(box, around)] >= 0]
    zones.whole[lost[lost >= 0].numpy()] = False
