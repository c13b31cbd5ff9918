"""Sequential algorithms, written once in plain loops: the reference interprets them, and numba compiles the same source."""

from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np

Nodes = Sequence[Any]

# One record per inner node, so that a visit costs one cache line; the reference uses a list of dictionaries with the same keys.
HEAP_NODE = np.dtype(
    [("scale", "f8"), ("total", "f8"), ("left", "i4"), ("right", "i4"), ("spine", "i4"), ("count", "i4")], align=True
)
SPINE_LIMIT = 64  # the right spine of a leftist heap of r nodes is at most log2(r + 1) long


def join_heaps(a: int, b: int, nodes: Nodes, stack: MutableSequence[int]) -> int:
    """Root of two leftist heaps joined, largest (scale, id) on top; a negative root is the empty heap. O(log n)."""
    height = 0
    while a >= 0 and b >= 0:
        if nodes[a]["scale"] < nodes[b]["scale"] or (nodes[a]["scale"] == nodes[b]["scale"] and a < b):
            a, b = b, a
        stack[height] = a
        height += 1
        a = nodes[a]["right"]
    root = a if a >= 0 else b
    while height > 0:
        height -= 1
        node = stack[height]
        other = nodes[node]["left"]
        other_spine = nodes[other]["spine"] if other >= 0 else 0
        root_spine = nodes[root]["spine"] if root >= 0 else 0
        if other_spine < root_spine:
            nodes[node]["left"], nodes[node]["right"] = root, other
            nodes[node]["spine"] = other_spine + 1
        else:
            nodes[node]["right"] = root
            nodes[node]["spine"] = root_spine + 1
        root = node
    return root


def scale_set(left: Sequence[int], right: Sequence[int], gain: Sequence[float], nodes: Nodes, stack: MutableSequence[int]) -> None:
    """Fill the field `scale` with the price λ per region at which the optimal cut closes each inner node (CART's weakest link).

    Nodes come in creation order. A node starts with its own gain; while that is below the largest scale inside its subtree, that
    inner node is pooled into it and the scale becomes the mean gain of all pooled splits. What is left on the heaps is monotone, so
    opening nodes by decreasing (scale, id) opens parents first and gives the least energy at every vertex of its convex hull.
    """
    inner = len(gain)
    leaves = inner + 1
    for k in range(inner):
        heap = join_heaps(left[k] - leaves, right[k] - leaves, nodes, stack)
        total, count = float(gain[k]), 1
        scale = total
        while heap >= 0 and scale < nodes[heap]["scale"]:
            total += nodes[heap]["total"]
            count += nodes[heap]["count"]
            scale = total / count
            nodes[heap]["spine"] = 0  # pooled
            heap = join_heaps(nodes[heap]["left"], nodes[heap]["right"], nodes, stack)
        nodes[k]["scale"], nodes[k]["total"], nodes[k]["count"] = scale, total, count
        nodes[k]["left"], nodes[k]["right"], nodes[k]["spine"] = heap, -1, 1
    for k in range(inner - 1, -1, -1):
        for inside in (left[k] - leaves, right[k] - leaves):
            if inside >= 0 and nodes[inside]["spine"] == 0:
                nodes[inside]["scale"] = nodes[k]["scale"]
