"""The spectral step: one eigenvector, by iterations or densely, and what happens where there is none."""

import numpy as np
import pytest
from scipy.linalg import eigh

from pixtree.tasks.token_graph import DENSE, cut_vector


def random_affinity(count, seed=0):
    features = np.random.default_rng(seed).normal(size=(count, 5))
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    return np.maximum(unit @ unit.T, 1e-5)


def by_definition(affinity, size):
    """(D − W) x = μ D x, by the generalised solver."""
    weighted = affinity * np.outer(size, size)
    degree = np.diag(weighted.sum(axis=1))
    _, vectors = eigh(degree - weighted, degree)
    second = vectors[:, 1] - np.average(vectors[:, 1], weights=size)
    return second * np.sign(second[np.abs(second).argmax()])


@pytest.mark.parametrize("count", [3, 20, DENSE + 1, 150])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_vector_is_the_generalised_eigenvector(count, seed):
    size = np.random.default_rng(seed).integers(1, 40, count).astype(float)
    affinity = random_affinity(count, seed)
    found, wanted = cut_vector(affinity, size), by_definition(affinity, size)
    assert np.allclose(found / np.abs(found).max(), wanted / np.abs(wanted).max(), atol=1e-6)


def test_the_largest_entry_is_positive_and_the_mean_by_size_is_zero():
    size = np.arange(1.0, 101.0)
    vector = cut_vector(random_affinity(100), size)
    assert vector[np.abs(vector).argmax()] > 0
    assert abs(np.average(vector, weights=size)) < 1e-12


def test_two_groups_fall_apart_whatever_their_sizes():
    affinity = np.full((7, 7), 1e-5)
    affinity[:3, :3] = affinity[3:, 3:] = 1.0
    side = cut_vector(affinity, np.array([1.0, 2, 3, 40, 5, 6, 7])) > 0
    assert len(set(side[:3])) == len(set(side[3:])) == 1
    assert side[0] != side[3]


def test_of_two_sides_of_equal_height_the_first_is_positive():
    affinity = np.kron(np.eye(2), np.ones((3, 3))) + 1e-5
    assert (cut_vector(affinity, np.ones(6)) > 0).tolist() == [True] * 3 + [False] * 3


@pytest.mark.parametrize("size", [2, DENSE])
def test_three_pieces_without_any_link_are_cut_the_same_way_every_time(size):
    affinity = np.kron(np.eye(3), np.ones((size, size)))
    vector = cut_vector(affinity, np.ones(3 * size))
    assert np.isfinite(vector).all()
    assert vector.any()
    assert np.allclose(vector.reshape(3, size), vector.reshape(3, size)[:, :1])  # a piece is never torn
    assert (vector == cut_vector(affinity.copy(), np.ones(3 * size))).all()


@pytest.mark.parametrize("count", [1, 3, 30, DENSE + 10])
def test_equal_affinities_and_single_tokens_have_no_cut(count):
    assert not cut_vector(np.full((count, count), 0.3), np.ones(count)).any()


def test_a_token_without_affinity_is_on_no_side():
    affinity = np.zeros((6, 6))
    affinity[:5, :5] = random_affinity(5)
    vector = cut_vector(affinity, np.ones(6))
    assert vector[5] == 0
    assert np.allclose(vector[:5], cut_vector(affinity[:5, :5], np.ones(5)))
    assert not cut_vector(np.zeros((4, 4)), np.ones(4)).any()


def test_two_tokens_are_two_sides():
    assert (cut_vector(np.array([[1.0, 0.2], [0.2, 1.0]]), np.ones(2)) > 0).tolist() == [True, False]
