"""Trees of weighted points: both backends are equal, counts exact, and the rounds give the tree of one merge after another."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import fcluster, linkage

from pixtree.kernels import kernels_for

compiled, reference = kernels_for("numba"), kernels_for("torch")

ENOUGH = 50  # rounds after which no merge is missing, for the sizes here


def points(seed, batch=3, count=24, width=4, levels=None):
    random = np.random.default_rng(seed)
    values = random.normal(size=(batch, count, width)) if levels is None else random.integers(0, levels, (batch, count, width))
    return torch.from_numpy(values.astype(np.float32))


def between(values):
    return (values[:, :, None] - values[:, None]).square().sum(dim=-1)


def one_by_one(distance, weights, count, ward):
    """Merge the cheapest pair again and again: one image, float64, every cost from the distances of single points."""
    distance, mass = distance.double().numpy(), weights.double().numpy()
    members = [[i] for i in range(len(mass))]
    while len(members) > count:
        pairs = [(cost(distance, mass, members[a], members[b], ward), a, b) for b in range(len(members)) for a in range(b)]
        _, first, second = min(pairs)
        members[first] += members.pop(second)
    labels = torch.empty(len(mass), dtype=torch.int64)
    for label, group in enumerate(sorted(members, key=min)):
        labels[group] = label
    return labels


def cost(distance, mass, first, second, ward):
    """Average linkage, or Ward's cost as the rise of the weighted sum of squares."""

    def mean(a, b):
        return mass[a] @ distance[np.ix_(a, b)] @ mass[b] / (mass[a].sum() * mass[b].sum())

    if not ward:
        return mean(first, second)
    u, v = mass[first].sum(), mass[second].sum()
    return (mean(first, second) - 0.5 * mean(first, first) - 0.5 * mean(second, second)) * u * v / (u + v)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.sampled_from([1, 2, 3, 8]), st.booleans(), st.sampled_from([None, 2, 3]))
@settings(max_examples=40, deadline=None)
def test_both_backends_give_the_same_labels_and_the_exact_count(seed, size, rounds, ward, levels):
    values = points(seed, count=size, levels=levels)
    weights = torch.from_numpy(np.random.default_rng(seed).random((3, size)).astype(np.float32)) + 0.01
    for count in {size, size - 1, (size + 1) // 2, (3 * size + 3) // 4}:
        found = reference.cluster_labels(between(values), weights, count, rounds, ward)
        assert torch.equal(found, compiled.cluster_labels(between(values), weights, count, rounds, ward))
        for labels in found:
            assert labels.unique().tolist() == list(range(count))
            first = [labels.tolist().index(label) for label in range(count)]
            assert first == sorted(first)


@pytest.mark.parametrize("ward", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_rounds_give_the_tree_of_one_merge_after_another(seed, ward):
    values = points(seed, batch=1, count=20)
    weights = torch.from_numpy(np.random.default_rng(seed).random((1, 20)).astype(np.float32)) + 0.1
    for count in (19, 15, 12, 10):
        found = compiled.cluster_labels(between(values), weights, count, ENOUGH, ward)
        assert torch.equal(found[0], one_by_one(between(values)[0], weights[0], count, ward))


@pytest.mark.parametrize(("ward", "method"), [(True, "ward"), (False, "average")])
def test_with_equal_weights_it_is_the_tree_of_scipy(ward, method):
    values = points(7, batch=1, count=40)
    distance = between(values)
    table = linkage(values[0].double().numpy(), method, metric="euclidean" if ward else "sqeuclidean")
    for count in (36, 30, 20):
        expected = fcluster(table, count, "maxclust")
        found = reference.cluster_labels(distance, torch.ones(1, 40), count, ENOUGH, ward)[0].numpy()
        assert len(set(zip(expected.tolist(), found.tolist(), strict=True))) == count


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([1, 8]), st.sampled_from([None, 2]))
@settings(max_examples=40, deadline=None)
def test_rows_have_the_tree_of_their_distances_in_both_backends(seed, size, rounds, levels):
    values, weights = points(seed, count=size, width=6, levels=levels), torch.ones(3, size)
    count = (2 * size + 2) // 3
    found = reference.ward_labels(values, weights, count, rounds)
    assert torch.equal(found, compiled.ward_labels(values, weights, count, rounds))
    if levels is not None:  # products of small whole numbers are exact, so distances are the same however they are computed
        assert torch.equal(found, reference.cluster_labels(between(values), weights, count, rounds, True))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, 1e30])
def test_broken_rows_still_give_the_exact_count(value):
    values = points(7, batch=1, count=9)
    values[0, 4] = value
    found = [kernels.ward_labels(values, torch.ones(1, 9), 5, 4) for kernels in (reference, compiled)]
    assert torch.equal(found[0], found[1])
    assert int(found[0].max()) == 4


def test_few_rounds_are_enough_where_eight_are_given():
    values, weights = points(3, batch=2, count=64), torch.ones(2, 64)
    distance = between(values)
    assert torch.equal(
        compiled.cluster_labels(distance, weights, 52, 8, True), compiled.cluster_labels(distance, weights, 52, ENOUGH, True)
    )


def test_an_image_alone_has_the_labels_it_has_in_a_batch():
    distance, weights = between(points(5)), torch.rand(3, 24) + 0.1
    for kernels in (reference, compiled):
        together = kernels.cluster_labels(distance, weights, 15, 8, True)
        alone = [kernels.cluster_labels(distance[i : i + 1], weights[i : i + 1], 15, 8, True) for i in range(3)]
        assert torch.equal(together, torch.cat(alone))


def test_light_points_merge_before_heavy_ones():
    # Four points on a line, the two outer gaps equal: the pair with small weights goes first.
    places = torch.tensor([[[0.0], [1.0], [10.0], [11.0]]])
    for weights, expected in (([9.0, 9.0, 1.0, 1.0], [0, 1, 2, 2]), ([1.0, 1.0, 9.0, 9.0], [0, 0, 1, 2])):
        for kernels in (reference, compiled):
            assert kernels.cluster_labels(between(places), torch.tensor([weights]), 3, 8, True).tolist() == [expected]


def test_broken_distances_still_give_the_exact_count():
    for value in (torch.nan, torch.inf):
        distance = torch.full((1, 9, 9), value)
        for rounds in (1, 4):
            found = [kernels.cluster_labels(distance, torch.ones(1, 9), 5, rounds, True) for kernels in (reference, compiled)]
            assert torch.equal(found[0], found[1])
            assert int(found[0].max()) == 4
