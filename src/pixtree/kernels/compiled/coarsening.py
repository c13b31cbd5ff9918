"""Trees of weighted points, compiled: the rounds of `reference.coarsening`, image by image in threads, ending when merges do."""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.reference.coarsening import FAR
from pixtree.runtime.jit import inlined, kernel
from pixtree.runtime.threads import each

_f4 = np.float32


def cluster_labels(distances: Tensor, weights: Tensor, count: int, rounds: int, ward: bool) -> Tensor:
    """Which of `count` clusters each point is in, (B, n) int64; see the reference."""
    labels = torch.empty(weights.shape, dtype=torch.int64)
    between, mass, found = distances.detach().numpy(), weights.detach().contiguous().numpy(), labels.numpy()
    each(lambda image: _cluster(between[image], mass[image], count, rounds, ward, found[image]), range(len(found)))
    return labels


@kernel
def _cluster(distances, weights, count, rounds, ward, labels) -> None:
    """Labels of one image; a cluster lives on as its first point."""
    points = weights.size
    distance = np.empty((points, points), np.float32)
    for i in range(points):
        for j in range(points):
            d = distances[i, j]
            distance[i, j] = d if d <= _f4(FAR) else _f4(FAR)  # NaN is far away too
    weight, parent, alive = weights.copy(), np.arange(points), np.arange(points)
    lowest, pick, line = np.empty(points, np.float32), np.empty(points, np.int64), np.empty(points, np.float32)
    edges, pairs = np.empty(points, np.int64), np.empty(points, np.int64)
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
        order = np.argsort(lowest[edges[:found]], kind="mergesort")
        if left == 0:
            for place in range(min(missing, found)):
                parent[edges[order[place]]] = pick[edges[order[place]]]
            break
        merges = 0
        for place in range(min(missing, found)):
            i = edges[order[place]]
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


@inlined
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
