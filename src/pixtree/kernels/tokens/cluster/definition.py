"""Trees of weighted points (Ward, average linkage), cut at an exact count in a fixed number of rounds; plain torch on any device.

Two clusters with weights u and v and weighted means at squared distance d merge at Ward's cost d·uv/(u + v). Merging the cheapest
pair again and again is one step per merge; here a round takes every pair that can be proved to be part of the result. Every cluster
picks its cheapest partner. With k merges to go, let t be the cost of the k-th cheapest picked pair. Ward's cost is reducible: a
merge never brings a third cluster nearer than the nearer of its parts was, so no later cost is below a cluster's present cheapest
one, there are at most as many merges of cost ≤ t as there are picked pairs of cost ≤ t, and the k-th merge costs at least t. Hence
every mutual pair among the k cheapest picked pairs is merged by the one-by-one order too, sooner or later. The rounds that are
left do nothing once k merges are done; the last one, if merges are missing, contracts the cheapest picked pairs whether mutual or
not. Picked pairs form a forest of at least half as many edges as there are clusters, so any count from n / 2 up is reached exactly.
Average linkage, the weighted mean of the distances between two clusters' points, is reducible too, and the same rounds hold.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional

FAR = 1e30  # what counts as infinitely far: merges of it stay finite
LARGE = 128  # points from which on two smaller products are faster than a whole one


def ward_labels(features: Tensor, weights: Tensor, count: int, rounds: int) -> Tensor:
    """`cluster_labels` of Ward's tree of rows (B, n, D) float32 with weights (B, n)."""
    return cluster_labels(_squared_distances(features.detach()), weights, count, rounds, True)


def strips(points: int) -> list[tuple[int, int]]:
    """Rows of a symmetric matrix in one or two strips; of each only the part from the diagonal on is computed."""
    step = points if points < LARGE else -(-points // 2)
    return [(start, min(start + step, points)) for start in range(0, points, step)]


def products_of_strips(rows: Tensor) -> list[Tensor]:
    """Products (B, end − start, n − start) of the rows (B, n, D) of every strip with those from its first on."""
    return [rows[:, start:end] @ rows[:, start:].transpose(1, 2) for start, end in strips(rows.shape[1])]


def _squared_distances(rows: Tensor) -> Tensor:
    """Between all rows (B, n, D): (B, n, n), symmetric to the last bit; the diagonal carries no meaning."""
    parts = zip(strips(rows.shape[1]), products_of_strips(rows), strict=True)
    upper = torch.cat(
        [functional.pad(products, (start, 0)) for (start, _), products in parts], dim=1
    )  # no writes: exporters refuse them
    products = upper.triu(1)
    products = products + products.transpose(1, 2)
    squares = upper.diagonal(dim1=1, dim2=2)
    return (squares[:, :, None] + squares[:, None] - products * 2.0).clamp_min(0.0)


def cluster_labels(distances: Tensor, weights: Tensor, count: int, rounds: int, ward: bool) -> Tensor:
    """Which of `count` clusters each point is in, (B, n) int64, clusters numbered by their first point.

    distances: (B, n, n) float32, squared and symmetric; NaN is far away. weights: (B, n) float32, positive.
    count: n / 2 ≤ count ≤ n. ward: Ward's cost; else average linkage, where distances need not be squared. Distances are not
    negative; ties go to the lower number. O(rounds · n²), and nothing is read back to the host.
    """
    batch, points = weights.shape
    numbers = torch.arange(points, device=weights.device).expand(batch, points)
    distance, weight = distances.nan_to_num(FAR).clamp_max(FAR), weights
    alive, parent = torch.ones_like(numbers, dtype=torch.bool), numbers
    missing = torch.full((batch, 1), points - count, device=weights.device)
    for left in reversed(range(rounds)):
        lowest, pick = _picks(distance, weight, alive, ward)
        mutual = alive & (pick.gather(1, pick) == numbers)
        edge = alive & ~(mutual & (numbers > pick))  # every picked pair once
        chosen = edge & (_ranks(lowest.masked_fill(~edge, torch.inf)) < missing)
        if left == 0:
            parent = torch.where(chosen, pick, parent)
            break
        merging = chosen & mutual  # of a pair, the lower number stays
        partner = torch.where(merging, pick, numbers)
        distance, weight = _merged(distance, weight, partner, merging, ward)
        gone = torch.where(merging, pick, points)
        parent = _put(parent, gone, numbers)
        alive = _put(alive, gone, torch.zeros_like(alive))
        missing = missing - merging.sum(dim=1, keepdim=True)
    return number_roots(parent)


def _picks(distance: Tensor, weight: Tensor, alive: Tensor, ward: bool) -> tuple[Tensor, Tensor]:
    """Every cluster's lowest cost and the cluster that has it, the first of equals."""
    first, second = weight[:, :, None], weight[:, None]
    cost = distance * (first * second / (first + second)) if ward else distance
    itself = torch.eye(weight.shape[1], dtype=torch.bool, device=weight.device)
    barred = ~(alive[:, :, None] & alive[:, None]) | itself
    lowest, pick = cost.masked_fill(barred, torch.inf).min(dim=2)
    return lowest, pick


def _ranks(keys: Tensor) -> Tensor:
    """The place of every key among those of its row, ties by number; without a sort, for which ONNX has no stable form."""
    before = torch.ones(keys.shape[1], keys.shape[1], dtype=torch.bool, device=keys.device).tril(-1)  # j < i
    own, other = keys[:, :, None], keys[:, None]
    return ((other < own) | ((other == own) & before)).sum(dim=2)


def _merged(distance: Tensor, weight: Tensor, partner: Tensor, merging: Tensor, ward: bool) -> tuple[Tensor, Tensor]:
    """Distances between the clusters after all merges of a round, and the weights; rows of absorbed points are void."""
    other = weight.gather(1, partner)
    total = torch.where(merging, weight + other, weight)
    own = weight / total  # 1 for clusters that do not merge
    share = torch.where(merging, other / total, 0.0)
    between = distance.gather(2, partner[:, :, None])[:, :, 0]
    inner = torch.where(merging, own * share * between, 0.0) if ward else torch.zeros_like(weight)
    rows = own[:, :, None] * distance + share[:, :, None] * distance.gather(1, partner[:, :, None].expand_as(distance))
    both = own[:, None] * rows + share[:, None] * rows.gather(2, partner[:, None].expand_as(rows))
    upper = (both - inner[:, :, None] - inner[:, None]).clamp_min(0.0).triu(1)
    return upper + upper.transpose(1, 2), total


def _put(values: Tensor, places: Tensor, new: Tensor) -> Tensor:
    """Values (B, n) with `new` at `places`; the place n is nowhere."""
    padded = torch.cat((values, values[:, :1]), dim=1)
    return padded.scatter(1, places, new)[:, :-1]


def number_roots(parent: Tensor) -> Tensor:
    """Labels (B, n) from parents (B, n), where a root is its own parent; roots are numbered by their first point."""
    points = parent.shape[1]
    for _ in range(max(1, math.ceil(math.log2(max(points, 2))))):
        parent = parent.gather(1, parent)
    numbers = torch.arange(points, device=parent.device).expand_as(parent)
    first = torch.full_like(parent, points).scatter_reduce(1, parent, numbers, "amin").gather(1, parent)
    return ((first == numbers).cumsum(dim=1) - 1).gather(1, first)
