"""Square patches: the partition of a plain Vision Transformer."""

import math
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from pixtree.partitioners.baseline import Baseline, LabelMap, Setting

COUNT_WEIGHT = 4  # one per cent off the count is as bad as cells four per cent off the square


@dataclass(frozen=True)
class Grid(Baseline):
    """Near-square cells, about `tokens` of them; or, with `patch`, cells of exactly patch × patch pixels.

    With `patch` the size of the image decides the count, so `tokens` must be None; the last row and column are smaller
    where the image is not a multiple of it. Cells of a count differ by at most one pixel per side. 196 tokens of a 224×224
    image are its 16-pixel patches.
    """

    tokens: int = None  # type: ignore[assignment]
    patch: int | None = None

    def __post_init__(self) -> None:
        if (self.tokens is None) == (self.patch is None):
            raise ValueError(f"a grid takes tokens or patch, got tokens={self.tokens} and patch={self.patch}; give one")
        if self.patch is None:
            super().__post_init__()
        elif self.patch < 1:
            raise ValueError(f"patches need at least 1 pixel, got patch={self.patch}; 16 is usual")

    def setting(self, image: Tensor) -> Setting:
        """The requested count; for patches, the count that follows from the size of the image."""
        if self.patch is None:
            return super().setting(image)
        return (math.ceil(image.shape[1] / self.patch) * math.ceil(image.shape[2] / self.patch),)

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """Cells in raster order."""
        height, width = image.shape[1:]
        if self.patch is None:
            return cells(height, width, *grid_shape(height, width, int(setting[0])))
        row, column = np.arange(height, dtype=np.int32) // self.patch, np.arange(width, dtype=np.int32) // self.patch
        labels: LabelMap = row[:, None] * (column[-1] + 1) + column
        return labels


def grid_shape(height: int, width: int, tokens: int) -> tuple[int, int]:
    """Rows and columns whose product is near `tokens` and whose cells are near squares; (1, 1) at least.

    Minimises 4·|log(rows·columns/tokens)| + |log(cell height/cell width)|, which is 0 only for exact counts of exact
    squares. O(height).
    """
    best, best_score = (1, 1), math.inf
    for rows in range(1, min(height, tokens) + 1):
        for columns in {min(max(tokens // rows, 1), width), min(tokens // rows + 1, width)}:
            shape = abs(math.log(height * columns / (rows * width)))
            score = COUNT_WEIGHT * abs(math.log(rows * columns / tokens)) + shape
            if score < best_score - 1e-12:
                best, best_score = (rows, columns), score
    return best


def cells(height: int, width: int, rows: int, columns: int) -> LabelMap:
    """An (height, width) map of rows × columns cells in raster order, sides equal up to one pixel."""
    row, column = np.arange(height) * rows // height, np.arange(width) * columns // width
    return (row[:, None] * columns + column).astype(np.int32)
