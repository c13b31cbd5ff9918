"""Layers: shapes that do not touch share one, so that six or fewer hold them all and the layers can be painted in any order.

Painting all layers with a stroke in reverse, then without one forwards, leaves in a pixel that shapes A (below) and B share the
colour a·A + b·B, a and b their areas: A's stroke underneath gives back exactly what B's soft edge lets through. No hairline
remains, and edges lie where they should at any zoom.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import kernel

Array = NDArray[Any]


def layers_of(arcs: PlanarMap) -> NDArray[np.int32]:
    """The layer (N,) int32 of every shape, from 0: no two shapes with a common arc share one. O(A)."""
    inner = (arcs.left >= 0) & (arcs.right >= 0)
    layers: NDArray[np.int32] = colour_smallest_last(arcs.left[inner], arcs.right[inner], arcs.count)
    return layers


@kernel
def colour_smallest_last(first: Array, second: Array, count: int) -> Array:
    """Colours of a planar graph's vertices, at most six: take away a vertex of least degree (at most 5), again and again; give
    colours in the opposite order, each the first that its neighbours do not have."""
    start = np.zeros(count + 1, np.int32)
    for edge in range(len(first)):
        start[first[edge] + 1] += 1
        start[second[edge] + 1] += 1
    for vertex in range(count):
        start[vertex + 1] += start[vertex]
    neighbour, place = np.empty(2 * len(first), np.int32), start[:-1].copy()
    for edge in range(len(first)):
        for a, b in ((first[edge], second[edge]), (second[edge], first[edge])):
            neighbour[place[a]] = b
            place[a] += 1
    seen, degree = np.full(count, -1, np.int32), np.zeros(count, np.int32)
    for vertex in range(count):  # two shapes may share several arcs: count each neighbour once
        end = start[vertex]
        for k in range(start[vertex], start[vertex + 1]):
            if seen[neighbour[k]] != vertex:
                seen[neighbour[k]] = vertex
                neighbour[end] = neighbour[k]
                end += 1
        degree[vertex] = end - start[vertex]
    # A small degree is found by looking at the vertices whose degree has just fallen below six.
    ready, order = np.empty(count + 1, np.int32), np.empty(count, np.int32)
    queued, removed = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    left = degree.copy()
    waiting, taken = 0, 0
    for vertex in range(count):
        if left[vertex] <= 5:
            ready[waiting] = vertex
            queued[vertex] = True
            waiting += 1
    while waiting > 0:
        waiting -= 1
        vertex = ready[waiting]
        removed[vertex] = True
        order[taken] = vertex
        taken += 1
        for k in range(start[vertex], start[vertex] + degree[vertex]):
            other = neighbour[k]
            if not removed[other]:
                left[other] -= 1
                if left[other] <= 5 and not queued[other]:
                    ready[waiting] = other
                    queued[other] = True
                    waiting += 1
    colour = np.full(count, -1, np.int32)
    for k in range(taken - 1, -1, -1):
        vertex = order[k]
        used = 0
        for j in range(start[vertex], start[vertex] + degree[vertex]):
            if colour[neighbour[j]] >= 0:
                used |= 1 << colour[neighbour[j]]
        found = 0
        while used >> found & 1:
            found += 1
        colour[vertex] = found
    return colour
