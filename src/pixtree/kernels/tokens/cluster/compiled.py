"""Trees of weighted points, compiled: the rounds of the definition, image after image, ending when merges do.

A batch is one call. A round looks again only at clusters that have merged or whose pick has: the others compare what they had with
the clusters that have just been made, and find what a whole new search would.
"""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.tokens.cluster.definition import FAR, products_of_strips
from pixtree.runtime.jit import inlined, kernel, part
from pixtree.runtime.threads import each, scratch, spans

WORTH_A_THREAD = 2**20  # distances; waking a thread takes as long as clustering a few images of 200 tokens
TILE = 16  # points of a side of the squares that are mirrored at once
_f4 = np.float32
_STALE = np.float32(-1.0)  # in place of a lowest cost that is searched again: no cost is as low


def cluster_labels(distances: Tensor, weights: Tensor, count: int, rounds: int, ward: bool) -> Tensor:
    """Which of `count` clusters each point is in, (B, n) int64; see the definition."""
    between = distances.detach().contiguous()
    return _labels(between, between[:, :0], False, weights, count, rounds, ward)


def ward_labels(features: Tensor, weights: Tensor, count: int, rounds: int) -> Tensor:
    """Ward's tree of rows (B, n, D); see the definition. Compilers of whole models see one operator."""
    if torch.compiler.is_compiling():
        labels: Tensor = operators.ward_labels(features.detach(), weights.detach(), count, rounds)
        return labels
    return ward_labels_of_batch(features, weights, count, rounds)


def ward_labels_of_batch(features: Tensor, weights: Tensor, count: int, rounds: int) -> Tensor:
    """Implementation of the operator `ward_labels`. Distances are made where the tree then reads and changes them."""
    parts = products_of_strips(features.detach())
    second = parts[1] if len(parts) > 1 else parts[0][:, :0]
    return _labels(parts[0], second, True, weights, count, rounds, True)


def _labels(first: Tensor, second: Tensor, of_products: bool, weights: Tensor, count: int, rounds: int, ward: bool) -> Tensor:
    batch, points = weights.shape
    labels = torch.empty((batch, points), dtype=torch.int64)
    inputs = first.numpy(), second.numpy(), of_products, weights.detach().contiguous().numpy(), count, rounds, ward

    def of_images(span: tuple[int, int]) -> None:
        rows = points + points // 2  # distances, and means of the pairs of a round
        space = scratch("tokens", rows * points)[: rows * points].view(np.float32).reshape(rows, points)
        _cluster_images(*inputs, *span, space, labels.numpy())

    each(of_images, spans(batch, batch * points * points, WORTH_A_THREAD))
    return labels


@kernel
def _cluster_images(first, second, of_products, weights, count, rounds, ward, start, end, space, labels) -> None:
    """Labels of the images from `start` to `end`, from products of their rows in one or two strips, or from distances."""
    points = weights.shape[1]
    distance, means = space[:points], space[points:]
    squares = np.empty(points, np.float32)
    for image in range(start, end):
        if of_products:
            strip = first.shape[1]
            for i in range(points):
                squares[i] = first[image, i, i] if i < strip else second[image, i - strip, i - strip]
            for i in range(points):
                if i < strip:
                    _upper_row(first[image, i], squares, i, 0, distance[i])
                else:
                    _upper_row(second[image, i - strip], squares, i, strip, distance[i])
            _mirror(distance)
        else:
            for i in range(points):
                for j in range(points):
                    d = first[image, i, j]
                    distance[i, j] = d if d <= _f4(FAR) else _f4(FAR)  # NaN is far away too
        _cluster(distance, means, weights[image], count, rounds, ward, labels[image])


@inlined
def _upper_row(products, squares, i, start, row) -> None:
    """Squared distances of point i to all points after it, from its products with the points from `start` on."""
    own = squares[i]
    for j in range(i + 1, squares.size):
        d = own + squares[j] - products[j - start] * _f4(2.0)
        d = d if d <= _f4(FAR) else _f4(FAR)
        row[j] = d if d > _f4(0.0) else _f4(0.0)
    row[i] = _f4(0.0)


@inlined
def _mirror(distance) -> None:
    """The lower half of a symmetric matrix, tile by tile: a tile stays in the nearest cache."""
    points = distance.shape[0]
    for top in range(0, points, TILE):
        for left in range(0, top + 1, TILE):
            for i in range(top, min(top + TILE, points)):
                for j in range(left, min(left + TILE, i)):
                    distance[i, j] = distance[j, i]


@part(allocates=True)
def _cluster(distance, means, weights, count, rounds, ward, labels) -> None:
    """Labels of one image, whose distances (n, n) it overwrites; a cluster lives on as its first point."""
    points = weights.size
    weight, parent, alive = weights.copy(), np.arange(points), np.arange(points)
    lowest, pick, line = np.full(points, _STALE), np.empty(points, np.int64), np.empty(points, np.float32)
    edges, pairs, spare = np.empty(points, np.int64), np.empty(points, np.int64), np.empty(points, np.int64)
    missing, living = points - count, points
    for left in range(rounds - 1, -1, -1):
        if missing == 0:
            break
        for i in alive[:living]:
            if lowest[i] == _STALE:
                _search(i, parent, distance[i], weight, ward, line, lowest, pick)
        found = 0
        for i in alive[:living]:
            if not (pick[pick[i]] == i and i > pick[i]):  # every picked pair once
                edges[found] = i
                found += 1
        if found > missing:  # else all of them are among the cheapest
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
        if missing > 0:
            living = _look_again(pairs[:merges], alive[:living], parent, distance, weight, ward, line, lowest, pick, edges)
    _number(parent, labels)


@inlined
def _search(i, parent, row, weight, ward, line, lowest, pick) -> None:
    """A cluster's lowest cost and the cluster that has it, the first of equals; `line` keeps its costs, infinite to the dead."""
    points, mine = line.size, weight[i]
    bits = line.view(np.int32)  # costs are not negative, so their bits have their order; the least of integers vectorises
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
def _look_again(pairs, alive, parent, distance, weight, ward, line, lowest, pick, stale) -> int:
    """Picks after the merges of a round: those of merged clusters, and of all that a merge has not touched.

    The others are marked for a search. A cluster whose pick stays as it was has the lowest of its old cost and those of the
    clusters that have just been made. Returns how many clusters are alive, which come first in `alive`.
    """
    living, found = 0, 0
    for i in pairs:
        lowest[i] = lowest[pick[i]] = _STALE
    for i in alive:
        if parent[i] == i:
            alive[living] = i
            living += 1
            if lowest[i] != _STALE and lowest[pick[i]] == _STALE:
                stale[found] = i
                found += 1
    for i in stale[:found]:
        lowest[i] = _STALE
    for i in pairs:
        _search(i, parent, distance[i], weight, ward, line, lowest, pick)
        nearer = False
        for q in range(line.size):
            nearer |= line[q] <= lowest[q]
        if nearer:
            for q in alive[:living]:
                if line[q] < lowest[q] or (line[q] == lowest[q] and i < pick[q]):
                    lowest[q], pick[q] = line[q], i
    return living


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
