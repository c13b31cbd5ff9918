"""Region tables: the nodes of a cut and all above them, as columns that pandas takes as they are."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images.arrays import arranged, channels_first
from pixtree.trees.cuts import Exactly, opened_nodes
from pixtree.trees.structure import TreeStructure

Table = dict[str, NDArray[Any]]


def region_table(tree: TreeStructure, tokens: int | None = None, values: Any = None) -> Table:
    """Columns of equal length, one row per region; see `Hierarchy.table`. O(pixels)."""
    rows = _rows(tree, tree.leaves if tokens is None else tokens)
    place = torch.full((2 * tree.leaves,), -1, dtype=torch.int64, device=rows.device)
    place[rows] = torch.arange(len(rows), device=rows.device)
    parent = place[tree.parent.to(torch.int64)[rows]]  # the root's is -1, and the last place is nobody's
    area = tree.size[rows].to(torch.int64)
    columns: dict[str, Tensor] = {
        "node": rows,
        "parent": parent,
        "level": tree.level[rows],
        "altitude": tree.altitude[rows],
        "area": area,
        # A pixel has four sides; an edge inside a region hides two of them.
        "perimeter": 4 * area - 2 * tree.volume[rows].to(torch.int64),
    }
    columns |= dict(zip(("top", "left", "bottom", "right"), tree.box[rows].unbind(1), strict=True))
    means = tree.mean[:, tree.content] if values is None else _means_of(tree, values)
    columns |= {f"mean_{channel}": means[rows, channel] for channel in range(means.shape[1])}
    return {name: column.cpu().numpy() for name, column in columns.items()}


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
