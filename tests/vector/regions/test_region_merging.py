"""Ward's agglomeration of small regions."""

import numpy as np
import torch
from pictures import noise, photo

from pixtree.trees.partition import Partition
from pixtree.vector.regions.growing import grow_regions, pixel_weights
from pixtree.vector.regions.merging import agglomerate, drop_top, push, weighted_means, without_outdated


def brute_force(base, planes, weights, exponent=0.5):
    """Growth of every merge, by looking at all pairs each time."""
    labels, growths = base.copy(), []
    while labels.max() > 0:
        best = (np.inf, None, None)
        adjacent = set()
        for a, b in ((labels[:, :-1], labels[:, 1:]), (labels[:-1], labels[1:])):
            adjacent |= {tuple(sorted(pair)) for pair in zip(a[a != b].tolist(), b[a != b].tolist(), strict=True)}
        for a, b in sorted(adjacent):
            at_a, at_b = labels == a, labels == b
            weight = weights[at_a].sum(), weights[at_b].sum()
            mean = [(planes[:, at] * weights[at]).sum(axis=1) / weights[at].sum() for at in (at_a, at_b)]
            growth = weight[0] * weight[1] / sum(weight) * ((mean[0] - mean[1]) ** 2).sum()
            length = (at_a[:, :-1] & at_b[:, 1:]).sum() + (at_b[:, :-1] & at_a[:, 1:]).sum()
            length += (at_a[:-1] & at_b[1:]).sum() + (at_b[:-1] & at_a[1:]).sum()
            best = min(best, (growth / length**exponent, (a, b), growth))
        growths.append(best[2])
        labels[labels == best[1][1]] = best[1][0]
        labels = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    return growths


def test_the_cheapest_pair_merges_first():
    planes = noise(5, 6).numpy().astype(np.float32)
    base = np.arange(30, dtype=np.int32).reshape(5, 6)
    weights = np.random.default_rng(1).uniform(0.5, 2, (5, 6)).astype(np.float32)
    found = agglomerate(base, planes, weights)
    np.testing.assert_allclose(found.growth, brute_force(base, planes, weights), rtol=1e-4)


def test_counts_are_exact_nested_and_connected():
    planes = photo(height=40, width=50).float()
    regions = grow_regions(planes, most=60)
    fine, coarse = regions.labels(60), regions.labels(20)
    assert fine.max() + 1 == 60
    assert coarse.max() + 1 == 20
    assert len(np.unique(fine * 100 + coarse)) == 60  # each fine region lies in one coarse region
    assert Partition.from_labels(fine) == Partition(torch.from_numpy(fine)[None])


def test_pieces_that_do_not_touch_stay_apart():
    base = np.array([[0, 1, -1, 2], [0, 1, -1, 3]], np.int32)
    planes, weights = np.zeros((3, 2, 4), np.float32), np.ones((2, 4), np.float32)
    regions = agglomerate(base, planes, weights)
    assert regions.fewest == 2
    assert (regions.labels(1)[:, 2] == -1).all()


def test_flat_surroundings_weigh_more_than_texture():
    planes = torch.cat((torch.full((3, 30, 30), 90.0), noise(30, 30).float()), dim=2)
    weights = pixel_weights(planes)
    assert weights[15, 5] > 3 * weights[15, 55]
    assert abs(float(weights.mean()) - 1) < 1e-4


def test_a_heap_gives_its_entries_cheapest_first():
    costs = np.random.default_rng(0).permutation(60).astype(np.float32)
    heap_cost, heap_edge, size = np.empty(60, np.float32), np.empty(60, np.int32), 0
    for edge, cost in enumerate(costs):
        size = push(heap_cost, heap_edge, size, cost, edge)
    found = []
    while size > 0:
        assert costs[heap_edge[0]] == heap_cost[0]
        found.append(float(heap_cost[0]))
        size = drop_top(heap_cost, heap_edge, size)
    assert found == sorted(costs.tolist())


def test_a_heap_that_is_tidied_has_the_entries_of_present_costs_alone():
    cost = np.array([9, 2, 5, 4, 7], np.float32)  # edges 0 and 2 had other costs before
    heap_cost, heap_edge = np.array([1, 2, 3, 4, 5, 7, 9], np.float32), np.array([0, 1, 2, 3, 2, 4, 0], np.int32)
    size = without_outdated(heap_cost, heap_edge, 7, cost)
    entries = zip(heap_cost[:size].tolist(), heap_edge[:size].tolist(), strict=True)
    assert sorted(entries) == [(2, 1), (4, 3), (5, 2), (7, 4), (9, 0)]
    children = np.arange(1, size)
    assert (heap_cost[(children - 1) // 2] <= heap_cost[children]).all()


def test_means_of_regions_are_weighted_by_their_pixels():
    rng = np.random.default_rng(0)
    labels, planes = rng.integers(-1, 4, (9, 7)).astype(np.int32), rng.uniform(0, 255, (3, 9, 7)).astype(np.float32)
    weights = rng.uniform(0.1, 1, (9, 7)).astype(np.float32)
    weight, mean = weighted_means(labels, planes, weights, 4)
    for region in range(4):
        at = labels == region
        assert np.isclose(weight[region], weights[at].sum())
        assert np.allclose(mean[region], np.average(planes[:, at], axis=1, weights=weights[at]))
