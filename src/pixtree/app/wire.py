"""The binary form of answers, and the top of a tree, small enough to send: a fine cut, the merges above it, and values per region.

An answer is a line of JSON that names arrays, a picture, and the arrays' bytes, deflated:

    "pixtree1" | length of the header, uint32 | length of the picture, uint32 | header | picture | zlib stream of the arrays

Numbers are little-endian. The header has the arrays' names, types and shapes in their order, "arrays"; wider types come first, so
that every array starts at a multiple of its width.

Nodes of the small tree are numbered so that cuts need no search. Inner node r is the one of rank r, so that the cut with n regions
opens the nodes 0 … n − 2; the N regions of the fine cut follow as nodes N − 1 … 2N − 2. A parent's number is always smaller.
"""

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.app.uploads import Pixels
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.partition import Partition

MAGIC = b"pixtree1"
TYPES = {"uint8": "u1", "uint16": "<u2", "uint32": "<u4", "float32": "<f4"}
EFFORT = 1  # of zlib: label maps shrink to a fifth in a few milliseconds, and more effort gains little
NONE = 65_535  # the parent of the root
Arrays = dict[str, NDArray[Any]]


def packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], picture: bytes = b"") -> bytes:
    """Header, picture and arrays as one answer."""
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    listed = [{"name": name, "type": array.dtype.name, "shape": array.shape} for name, array in ordered]
    head = json.dumps({**header, "arrays": listed}, separators=(",", ":")).encode()
    body = zlib.compress(b"".join(array.astype(TYPES[array.dtype.name]).tobytes() for _, array in ordered), EFFORT)
    return MAGIC + struct.pack("<II", len(head), len(picture)) + head + picture + body


def unpacked(content: bytes) -> tuple[dict[str, Any], bytes, Arrays]:
    """Header, picture and arrays of an answer, for clients in Python."""
    if not content.startswith(MAGIC):
        raise ValueError(f"an answer starts with {MAGIC.decode()}, got {content[:8]!r}; use a server of this version")
    head, picture = struct.unpack_from("<II", content, len(MAGIC))
    start = len(MAGIC) + 8
    header = json.loads(content[start : start + head])
    body = zlib.decompress(content[start + head + picture :])
    arrays, place = {}, 0
    for part in header.pop("arrays"):
        kind, size = np.dtype(TYPES[part["type"]]), int(np.prod(part["shape"], dtype=np.int64))
        arrays[part["name"]] = np.frombuffer(body, kind, size, place).reshape(part["shape"])
        place += size * kind.itemsize
    return header, content[start + head : start + head + picture], arrays


def fine_tree(tree: Hierarchy, pixels: Pixels, regions: int) -> Arrays:
    """The cut with at most `regions` regions and all nodes above it.

    labels (H, W); per node parent, area in pixels, colour (mean R, G, B), spread (standard deviation of Lab), box (top, left,
    bottom, right), level; and for each pair of touching fine regions the count of regions from which on their border is a boundary.
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
    values = _region_values(labels, pixels, tree.features.numpy(), count)
    level = np.concatenate((tree.level.numpy()[tree.leaves + inner], np.zeros(count, np.int16)))
    return {
        "labels": labels.astype(np.uint16),
        "parent": parent,
        "level": level.astype(np.uint8),
        **_node_values(children, *values, partition.boxes().numpy()),
        **_borders(partition.adjacency()[0].numpy(), parent, count),
    }


def partition_values(partition: Partition, pixels: Pixels) -> Arrays:
    """Labels of any partition of one image and the values of its regions, named like those of a tree's nodes."""
    labels = partition.labels[0].numpy()
    count = int(labels.max()) + 1
    area, colour, _ = _sums(labels, np.moveaxis(pixels, -1, 0).reshape(3, -1), count)
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
    while len(above := np.flatnonzero(leaf >= leaves)):  # any pixel of a region has its label; absorbed children are shallow
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
    labels: NDArray[np.int32], pixels: Pixels, features: NDArray[np.float32], count: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sums (N, 10) over the regions of the fine cut: pixels, R, G, B, three features, and the squares of these."""
    area, colour, _ = _sums(labels, np.moveaxis(pixels, -1, 0).reshape(3, -1), count)
    _, sums, squares = _sums(labels, features[:3], count)
    return area, np.concatenate((area[:, None], colour, sums, squares), axis=1)


def _node_values(children: NDArray[np.int64], area: NDArray[Any], sums: NDArray[Any], boxes: NDArray[np.int32]) -> Arrays:
    """Values of all nodes from those of the fine regions, in one pass from the end, since children have larger numbers."""
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
    """Pairs of touching fine regions, and the count of regions from which on their border is a boundary."""
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
