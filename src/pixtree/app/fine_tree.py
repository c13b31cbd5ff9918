"""The top of a tree, small enough to send: a fine cut, the merges above it, and the numbers of every region.

Nodes of this small tree are numbered so that cuts need no search. Inner node r is the one of rank r, so that the cut with n regions
opens the nodes 0 … n − 2; the N regions of the fine cut follow as nodes N − 1 … 2N − 2. A parent's number is always smaller.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.app.pictures import Picture
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.partition import Partition

NONE = 65_535  # the parent of the root
Arrays = dict[str, NDArray[Any]]


def fine_tree(tree: Hierarchy, picture: Picture, regions: int) -> Arrays:
    """The cut with at most `regions` regions and all that lies above it.

    labels (H, W); per node parent, area in pixels, colour (mean R, G, B), spread (standard deviation of Lab), box (top, left,
    bottom, right), level; and per border of two regions of the fine cut the count of regions from which on it is a boundary.
    """
    count = min(regions, tree.leaves)
    partition = tree.cut(tokens=count)
    labels = partition.labels[0].numpy()
    rank = tree.rank.numpy()
    opened = np.flatnonzero(rank < count - 1)
    inner = np.empty_like(opened)
    inner[rank[opened]] = opened
    children = _children(tree, inner, rank, labels)
    parent = np.full(2 * count - 1, NONE, np.uint16)
    parent[children] = np.arange(count - 1, dtype=np.uint16)[:, None]
    values = _region_values(labels, picture, tree.features.numpy(), count)
    level = np.concatenate((tree.level.numpy()[tree.leaves + inner], np.zeros(count, np.int16)))
    return {
        "labels": labels.astype(np.uint16),
        "parent": parent,
        "level": level.astype(np.uint8),
        **_node_values(children, *values, partition.boxes().numpy()),
        **_borders(partition.adjacency()[0].numpy(), parent, count),
    }


def partition_values(partition: Partition, picture: Picture) -> Arrays:
    """Labels of any partition of one image and the numbers of its regions, named like those of a tree's nodes."""
    labels = partition.labels[0].numpy()
    count = int(labels.max()) + 1
    area, colour, _ = _sums(labels, np.moveaxis(picture, -1, 0).reshape(3, -1), count)
    return {
        "labels": labels.astype(np.uint16),
        "area": area.astype(np.uint32),
        "colour": _mean_colours(colour, area),
        "box": partition.boxes().numpy().astype(np.uint16),
    }


def _children(tree: Hierarchy, inner: NDArray[np.int64], rank: NDArray[np.int64], labels: NDArray[np.int32]) -> NDArray[np.int64]:
    """Both children of each inner node, (N − 1, 2), by their numbers in the small tree."""
    count, leaves, absorbed = len(inner), tree.leaves, tree.right.numpy()
    node = np.stack((tree.left.numpy()[inner], absorbed[inner]), axis=1).astype(np.int64)
    number = np.where(node >= leaves, rank[np.maximum(node - leaves, 0)], count)
    fine = np.flatnonzero(number.ravel() >= count)
    leaf = node.ravel()[fine]
    while len(above := np.flatnonzero(leaf >= leaves)):  # any pixel of a region tells its label; absorbed children are shallow
        leaf[above] = absorbed[leaf[above] - leaves]
    number.ravel()[fine] = count + labels.ravel()[leaf]
    return number


def _sums(labels: NDArray[np.int32], planes: NDArray[Any], count: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Pixels (N,) of each region, and sums and sums of squares (N, C) of planes (C, H·W) over it."""
    place = labels.ravel()
    sums = np.stack([np.bincount(place, plane, count) for plane in planes], axis=1)
    squares = np.stack([np.bincount(place, np.square(plane, dtype=np.float64), count) for plane in planes], axis=1)
    return np.bincount(place, minlength=count), sums, squares


def _region_values(
    labels: NDArray[np.int32], picture: Picture, features: NDArray[np.float32], count: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sums (N, 10) over the regions of the fine cut: pixels, R, G, B, three features, and the squares of these."""
    area, colour, _ = _sums(labels, np.moveaxis(picture, -1, 0).reshape(3, -1), count)
    _, sums, squares = _sums(labels, features[:3], count)
    return area, np.concatenate((area[:, None], colour, sums, squares), axis=1)


def _node_values(children: NDArray[np.int64], area: NDArray[Any], sums: NDArray[Any], boxes: NDArray[np.int32]) -> Arrays:
    """Values of all nodes from those of the fine regions: children have larger numbers, so one pass from the end does."""
    count = len(area)
    total = np.concatenate((np.zeros((count - 1, sums.shape[1])), sums))
    corners = np.concatenate((np.zeros((count - 1, 4), np.int32), boxes))
    corners[:, 2:] *= -1  # then the union of boxes is a minimum
    for node in range(count - 2, -1, -1):
        left, right = children[node]
        total[node] = total[left] + total[right]
        corners[node] = np.minimum(corners[left], corners[right])
    corners[:, 2:] *= -1
    size, colours = total[:, 0], total[:, 1:4]
    channels = (total.shape[1] - 4) // 2
    means, squares = total[:, 4 : 4 + channels] / size[:, None], total[:, 4 + channels :] / size[:, None]
    spread = np.sqrt(np.maximum(squares - means**2, 0.0).sum(axis=1))
    return {
        "area": size.astype(np.uint32),
        "colour": _mean_colours(colours, size),
        "spread": spread.astype(np.float32),
        "box": corners.astype(np.uint16),
    }


def _mean_colours(sums: NDArray[Any], area: NDArray[Any]) -> NDArray[np.uint8]:
    colours: NDArray[np.uint8] = (sums / area[:, None] + 0.5).astype(np.uint8)
    return colours


def _borders(pairs: NDArray[Any], parent: NDArray[np.uint16], count: int) -> Arrays:
    """Pairs of fine regions that touch, and the count of regions from which on their border is a boundary."""
    first, second = pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.int64)
    a, b = first + count - 1, second + count - 1
    while len(apart := np.flatnonzero(a != b)):  # the larger number is never an ancestor of the other: climb from there
        climbing = a[apart] > b[apart]
        a[apart] = np.where(climbing, parent[a[apart]], a[apart])
        b[apart] = np.where(climbing, b[apart], parent[b[apart]])
    return {
        "border_first": first.astype(np.uint16),
        "border_second": second.astype(np.uint16),
        "border_count": (a + 2).astype(np.uint16),
    }
