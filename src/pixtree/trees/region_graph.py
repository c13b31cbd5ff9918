"""RegionGraph: the regions of a fine nested cut and the tree above them, small enough to be solved while a mouse moves."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import Kernels, kernels_for
from pixtree.trees.partition import Partition
from pixtree.trees.structure import TreeStructure

REGIONS = 4000  # fine enough for the borders of objects, coarse enough for a minimum cut in milliseconds


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionGraph:
    """The N regions of the nested cut with N regions, the E pairs of them that touch, and the nodes of the tree above them.

    Regions are numbered as in the cut, by first pixel. Inner nodes come after them, children before parents, as in the tree.
    """

    labels: NDArray[np.int32]  # (H, W), −1 outside the mask
    size: NDArray[np.int64]  # (N,) pixels
    mean: NDArray[np.float32]  # (N, C), of all planes but pixel coordinates
    centre: NDArray[np.float64]  # (N, 2) mean row and column
    pairs: NDArray[np.int64]  # (E, 2), first < second
    length: NDArray[np.int64]  # (E,) pixel edges that the two share
    appears: NDArray[np.int64]  # (E,) count of regions from which on nested cuts keep the two apart
    parent: Tensor  # (2N−1,) int32, −1 at the root
    left: Tensor  # (N−1,) int32
    right: Tensor  # (N−1,) int32
    rank: NDArray[np.int64]  # (N−1,) order in which nested cuts open the inner nodes
    kernels: Kernels

    def __len__(self) -> int:
        return int(self.size.size)

    def cut(self, count: int) -> NDArray[np.int64]:
        """The region of the nested cut with min(count, N) regions in which each of the N regions lies, (N,)."""
        opened = torch.from_numpy(self.rank < min(count, len(self)) - 1)
        return self.kernels.cut_labels(self.parent, opened).numpy().astype(np.int64)

    def counts(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Pixels of a mask (H, W) in each region, (N,)."""
        labels = self.labels[mask]
        return np.bincount(labels[labels >= 0], minlength=len(self))

    def paint(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        """Values (N,) of the regions painted over their pixels, (H, W); 0 outside the mask."""
        return np.append(values, values.dtype.type(0))[self.labels]  # label −1 is the last entry


def region_graph(tree: TreeStructure, count: int = REGIONS) -> RegionGraph:
    """The graph of the nested cut with `count` regions, fewer where the tree has fewer pixels. O(M log M)."""
    opened = tree.rank < min(max(count, tree.pieces), tree.leaves) - 1
    labels = tree.over_pixels(tree.kernels.cut_labels(tree.parent, opened), -1).cpu()
    nodes = tree.region_nodes(opened).cpu()
    kernels = kernels_for(tree.backend, nodes.device)
    leaf = labels[tree.inside.cpu()].to(torch.int64)
    parent, left, right = _top(tree, opened.cpu(), nodes, leaf)
    pairs, length = Partition(labels[None]).adjacency()
    rank = tree.rank.cpu()[opened.cpu()].numpy()
    joins = kernels.joins(parent, pairs[:, 0], pairs[:, 1]).numpy() - left.numel() - 1
    number, size = leaf.numpy(), np.bincount(leaf.numpy())
    rows, columns = np.nonzero(labels.numpy() >= 0)
    planes = tree.features.cpu().numpy()[tree.content]
    return RegionGraph(
        labels=labels.numpy(),
        size=size,
        mean=np.stack([np.bincount(number, plane) / size for plane in planes], axis=1).astype(np.float32),
        centre=np.stack([np.bincount(number, axis) / size for axis in (rows, columns)], axis=1),
        pairs=pairs.numpy(),
        length=length.numpy(),
        appears=rank[joins] + 2,
        parent=parent,
        left=left,
        right=right,
        rank=rank,
        kernels=kernels,
    )


def _top(tree: TreeStructure, opened: Tensor, nodes: Tensor, leaf_labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Parent and children of the tree above a cut: its regions by their labels, then the opened nodes.

    nodes: the region's node of every leaf, (M,). leaf_labels: its label, (M,).
    """
    inner = torch.nonzero(opened).flatten()
    count = inner.numel() + 1
    number = torch.full((2 * tree.leaves - 1,), -1, dtype=torch.int32)
    number[nodes] = leaf_labels.to(torch.int32)
    number[inner + tree.leaves] = torch.arange(count, 2 * count - 1, dtype=torch.int32)
    left, right = (number[child.cpu()[inner].to(torch.int64)] for child in (tree.left, tree.right))
    parent = torch.full((2 * count - 1,), -1, dtype=torch.int32)
    for child in (left, right):
        parent[child.to(torch.int64)] = number[inner + tree.leaves]
    return parent, left, right
