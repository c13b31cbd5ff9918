"""The plugin without its window: the tree of a layer, its cuts, and the object that points select."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pixtree
from pixtree.trees.hierarchy import Hierarchy

MOST_REGIONS = 5_000
STEPS = 1_000  # of the slider


@dataclass(frozen=True, eq=False)
class Session:
    """The tree of one plane of an image layer."""

    tree: Hierarchy

    @classmethod
    def of_layer(cls, layer: Any, step: Sequence[int] = ()) -> "Session":
        """The tree of an image layer as displayed: the plane that the viewer's sliders show, with the layer's contrast limits."""
        plane, window = shown_plane(layer, step)
        return cls(pixtree.hierarchy(plane, window=window))

    @property
    def most(self) -> int:
        """The largest count of regions."""
        return min(MOST_REGIONS, self.tree.leaves)

    def count_at(self, place: int) -> int:
        """The count of regions at a position of the slider, 0 to STEPS: every step multiplies it by the same factor."""
        return min(self.most, max(1, round(math.exp(math.log(self.most) * place / STEPS))))

    def place_of(self, count: int) -> int:
        """The slider position nearest to a count."""
        return 0 if self.most == 1 else round(STEPS * math.log(max(count, 1)) / math.log(self.most))

    def regions(self, count: int) -> NDArray[np.int32]:
        """Labels (H, W) from 1, since napari shows 0 as background."""
        return self.tree.cut(tokens=min(max(count, 1), self.most)).to_skimage()

    def selection(self, inside: Any, outside: Any) -> NDArray[np.uint8]:
        """The object at which points (N, 2) of rows and columns point, (H, W) with 1 inside; empty without a point inside."""
        within, beyond = self._points(inside), self._points(outside)
        if not within:
            return np.zeros(self.tree.shape, np.uint8)
        mask = pixtree.select(self.tree, inside=within, outside=beyond or None)
        return np.asarray(mask, np.uint8)

    def _points(self, points: Any) -> list[tuple[int, int]]:
        """Points of a layer as pixels; those outside the image are left out."""
        columns = np.shape(points)[-1] if np.size(points) else 2
        rows = np.rint(np.asarray(points, np.float64).reshape(-1, columns)[:, -2:]).astype(int)
        height, width = self.tree.shape
        return [(int(y), int(x)) for y, x in rows if 0 <= y < height and 0 <= x < width]


def shown_plane(layer: Any, step: Sequence[int] = ()) -> tuple[NDArray[Any], Any]:
    """The plane (H, W) or (H, W, 3) of an image layer that a viewer shows, and the window of its contrast limits."""
    data = layer.data[0] if layer.multiscale else layer.data
    channels = 1 if layer.rgb else 0
    while data.ndim > 2 + channels:  # of volumes and series, the slice at the sliders
        data = data[step[0] if len(step) else 0]
        step = step[1:]
    plane = np.asarray(data)
    if layer.rgb:
        return plane[..., :3], None
    return plane, None if plane.dtype == bool else tuple(float(end) for end in layer.contrast_limits)
