"""Kernel-weighted aggregation: every contribution by its own picked edge, differentiable, stable, one image at a time."""

import pytest
import torch
from pictures import constant, photo
from torch.library import opcheck

from pixtree.kernels import kernels_for, operators
from pixtree.kernels.reference.straight_through import group_softmax
from pixtree.kernels.types import MOST_LEVELS, MergeRule
from pixtree.tokenizer.aggregation import KERNELS, MODES, Similarity, aggregate, region_features
from pixtree.tokenizer.ancestry import Ancestry, ancestry_of
from pixtree.tokenizer.cutting import Cuts
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.criteria import Criterion, level_nodes
from pixtree.trees.cuts import Exactly, Level, cut_tree
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition

PAPER = Criterion("aicc", rule="pixel", nodes="levels", penalty=0.05)


def batch_of(images, budget, similarity="likelihood"):
    trees = [hierarchy_of_image(image, TreeOptions(similarity=similarity), picks=True) for image in images]
    cuts = [cut_tree(tree, budget) for tree in trees]
    labels = torch.stack([cut.labels for cut in cuts])
    count = int(labels.max()) + 1
    ancestry = Ancestry.stack([ancestry_of(tree, cut) for tree, cut in zip(trees, cuts, strict=True)], count)
    return trees, labels, ancestry


PHOTOS = [photo(height=7, width=8), photo("coffee", 7, 8)]


def levels_of(images, count=9):
    """The levels of the images' trees."""
    shape = tuple(images[0].shape[1:])
    levels = torch.empty((len(images), 4, 2 * shape[0] * shape[1] + MOST_LEVELS), dtype=torch.int32)
    for image, kept in zip(images, levels, strict=True):
        kernels_for().exact_cut(kernels_for().lab(image), shape, MergeRule(), count, kept)
    return levels


def pooled_features(features, fixed, labels, count, ancestry, similarity, weight, mode):
    shape = (labels.shape[0], 1, labels.shape[1])
    cuts = Cuts(Partition(labels.view(shape)), count, True, fixed, None, ancestry)
    return region_features(features, cuts, similarity, weight, mode, kernels_for())


@pytest.fixture(scope="module")
def example():
    """Two small photos in nine regions, with random features in float64."""
    _, labels, ancestry = batch_of(PHOTOS, Exactly(9))
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 3, 56, generator=generator, dtype=torch.float64)
    fixed = torch.randn(2, 2, 56, generator=generator, dtype=torch.float64)
    return features, fixed, labels.flatten(1), ancestry


def with_kernel(kernel="gaussian"):
    return Similarity(kernel).double()


def test_members_are_levels_regions_inside_regions_and_picks_are_their_neighbours():
    (tree,), labels, ancestry = batch_of([photo(height=24, width=30)], Exactly(12))
    member = torch.nonzero(ancestry.group[0] >= 0).flatten()
    assert bool(level_nodes(tree)[member].all())
    partner, group = ancestry.partner[0][member].to(torch.int64), ancestry.group[0].to(torch.int64)
    assert torch.equal(group[partner], group[member])
    assert torch.equal(tree.level[partner], tree.level[member])
    flat = labels.flatten()
    assert torch.equal(ancestry.region[0][flat.to(torch.int64)].unique(), ancestry.region[0].sort().values)


def test_both_ways_to_an_ancestry_agree():
    (tree,), _, ancestry = batch_of([photo("coffee", 21, 26)], Exactly(17))
    group, partner = kernels_for("torch").trace(tree.tree, cut_tree(tree, Exactly(17)).opened)
    assert torch.equal(ancestry.group[0], group)
    assert torch.equal(ancestry.partner[0], partner)


def test_a_member_has_picked_its_most_similar_neighbour_under_the_gaussian_kernel():
    (tree,), _, ancestry = batch_of([photo(height=16, width=20)], Level(30), "gaussian")
    level_two = torch.nonzero((ancestry.group[0] >= 0) & (ancestry.level[0] == 1)).flatten()
    labels = tree.at_level(1)
    pairs, _ = labels.adjacency()
    first_pixel = torch.tensor([int(torch.nonzero(labels.labels.flatten() == region)[0]) for region in range(int(labels.counts))])
    node = first_pixel.clone()
    for _ in range(40):
        above = tree.parent[node].to(torch.int64)
        node = torch.where(tree.level[above] <= 1, above, node)
    for u in level_two[:20].tolist():
        mine = int(torch.nonzero(node == u))
        neighbours = torch.cat((pairs[pairs[:, 0] == mine, 1], pairs[pairs[:, 1] == mine, 0]))
        distance = (tree.mean[node[neighbours]] - tree.mean[u]).square().sum(1)
        chosen = (tree.mean[int(ancestry.partner[0, u])] - tree.mean[u]).square().sum()
        assert float(chosen) == pytest.approx(float(distance.min()), rel=1e-4, abs=1e-4)


def test_the_mean_and_the_straight_value_are_exactly_the_means(example):
    features, fixed, labels, ancestry = example
    expected = kernels_for().region_means(features, labels, 9)
    for mode in ("mean", "straight"):
        assert torch.allclose(aggregate(features, fixed, ancestry, with_kernel(), 0.7, mode), expected, atol=1e-12)
        assert torch.allclose(pooled_features(features, fixed, labels, 9, ancestry, with_kernel(), 0.7, mode), expected, atol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mode", ["raw", "normalised", "mean"])
def test_gradients_agree_with_finite_differences(example, mode, kernel):
    features, fixed, _, ancestry = example
    similarity = with_kernel(kernel)
    weight = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    sigma = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)

    def pooled(features, weight, sigma):
        names = {"log_sigma": sigma} if kernel == "gaussian" else {}
        return aggregate(features, fixed, ancestry, _Bound(similarity, names), weight, mode)

    assert torch.autograd.gradcheck(pooled, (features.clone().requires_grad_(), weight, sigma))


class _Bound:
    """A kernel whose weights are given."""

    def __init__(self, similarity, weights):
        self.similarity, self.weights, self.kernel = similarity, weights, similarity.kernel

    def __call__(self, *arguments):
        return torch.func.functional_call(self.similarity, self.weights, arguments)


@pytest.mark.parametrize("way", ["torch", "numba"])
def test_the_straight_gradient_over_levels_is_that_over_an_ancestry(example, way):
    features, fixed, labels, ancestry = example
    similarity, results, levels = with_kernel(), [], levels_of(PHOTOS)
    coefficients = torch.randn(2, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    for by_levels in (True, False):
        planes, weight = features.clone().requires_grad_(), torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        if by_levels:
            pooled = kernels_for(way).straight_means(planes, fixed, weight, similarity.precision, labels, 9, levels)
        else:
            pooled = aggregate(planes, fixed, ancestry, similarity, weight, "straight")
        results.append(torch.autograd.grad((pooled * coefficients).sum(), (planes, weight, similarity.log_sigma)))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
        assert bool((a != 0).any())


def test_the_operator_is_well_behaved(example):
    features, fixed, labels, _ = example
    weight, precision = (torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.7, 0.5))
    arguments = (labels, 9, levels_of(PHOTOS))
    opcheck(operators.straight_means, (features.clone().requires_grad_(), fixed, weight, precision, *arguments))


def test_no_gradient_crosses_images(example):
    features, fixed, labels, ancestry = example
    for mode in MODES:
        planes = features.clone().requires_grad_()
        pooled_features(planes, fixed, labels, 9, ancestry, with_kernel(), 0.7, mode)[0].square().sum().backward()
        assert bool((planes.grad[0] != 0).any())
        assert bool((planes.grad[1] == 0).all())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0, 1e4])
def test_nothing_is_nan_at_any_scale_of_features(mode, kernel, scale):
    images = [photo(height=12, width=14), constant(12, 14)]
    _, labels, ancestry = batch_of(images, Exactly(10))
    planes = (torch.stack(images).flatten(2).to(torch.float32) / 255 * scale).requires_grad_()
    similarity = Similarity(kernel)
    pooled = pooled_features(planes, torch.zeros(2, 0, 168), labels.flatten(1), 10, ancestry, similarity, 1.0, mode)
    pooled.square().sum().backward()
    assert bool(pooled.isfinite().all())
    assert bool(planes.grad.isfinite().all())


def test_torn_regions_take_the_feature_of_the_node_they_chose():
    (tree,), labels, ancestry = batch_of([photo(height=24, width=24)], PAPER, "gaussian")
    assert not ancestry.whole
    features = tree.features[None]
    pooled = aggregate(features, features[:, :0], ancestry, Similarity(), 1.0, "mean")
    assert torch.allclose(pooled[0], tree.mean[ancestry.region[0]], atol=1e-3)
    assert pooled.shape[1] == int(labels.max()) + 1


def test_regions_that_no_tree_made_take_plain_means(example):
    features, fixed, labels, _ = example
    assert torch.equal(
        pooled_features(features, fixed, labels, 9, None, with_kernel(), 0.7, "raw"),
        kernels_for().region_means(features, labels, 9),
    )


def test_the_softmax_of_groups_adds_up_to_one_even_far_from_zero():
    weights = group_softmax(torch.tensor([-1e9, -1e9, 5.0]), torch.tensor([0, 0, 1]), 2)
    assert weights.tolist() == [0.5, 0.5, 1.0]


def test_unknown_modes_and_kernels_are_refused(example):
    features, fixed, _, ancestry = example
    with pytest.raises(ValueError, match="straight, raw, normalised, mean"):
        aggregate(features, fixed, ancestry, with_kernel(), 1.0, "sum")
    with pytest.raises(ValueError, match="gaussian, cosine, tanimoto"):
        Similarity("laplace")
