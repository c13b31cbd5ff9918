"""Objects of a drawing: masks with names, whose shapes become layers of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.vector.regions.merging import Agglomeration

APART = 1e7  # between the values of two objects: regions of the same object, however different, are merged first


@dataclass(frozen=True, eq=False)
class Objects:
    """owner (H, W) int32: the place in `names` of the object that a pixel belongs to, −1 where it belongs to none."""

    names: tuple[str, ...]
    owner: NDArray[np.int32]

    @classmethod
    def of(cls, masks: Mapping[str, Tensor]) -> "Objects":
        """Objects from masks (H, W) bool by name; where two overlap, the later one is on top."""
        owner = np.full(next(iter(masks.values())).shape, -1, np.int32)
        for place, mask in enumerate(masks.values()):
            owner[mask.cpu().numpy()] = place
        if hidden := [name for place, name in enumerate(masks) if not (owner == place).any()]:
            raise ValueError(f"every layer needs pixels of its own, got {hidden[0]!r} below the ones after it; change their order")
        return cls(tuple(masks), owner)

    def divided(self, base: NDArray[np.int32]) -> NDArray[np.int32]:
        """A label map whose regions end where objects do: connected pieces, numbered by first pixel; −1 outside."""
        both = torch.from_numpy(base.astype(np.int64) * (len(self.names) + 1) + self.owner + 1)
        pieces: Tensor = kernels_for().connected_pieces(both.masked_fill(torch.from_numpy(base < 0), -1))
        return pieces.numpy()

    def apart(self, planes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Planes (C, H · cells, W · cells) with one more, in which objects are further apart than any colours."""
        cells = planes.shape[1] // self.owner.shape[0]
        owner = np.repeat(np.repeat(self.owner, cells, axis=0), cells, axis=1)
        return np.concatenate((planes, (APART * owner[None]).astype(np.float32)))

    def without_joins(self, regions: Agglomeration) -> Agglomeration:
        """The merges before the first one of two objects, so that no count has a region in both."""
        inside = regions.base >= 0
        owner = np.empty(regions.most, np.int32)
        owner[regions.base[inside]] = self.owner[inside]
        joins = np.flatnonzero(owner[regions.kept] != owner[regions.absorbed])
        end = int(joins[0]) if joins.size else len(regions.kept)
        return replace(regions, kept=regions.kept[:end], absorbed=regions.absorbed[:end], growth=regions.growth[:end])


@dataclass(frozen=True)
class Layer:
    """The shapes of an object, in nested lists."""

    name: str
    members: Sequence[Any]
