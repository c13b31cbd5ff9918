"""Partitions that are cut from a tree: the library's own, the levels of a plain merging tree (SPiT), and quadtrees."""

import heapq
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pixtree.partitioners.baseline import Baseline, LabelMap, Setting, colours
from pixtree.trees.build import hierarchy_of_image, partition_images
from pixtree.trees.cuts import Exactly, Relax
from pixtree.trees.options import Similarity, TreeOptions


@dataclass(frozen=True)
class Tree(Baseline):
    """Exactly `tokens` 4-connected regions: the cut of a Hierarchy; the options are those of `pixtree.segment`."""

    similarity: Similarity | str = "likelihood"
    compactness: float = TreeOptions.compactness
    energy: str = TreeOptions.energy
    floor: float = TreeOptions.floor
    relax: Relax = False
    backend: str = "auto"

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """The cut with exactly that many regions."""
        options = TreeOptions(self.similarity, self.compactness, self.energy, self.floor)
        part = partition_images(image[None], Exactly(int(setting[0])), options, relax=self.relax, backend=self.backend)
        return part.numpy()


@dataclass(frozen=True)
class Spit(Baseline):
    """The level whose count is nearest to `tokens` (the coarser of two) of a tree with the paper's cosine kernel.

    Every region merges with its most similar neighbour in every round, so the counts fall by a factor of two to four
    from level to level and few images reach the requested one: compare by the count they got.
    """

    similarity: str = "cosine"
    compactness: float = 0.0
    backend: str = "auto"

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """The regions of the level with the nearest count."""
        options = TreeOptions(similarity=self.similarity, compactness=self.compactness)
        tree = hierarchy_of_image(image, options, backend=self.backend)
        # A level's regions are the nodes up to it whose parent comes later: each merge up to it lowers the count by one
        merges = tree.level[tree.leaves :]
        counts = [tree.leaves - int((merges <= level).sum()) for level in range(tree.levels + 1)]
        level = min(reversed(range(tree.levels + 1)), key=lambda known: abs(counts[known] - setting[0]))
        return tree.at_level(level).numpy()


class Cell(NamedTuple):
    """A rectangle of pixels; bottom and right are exclusive."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass(frozen=True)
class Quadtree(Baseline):
    """Exactly `tokens` rectangles: the one with the largest squared error (Lab) is quartered next.

    A quartering adds three cells (one, of a cell a single pixel wide), so the last one or two missing cells come from
    halving the worst cell across its longer side: every count up to the number of pixels is reached. Quarters of odd
    sides differ by a pixel. O(tokens log tokens) after one pass over the image.
    """

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """Cells in the order of their first pixel."""
        features = colours(image)
        labels = np.zeros(features.shape[:2], np.int32)
        for index, cell in enumerate(sorted(_split_to(int(setting[0]), features))):
            labels[cell.top : cell.bottom, cell.left : cell.right] = index
        return labels


def _split_to(count: int, features: NDArray[np.float32]) -> list[Cell]:
    sums, squares = _integral(features), _integral(np.square(features, dtype=np.float64).sum(-1, keepdims=True))

    def entry(cell: Cell) -> tuple[float, int, Cell]:
        """Largest error first, then largest area, then raster order; a cell of one pixel comes last."""
        area = (cell.bottom - cell.top) * (cell.right - cell.left)
        error = float(_over(squares, cell)[0] - np.square(_over(sums, cell)).sum() / area)
        return (-max(error, 0.0) if area > 1 else 1.0, -area, cell)

    heap = [entry(Cell(0, 0, *features.shape[:2]))]
    while len(heap) < count:
        cell = heapq.heappop(heap)[2]
        parts = _quarters(cell)
        if len(heap) + len(parts) > count:
            parts = _halves(cell)
        for part in parts:
            heapq.heappush(heap, entry(part))
    return [cell for _, _, cell in heap]


def _quarters(cell: Cell) -> list[Cell]:
    if cell.bottom - cell.top == 1 or cell.right - cell.left == 1:
        return _halves(cell)
    return [part for half in _upper_and_lower(cell) for part in _left_and_right(half)]


def _halves(cell: Cell) -> list[Cell]:
    """Two halves across the longer side."""
    return _upper_and_lower(cell) if cell.bottom - cell.top > cell.right - cell.left else _left_and_right(cell)


def _upper_and_lower(cell: Cell) -> list[Cell]:
    middle = (cell.top + cell.bottom) // 2
    return [cell._replace(bottom=middle), cell._replace(top=middle)]


def _left_and_right(cell: Cell) -> list[Cell]:
    middle = (cell.left + cell.right) // 2
    return [cell._replace(right=middle), cell._replace(left=middle)]


def _integral(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """(H + 1, W + 1, C) sums over all pixels above and to the left; float64 keeps differences exact enough."""
    padded = np.zeros((values.shape[0] + 1, values.shape[1] + 1, values.shape[2]))
    padded[1:, 1:] = values
    return padded.cumsum(0).cumsum(1)


def _over(integral: NDArray[np.float64], cell: Cell) -> NDArray[np.float64]:
    top, left, bottom, right = cell
    sums: NDArray[np.float64] = integral[bottom, right] - integral[top, right] - integral[bottom, left] + integral[top, left]
    return sums
