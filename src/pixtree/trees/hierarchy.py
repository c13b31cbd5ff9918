"""Hierarchy: the tree of an image's regions as a value: its cuts, contours, other libraries' forms, and files."""

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images.arrays import arranged, channels_first
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly, Level, Relax, budget_of, cut, opened_nodes
from pixtree.trees.partition import Partition
from pixtree.trees.storage import read_fields, write_tree
from pixtree.trees.structure import TreeStructure

Table = dict[str, NDArray[Any]]


class Contours(NamedTuple):
    """For every pixel edge the count of regions from which on it is a boundary in nested cuts: an ultrametric contour map.

    `right[y, x]` lies between (y, x) and (y, x + 1), `down[y, x]` between (y, x) and (y + 1, x). `right <= n` draws the cut with n
    regions. Edges at a mask's border count 0; those outside it are larger than any count.
    """

    right: Tensor  # (H, W−1) int32
    down: Tensor  # (H−1, W) int32

    def __repr__(self) -> str:
        return f"Contours({self.right.shape[0]}×{self.down.shape[1]} pixels)"

    def _repr_png_(self) -> bytes:
        from pixtree.files import png
        from pixtree.trees.previews import contour_map

        return png(contour_map(self))


@dataclass(frozen=True, eq=False, kw_only=True)
class Hierarchy(TreeStructure):
    """A binary tree over the M pixels of an image (those inside its mask): leaves first in raster order, root last.

    Every node is 4-connected, but for the last `pieces − 1`, which join the pieces of a mask that do not touch. The maximal nodes
    of level ≤ t are the paper's partition π_t. Fields and attributes of nodes are those of `TreeStructure`.

    >>> import numpy as np, pixtree
    >>> tree = pixtree.hierarchy(np.eye(20))
    >>> tree.shape, tree.leaves, len(tree.parent)
    ((20, 20), 400, 799)
    """

    def __repr__(self) -> str:
        height, width = self.shape
        inside = "" if self.mask is None else f", {self.leaves:,} of them inside its mask"
        return f"Hierarchy({height}×{width} pixels{inside}, {self.levels} levels)"

    def _repr_png_(self) -> bytes:
        return self.contours()._repr_png_()

    def cut(
        self,
        tokens: int | None = None,
        *,
        criterion: str | Criterion | None = None,
        at_most: int | None = None,
        budget: Budget | None = None,
        relax: Relax = False,
    ) -> Partition:
        """The partition that one of `tokens`, `criterion`, `at_most` or `budget` asks for; see `pixtree.trees.cuts`.

        relax: polish the boundaries, or "detail" to follow finer contours; see `segment`.

        >>> import numpy as np, pixtree
        >>> pixtree.hierarchy(np.eye(20)).cut(tokens=7).counts.tolist()
        [7]
        """
        return cut(self, budget_of(tokens=tokens, criterion=criterion, at_most=at_most, budget=budget), relax=relax)

    def at_level(self, level: int) -> Partition:
        """The paper's partition π_t; level 0 has one region per pixel.

        >>> import numpy as np, pixtree
        >>> tree = pixtree.hierarchy(np.eye(20))
        >>> tree.at_level(0).counts.tolist(), tree.at_level(tree.levels).counts.tolist()
        ([400], [1])
        """
        return cut(self, Level(level))

    def contours(self) -> Contours:
        """For every pixel edge the count of regions from which on it is a boundary.

        >>> import numpy as np, pixtree
        >>> tree = pixtree.hierarchy(np.eye(20))
        >>> labels = tree.cut(tokens=7).labels[0]
        >>> bool(((tree.contours().right <= 7) == (labels[:, 1:] != labels[:, :-1])).all())
        True
        """
        height, width = self.shape
        never = torch.iinfo(torch.int32).max
        count = (self.rank[self.joins - self.leaves] + 2).to(torch.int32)
        first, second = self.edges
        pixel = torch.nonzero(self.inside.flatten()).flatten()
        is_right = (pixel[second] - pixel[first] == 1) & (pixel[first] % width != width - 1)
        right = torch.full((height, width), never, dtype=torch.int32, device=first.device)
        down = right.clone()
        right.view(-1)[pixel[first[is_right]]] = count[is_right]
        down.view(-1)[pixel[first[~is_right]]] = count[~is_right]
        right, down = right[:, :-1], down[:-1]
        right = right.masked_fill(self.inside[:, 1:] != self.inside[:, :-1], 0)
        return Contours(right, down.masked_fill(self.inside[1:] != self.inside[:-1], 0))

    def table(self, tokens: int | None = None, *, values: NDArray[np.generic] | Tensor | None = None) -> Table:
        """The regions of the nested cut with `tokens` regions and all regions that they merge into, as columns: a dict of arrays.

        Row i < n is region i of `cut(tokens=n)`; the n − 1 rows after them are its unions, the whole image last. Without `tokens`
        there is a row for every node of the tree. pandas.DataFrame accepts the dict.

        node: index of the region in the arrays of this tree.
        parent: row of the region that this one merges into, −1 for the last.
        level, altitude: the round that made the region, and the cost of that merge.
        area, perimeter: its pixels, and the pixel edges around it, those at the image's border included.
        top, left, bottom, right: its box, the last two exclusive.

        The columns mean_0, mean_1 and so on are means of the tree's features (L, a, b of colours; L of grey; 100 times the value of
        other channels), or of your own `values` (H, W) or (H, W, C).

        >>> import numpy as np, pixtree
        >>> image = np.zeros((40, 60), np.uint8)
        >>> image[10:30, 20:40] = 200
        >>> table = pixtree.hierarchy(image).table(tokens=2, values=image)
        >>> table["area"].tolist(), table["mean_0"].round().tolist(), table["parent"].tolist(), table["perimeter"].tolist()
        ([2000, 400, 2400], [0.0, 200.0, 33.0], [2, 2, -1], [280, 80, 200])
        """
        rows = _rows(self, self.leaves if tokens is None else tokens)
        place = torch.full((2 * self.leaves,), -1, dtype=torch.int64, device=rows.device)
        place[rows] = torch.arange(len(rows), device=rows.device)
        parent = place[self.parent.to(torch.int64)[rows]]  # the root's is -1, and the last place belongs to no node
        area = self.size[rows].to(torch.int64)
        columns: dict[str, Tensor] = {
            "node": rows,
            "parent": parent,
            "level": self.level[rows],
            "altitude": self.altitude[rows],
            "area": area,
            # A pixel has four sides; an edge inside a region hides two of them.
            "perimeter": 4 * area - 2 * self.volume[rows].to(torch.int64),
        }
        columns |= dict(zip(("top", "left", "bottom", "right"), self.box[rows].unbind(1), strict=True))
        means = self.mean[:, self.content] if values is None else _means_of(self, values)
        columns |= {f"mean_{channel}": means[rows, channel] for channel in range(means.shape[1])}
        return {name: column.cpu().numpy() for name, column in columns.items()}

    def to_higra(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Parents and altitudes as Higra has them: the root is its own parent; altitudes are M − 1 − rank.

        `higra.Tree(parents)` takes the first; a horizontal cut of the two is a nested cut of this tree.
        """
        parents = self.parent.to(torch.int64).cpu().numpy().copy()
        parents[-1] = parents.size - 1
        altitudes = np.zeros(parents.size)
        altitudes[self.leaves :] = self.leaves - 1 - self.rank.cpu().numpy()
        return parents, altitudes

    def to_linkage(self) -> NDArray[np.float64]:
        """The linkage matrix (M−1, 4) of SciPy: children, height (monotone, from the rank) and size of every inner node."""
        position = self.leaves - 2 - self.rank  # SciPy's rows come in the order of their height
        number = torch.cat((torch.arange(self.leaves, device=position.device), self.leaves + position))
        rows = torch.empty((self.leaves - 1, 4), dtype=torch.float64)
        columns = (number[self.left.to(torch.int64)], number[self.right.to(torch.int64)], position + 1, self.size[self.leaves :])
        rows[position.cpu()] = torch.stack([column.to(torch.float64) for column in columns], dim=1).cpu()
        return rows.numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tree as npz (format version 1, no pickle); the file appears whole or not at all.

        >>> import tempfile, numpy as np, pixtree
        >>> from pathlib import Path
        >>> tree = pixtree.hierarchy(np.eye(20))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     tree.save(Path(folder) / "tree.npz")
        ...     pixtree.Hierarchy.load(Path(folder) / "tree.npz").cut(tokens=7) == tree.cut(tokens=7)
        True
        """
        write_tree(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], backend: str = "auto") -> "Hierarchy":
        """Read a tree that `save` wrote."""
        return cls(backend=backend, **read_fields(path))


def _rows(tree: TreeStructure, count: int) -> Tensor:
    """The nodes of the nested cut, in the order of its labels, then the nodes that it splits, ascending: (2n − 1,) int64."""
    opened = opened_nodes(tree, Exactly(count))
    nodes, labels = tree.region_nodes(opened), tree.kernels.cut_labels(tree.parent, opened).to(torch.int64)
    regions = torch.empty(int(labels.max()) + 1, dtype=torch.int64, device=nodes.device)
    regions[labels] = nodes
    return torch.cat((regions, torch.nonzero(opened).flatten() + tree.leaves))


def _means_of(tree: TreeStructure, values: Any) -> Tensor:
    """Means (2M−1, C) of an array (H, W[, C]) or tensor (C, H, W) of any numbers over the pixels of every node."""
    planes = (
        arranged(values)
        if isinstance(values, Tensor)
        else channels_first(np.asarray(values), "auto" if np.ndim(values) == 2 else -1)
    )
    if planes.ndim != 3 or tuple(planes.shape[1:]) != tree.shape:
        raise ValueError(
            f"values must have the tree's height and width, {tree.shape}, got shape {tuple(np.shape(values))}; resize them"
        )
    leaves = planes.to(torch.float32).to(tree.parent.device)[:, tree.inside]
    means: Tensor = tree.kernels.moments(leaves.contiguous(), tree.left, tree.right)[0]
    return means
