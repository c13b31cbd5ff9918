"""Trees of weighted points, compiled: the rounds of the definition, image by image in threads, ending when merges do."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.tokens.cluster.definition import FAR, products_of_strips, strips
from pixtree.runtime.jit import inlined, kernel, part
from pixtree.runtime.threads import each, scratch

_f4 = np.float32


def cluster_labels(distances: Tensor, weights: Tensor, count: int, rounds: int, ward: bool) -> Tensor:
    """Which of `count` clusters each point is in, (B, n) int64; see the definition."""
    labels = torch.empty(weights.shape, dtype=torch.int64)
    between, mass, found = distances.detach().numpy(), weights.detach().contiguous().numpy(), labels.numpy()

    def of_image(image: int) -> None:
        distance = _square(mass.shape[1])
        _limit(between[image], distance)
        _cluster(distance, mass[image], count, rounds, ward, found[image])

    each(of_image, range(len(found)))
    return labels


def ward_labels(features: Tensor, weights: Tensor, count: int, rounds: int) -> Tensor:
    """Ward's tree of rows (B, n, D); see the definition. Distances are made where the tree then reads and changes them."""
    rows, labels = features.detach(), torch.empty(weights.shape, dtype=torch.int64)
    starts = [start for start, _ in strips(rows.shape[1])]
    parts = [products.numpy() for products in products_of_strips(rows)]
    squares, mass, found = rows.square().sum(dim=-1).numpy(), weights.detach().contiguous().numpy(), labels.numpy()

    def of_image(image: int) -> None:
        distance = _square(mass.shape[1])
        for start, products in zip(starts, parts, strict=True):
            _fill_strip(products[image], squares[image], start, distance)
        _cluster(distance, mass[image], count, rounds, True, found[image])

    each(of_image, range(len(found)))
    return labels


def _square(points: int) -> Any:
    """Scratch memory of this thread for the distances (n, n) of one image."""
    return scratch("tokens", points * points)[: points * points].view(np.float32).reshape(points, points)


@kernel
def _limit(distances, distance) -> None:
    """Copy distances (n, n); NaN is far away too."""
    for i in range(distances.shape[0]):
        for j in range(distances.shape[1]):
            d = distances[i, j]
            distance[i, j] = d if d <= _f4(FAR) else _f4(FAR)


@kernel
def _fill_strip(products, squares, start, distance) -> None:
    """Squared distances of the rows from `start` on, from their products with all that follow, on both sides of the diagonal."""
    rows, points = products.shape[0], squares.size
    for i in range(start, start + rows):
        own, line, row = squares[i], products[i - start], distance[i]
        for j in range(i + 1, points):
            d = own + squares[j] - line[j - start] * _f4(2.0)
            d = d if d <= _f4(FAR) else _f4(FAR)
            row[j] = d if d > _f4(0.0) else _f4(0.0)
        row[i] = _f4(0.0)
    for i in range(start, points):  # the mirror image, row by row
        for j in range(start, min(i, start + rows)):
            distance[i, j] = distance[j, i]


@kernel
def _cluster(distance, weights, count, rounds, ward, labels) -> None:
    """Labels of one image, whose distances (n, n) it overwrites; a cluster lives on as its first point."""
    points = weights.size
    weight, parent, alive = weights.copy(), np.arange(points), np.arange(points)
    lowest, pick, line = np.empty(points, np.float32), np.empty(points, np.int64), np.empty(points, np.float32)
    edges, pairs, spare = np.empty(points, np.int64), np.empty(points, np.int64), np.empty(points, np.int64)
    means = np.empty((points // 2, points), np.float32)
    missing, living = points - count, points
    for left in range(rounds - 1, -1, -1):
        if missing == 0:
            break
        _pick_cheapest(alive[:living], parent, distance, weight, ward, line, lowest, pick)
        found = 0
        for i in alive[:living]:
            if not (pick[pick[i]] == i and i > pick[i]):  # every picked pair once
                edges[found] = i
                found += 1
        _sort_by(lowest, edges[:found], spare)
        if left == 0:
            for place in range(min(missing, found)):
                parent[edges[place]] = pick[edges[place]]
            break
        merges = 0
        for place in range(min(missing, found)):
            i = edges[place]
            if pick[pick[i]] == i:
                pairs[merges] = i
                merges += 1
        _merge(pairs[:merges], alive[:living], parent, distance, weight, ward, pick, means, line)
        missing -= merges
        living = 0
        for i in range(points):
            if parent[i] == i:
                alive[living] = i
                living += 1
    _number(parent, labels)


@inlined
def _sort_by(values, points, spare) -> None:
    """Sort points by their values, NaN last, equals in their order; numba's own argsort takes seconds to compile."""
    width = 1
    while width < points.size:
        for start in range(0, points.size, 2 * width):
            middle, end = min(start + width, points.size), min(start + 2 * width, points.size)
            i, j = start, middle
            for place in range(start, end):
                a, b = values[points[min(i, points.size - 1)]], values[points[min(j, points.size - 1)]]
                if i < middle and (j >= end or not (b < a or (a != a and b == b))):
                    spare[place] = points[i]
                    i += 1
                else:
                    spare[place] = points[j]
                    j += 1
        for place in range(points.size):
            points[place] = spare[place]
        width *= 2


@inlined
def _pick_cheapest(alive, parent, distance, weight, ward, line, lowest, pick) -> None:
    """Every cluster's lowest cost and the cluster that has it, the first of equals."""
    points = line.size
    bits = line.view(np.int32)  # costs are not negative, so their bits have their order; the least of integers vectorises
    for i in alive:
        row, mine = distance[i], weight[i]
        if ward:
            for j in range(points):
                line[j] = row[j] * (mine * weight[j] / (mine + weight[j])) + _f4(0.0)  # no negative zeros
        else:
            for j in range(points):
                line[j] = row[j] + _f4(0.0)
        for j in range(points):
            line[j] = line[j] if parent[j] == j else _f4(np.inf)
        line[i] = _f4(np.inf)
        best = bits[0]
        for j in range(points):
            best = min(best, bits[j])
        place = 0
        while bits[place] != best:
            place += 1
        lowest[i], pick[i] = line[place], place


@inlined
def _merge(pairs, alive, parent, distance, weight, ward, pick, means, inner) -> None:
    """Merge the pairs of a round: distances and weights of the clusters that stay, parents of those that do not."""
    for x in range(pairs.size):
        i = pairs[x]
        j = pick[i]
        total = weight[i] + weight[j]
        own, share = weight[i] / total, weight[j] / total
        inner[x] = own * share * distance[i, j] if ward else _f4(0.0)
        mean, first, second = means[x], distance[i], distance[j]
        for q in range(first.size):
            mean[q] = own * first[q] + share * second[q]
    for x in range(pairs.size):
        parent[pick[pairs[x]]] = pairs[x]
    for x in range(pairs.size):
        i = pairs[x]
        for q in alive:
            if parent[q] == q:  # pairs among themselves are overwritten below
                value = max(means[x, q] - inner[x], _f4(0.0))
                distance[i, q] = value
                distance[q, i] = value
    for x in range(pairs.size):
        for y in range(pairs.size):
            i, k = pairs[x], pairs[y]
            if i < k:
                total = weight[k] + weight[pick[k]]
                both = weight[k] / total * means[x, k] + weight[pick[k]] / total * means[x, pick[k]]
                value = max(both - inner[x] - inner[y], _f4(0.0))
                distance[i, k] = value
                distance[k, i] = value
    for x in range(pairs.size):
        weight[pairs[x]] = weight[pairs[x]] + weight[pick[pairs[x]]]


@part(allocates=True)
def _number(parent, labels) -> None:
    """Labels from parents, clusters numbered by their first point."""
    points, found = parent.size, 0
    number = np.full(points, -1)
    for i in range(points):
        root = i
        while parent[root] != root:
            root = parent[root]
        if number[root] < 0:
            number[root] = found
            found += 1
        labels[i] = number[root]
