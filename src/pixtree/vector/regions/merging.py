"""Regions of a drawing: Ward's agglomeration, cheapest pair first, of the small regions that the pixel tree finds.

The tree's rounds merge every region at once, which is fast but blind to order. Above a few dozen pixels per region the order pays:
it gains half a decibel at equal counts, and outlines are shorter. So the tree makes the small regions; this file merges them one by
one. The result is a list of merges, not a `Hierarchy`: its leaves are the small regions, and it is only cut by count.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined, kernel, part

Array = NDArray[Any]
FEW_NEIGHBOURS = 64  # regions with more re-price their edges only when one of them comes up


@dataclass(frozen=True, eq=False)
class Agglomeration:
    """Every count of regions from `fewest` to `most`, nested: merge k joins region `absorbed[k]` into `kept[k]`.

    base: (H, W) int32, −1 outside; growth: (K,) float64, what merge k adds to the weighted squared error.
    """

    base: NDArray[np.int32]
    most: int
    kept: NDArray[np.int32]
    absorbed: NDArray[np.int32]
    growth: NDArray[np.float64]

    @property
    def fewest(self) -> int:
        """Number of pieces that do not touch."""
        return self.most - len(self.kept)

    def labels(self, count: int) -> NDArray[np.int32]:
        """The label map (H, W) int32 with `count` regions, numbered by first pixel; −1 outside."""
        merges = self.most - min(max(count, self.fewest), self.most)
        return np.asarray(relabel(self.base, self.most, self.kept[:merges], self.absorbed[:merges]))

    def slope(self, count: int) -> float:
        """Squared error that one more region would save at `count` regions, smoothed over neighbouring counts."""
        if not len(self.growth):
            return 0.0
        middle = self.most - min(max(count, self.fewest), self.most)
        reach = max(count // 20, 5)
        window = self.growth[max(middle - reach, 0) : middle + reach]
        return float(window.mean()) if len(window) else 0.0


def agglomerate(base: NDArray[np.int32], planes: Array, weights: Array, length_exponent: float = 0.5) -> Agglomeration:
    """Merge adjacent regions of a label map (H, W), least W_a W_b / (W_a + W_b) · ‖Δμ‖² / L^β first, until none touch.

    planes: (C, H, W) float32 colours; weights: (H, W) float32 of the pixels; L the shared pixel edges. O(E log E).
    """
    count = int(base.max()) + 1
    weight, mean = weighted_means(base, planes, weights, count)
    first, second, length = adjacency(base, count)
    kept, absorbed, growth = merge_cheapest_first(first, second, length, weight, mean, length_exponent)
    return Agglomeration(base, count, kept, absorbed, growth)


@kernel
def relabel(base: Array, count: int, kept: Array, absorbed: Array) -> Array:
    """Labels after the merges, numbered by first pixel."""
    above = np.arange(count).astype(np.int32)
    for k in range(len(kept)):
        above[absorbed[k]] = kept[k]
    for k in range(len(kept) - 1, -1, -1):  # what a later merge absorbs is already resolved
        above[absorbed[k]] = above[kept[k]]
    number = np.full(count, -1, np.int32)
    labels = np.full(base.shape, -1, np.int32)
    found = 0
    for y in range(base.shape[0]):
        for x in range(base.shape[1]):
            if base[y, x] < 0:
                continue
            region = above[base[y, x]]
            if number[region] < 0:
                number[region] = found
                found += 1
            labels[y, x] = number[region]
    return labels


@kernel
def weighted_means(labels: Array, planes: Array, weights: Array, count: int) -> tuple[Array, Array]:
    """Weights (N,) and weighted mean colours (N, C) of regions, float64."""
    channels = planes.shape[0]
    weight = np.zeros(count)
    mean = np.zeros((count, channels))
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            region = labels[y, x]
            if region >= 0:
                weight[region] += weights[y, x]
                for c in range(channels):
                    mean[region, c] += weights[y, x] * planes[c, y, x]
    for region in range(count):
        for c in range(channels):
            mean[region, c] /= weight[region]
    return weight, mean


@kernel
def adjacency(labels: Array, count: int) -> tuple[Array, Array, Array]:
    """Pairs of touching regions, first < second (E,) int32 each, and the pixel edges they share (E,) float32."""
    height, width = labels.shape
    start = np.zeros(count + 1, np.int32)
    for y in range(height):
        for x in range(width):
            for down in range(2):
                if y + down < height and x + 1 - down < width:
                    a, b = labels[y, x], labels[y + down, x + 1 - down]
                    if a != b and a >= 0 and b >= 0:
                        start[min(a, b) + 1] += 1
    for region in range(count):
        start[region + 1] += start[region]
    other = np.empty(start[count], np.int32)
    place = start[:-1].copy()
    for y in range(height):
        for x in range(width):
            for down in range(2):
                if y + down < height and x + 1 - down < width:
                    a, b = labels[y, x], labels[y + down, x + 1 - down]
                    if a != b and a >= 0 and b >= 0:
                        other[place[min(a, b)]] = max(a, b)
                        place[min(a, b)] += 1
    first, second, length = np.empty(len(other), np.int32), np.empty(len(other), np.int32), np.empty(len(other), np.float32)
    seen = np.full(count, -1, np.int32)
    edges = 0
    for region in range(count):
        begin = edges
        for k in range(start[region], start[region + 1]):
            edge = seen[other[k]]
            if edge >= begin:
                length[edge] += 1
            else:
                seen[other[k]] = edges
                first[edges], second[edges], length[edges] = region, other[k], 1
                edges += 1
    return first[:edges].copy(), second[:edges].copy(), length[:edges].copy()


@inlined
def push(heap_cost: Array, heap_edge: Array, size: int, cost: float, edge: int) -> Any:
    """Add an entry to a heap of (cost, edge); returns the new size."""
    hole = size
    while hole > 0:
        above = (hole - 1) >> 1
        if heap_cost[above] <= cost:
            break
        heap_cost[hole], heap_edge[hole] = heap_cost[above], heap_edge[above]
        hole = above
    heap_cost[hole], heap_edge[hole] = cost, edge
    return size + 1


@inlined
def drop_top(heap_cost: Array, heap_edge: Array, size: int) -> Any:
    """Remove the cheapest entry; returns the new size."""
    size -= 1
    cost, edge = heap_cost[size], heap_edge[size]
    hole = 0
    while True:
        below = 2 * hole + 1
        if below >= size:
            break
        if below + 1 < size and heap_cost[below + 1] < heap_cost[below]:
            below += 1
        if heap_cost[below] >= cost:
            break
        heap_cost[hole], heap_edge[hole] = heap_cost[below], heap_edge[below]
        hole = below
    heap_cost[hole], heap_edge[hole] = cost, edge
    return size


@inlined
def ward_growth(a: int, b: int, weight: Array, mean: Array) -> Any:
    """W_a W_b / (W_a + W_b) · ‖Δμ‖²."""
    squared = 0.0
    for c in range(mean.shape[1]):
        step = mean[a, c] - mean[b, c]
        squared += step * step
    return weight[a] * weight[b] / (weight[a] + weight[b]) * squared


@inlined
def price(a: int, b: int, length: float, weight: Array, mean: Array, exponent: float) -> Any:
    """Growth of the squared error over the shared length to the power β."""
    divisor = sqrt(length) if exponent == 0.5 else length**exponent
    return np.float32(ward_growth(a, b, weight, mean) / divisor)


@inlined
def unlink(half: int, region: int, head: Array, following: Array, before: Array, degree: Array) -> None:
    """Take a half-edge out of its region's list."""
    if before[half] >= 0:
        following[before[half]] = following[half]
    else:
        head[region] = following[half]
    if following[half] >= 0:
        before[following[half]] = before[half]
    degree[region] -= 1


@inlined
def link(half: int, region: int, head: Array, following: Array, before: Array, degree: Array) -> None:
    """Put a half-edge in front of its region's list."""
    following[half] = head[region]
    before[half] = -1
    if head[region] >= 0:
        before[head[region]] = half
    head[region] = half
    degree[region] += 1


@inlined
def edge_between(a: int, b: int, ends: Array, head: Array, following: Array, degree: Array) -> Any:
    """The edge of two regions or −1, searched from the side with fewer neighbours."""
    if degree[a] > degree[b]:
        a, b = b, a
    half = head[a]
    while half >= 0:
        if ends[half ^ 1] == b:
            return half >> 1
        half = following[half]
    return -1


@kernel
def merge_cheapest_first(
    first: Array, second: Array, length: Array, weight: Array, mean: Array, exponent: float
) -> tuple[Array, Array, Array]:
    """Merge regions kept[k], absorbed[k] and the growth of the squared error, in order; weight and mean end as scratch.

    Half-edges 2e and 2e + 1 stand in the lists of the two ends of edge e. One function, because its dozen arrays would otherwise be
    arguments of every part. The heap may hold outdated costs: an entry counts only if it equals the edge's present cost, and an
    edge whose regions have grown since goes back with its new cost.
    """
    count, edges = len(weight), len(first)
    ends = np.empty(2 * edges, np.int32)
    head = np.full(count, -1, np.int32)
    following, before = np.empty(2 * edges, np.int32), np.empty(2 * edges, np.int32)
    degree = np.zeros(count, np.int32)
    cost = np.empty(edges, np.float32)
    room = 4 * edges + 64
    heap_cost, heap_edge = np.empty(room, np.float32), np.empty(room, np.int32)
    size = 0
    for edge in range(edges):
        ends[2 * edge], ends[2 * edge + 1] = first[edge], second[edge]
        link(2 * edge, first[edge], head, following, before, degree)
        link(2 * edge + 1, second[edge], head, following, before, degree)
        cost[edge] = price(first[edge], second[edge], length[edge], weight, mean, exponent)
        size = push(heap_cost, heap_edge, size, cost[edge], edge)
    kept, absorbed, growth = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count)
    merges = 0
    while size > 0:
        known, edge = heap_cost[0], heap_edge[0]
        size = drop_top(heap_cost, heap_edge, size)
        if cost[edge] != known:
            continue
        a, b = ends[2 * edge], ends[2 * edge + 1]
        present = price(a, b, length[edge], weight, mean, exponent)
        if present > known:
            cost[edge] = present
            size = push(heap_cost, heap_edge, size, present, edge)
            continue
        if degree[a] < degree[b]:
            a, b = b, a
        kept[merges], absorbed[merges], growth[merges] = a, b, ward_growth(a, b, weight, mean)
        merges += 1
        both = weight[a] + weight[b]
        for c in range(mean.shape[1]):
            mean[a, c] += (mean[b, c] - mean[a, c]) * (weight[b] / both)
        weight[a] = both
        unlink(2 * edge if ends[2 * edge] == a else 2 * edge + 1, a, head, following, before, degree)
        cost[edge] = -1
        half = head[b]
        while half >= 0:
            after = following[half]
            one, other = half >> 1, ends[half ^ 1]
            if one != edge:
                twin = edge_between(a, other, ends, head, following, degree)
                if twin >= 0:
                    length[twin] += length[one]
                    unlink(half ^ 1, other, head, following, before, degree)
                    cost[one] = -1
                else:
                    ends[half] = a
                    link(half, a, head, following, before, degree)
                    twin = one
                cost[twin] = price(a, other, length[twin], weight, mean, exponent)
                size = push(heap_cost, heap_edge, size, cost[twin], twin)
            half = after
        if degree[a] <= FEW_NEIGHBOURS:
            half = head[a]
            while half >= 0:
                one = half >> 1
                present = price(a, ends[half ^ 1], length[one], weight, mean, exponent)
                if present < cost[one]:
                    cost[one] = present
                    size = push(heap_cost, heap_edge, size, present, one)
                half = following[half]
        if size > room - 2 * edges - FEW_NEIGHBOURS:
            size = without_outdated(heap_cost, heap_edge, size, cost)
    return kept[:merges].copy(), absorbed[:merges].copy(), growth[:merges].copy()


@part()
def without_outdated(heap_cost: Array, heap_edge: Array, size: int, cost: Array) -> int:
    """Drop the outdated entries of the heap; returns the new size."""
    valid = 0
    for k in range(size):
        known, edge = heap_cost[k], heap_edge[k]
        if cost[edge] == known:
            valid = push(heap_cost, heap_edge, valid, known, edge)
    return valid
