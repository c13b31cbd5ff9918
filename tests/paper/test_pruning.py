"""The paper's pruning by information criteria, one test per equation; each names its label."""

import math

import pytest
import torch
from pictures import photo

from pixtree.kernels.tree.criterion import definition
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.criteria import Criterion, misfit, scores
from pixtree.trees.options import TreeOptions


def degrees_of_freedom(tree, single_volume=0.0):
    return definition.degrees_of_freedom(tree.size, tree.volume, tree.tree, single_volume)


@pytest.fixture(scope="module")
def tree():
    return hierarchy_of_image(photo(height=32, width=32), TreeOptions(similarity="gaussian"))


def test_eq_loglhsigma_is_the_gaussian_likelihood_at_its_maximum(tree):
    """`eq:loglhsigma`: log L = −|S|/2 (d log 2πe + log det Σ), with the floor φ added to every variance."""
    node = -5
    criterion = Criterion(constants=True, floor=1e-3)
    variance = tree.variance[node].to(torch.float64) + criterion.floor
    log_likelihood = -int(tree.size[node]) / 2 * (3 * math.log(2 * math.pi * math.e) + float(variance.log().sum()))
    assert float(misfit(tree, criterion)[node]) == pytest.approx(-2 * log_likelihood)


def test_apx_atoms_degrees_of_freedom_are_edges_over_volume(tree):
    """`apx:atoms`: df(S) ≈ |E| / Vol(S)."""
    edges = 32 * 31 * 2
    assert tree.edges[0].numel() == edges
    inner = slice(tree.leaves, None)
    assert torch.allclose(degrees_of_freedom(tree)[inner], edges / tree.volume[inner].to(torch.float64))


def test_eq_information_criteria_is_fit_plus_penalty(tree):
    """`eq:information_criteria`: IC = −2 log L + g(df)."""
    criterion = Criterion("aic")
    expected = misfit(tree, criterion) + 2 * degrees_of_freedom(tree)
    inner = slice(tree.leaves, None)
    assert torch.allclose(scores(tree, criterion)[inner], expected[inner])


def test_smaller_regions_are_penalised_more(tree):
    """Section *Hierarchical Pruning*: the penalty falls as regions grow."""
    k = degrees_of_freedom(tree)
    parent = tree.parent[:-1].to(torch.int64)
    assert bool((k[parent] <= k[:-1]).all())
