"""Kernel-weighted aggregation: every contribution by its own picked edge, differentiable, stable, one image at a time."""

import pytest
import torch
from pictures import constant, photo
from torch.library import opcheck
from tree_rounds import rounds_of

from pixtree.kernels import kernels_for, operators
from pixtree.kernels.tokens.aggregate import MODES, SIMILARITIES, Grown, Kernel
from pixtree.kernels.tokens.aggregate.definition import group_softmax
from pixtree.kernels.tree import MOST_LEVELS
from pixtree.tokenizer.aggregation import Similarity, region_features
from pixtree.tokenizer.cutting import Cuts, Distance
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Exactly, cut_labels, is_whole
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition

PAPER = Criterion("aicc", rule="pixel", nodes="levels", penalty=0.05)
PHOTOS = [photo(height=7, width=8), photo("coffee", 7, 8)]
WEIGHT, PRECISION = (torch.tensor(value, dtype=torch.float64) for value in (0.7, 0.4))
DEFINED = kernels_for("torch")


def batch_of(images, budget, similarity="likelihood"):
    """Labels (B, P) and levels (B, 4, L) of the cuts of images."""
    trees = [hierarchy_of_image(image, TreeOptions(similarity), picks=True) for image in images]
    labels = torch.stack([cut_labels(tree, budget).flatten() for tree in trees])
    levels = torch.empty((len(images), 4, 2 * labels.shape[1] + MOST_LEVELS), dtype=torch.int32)
    for tree, kept in zip(trees, levels, strict=True):
        DEFINED.tree_levels(tree.tree, kept)
    return trees, labels, levels


@pytest.fixture(scope="module")
def example():
    """Two small photos in nine regions, with random features in float64."""
    _, labels, levels = batch_of(PHOTOS, Exactly(9))
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(2, 3, 56, generator=generator, dtype=torch.float64)
    fixed = torch.randn(2, 2, 56, generator=generator, dtype=torch.float64)
    return features, fixed, labels, levels


def aggregate(
    example, mode, similarity="gaussian", kernels=DEFINED, weight=WEIGHT, precision=PRECISION, features=None, compared=None
):
    values, fixed, labels, levels = example
    values = values if features is None else features
    count = int(labels.max()) + 1
    return kernels.aggregate(values, fixed, Grown(labels, count, levels), Kernel(weight, precision, similarity, compared), mode)


def test_members_pick_inside_their_component_and_components_halve():
    (tree,), _, levels = batch_of([photo(height=24, width=30)], Exactly(12))
    regions = 24 * 30
    for members in rounds_of(levels[0], regions):
        assert members.component.numel() == regions
        assert torch.equal(members.component[members.pick], members.component)
        assert 2 * members.groups <= regions
        regions = members.groups
    assert regions == 1
    assert len(rounds_of(levels[0], 24 * 30)) == tree.levels


def test_a_member_has_picked_its_most_similar_neighbour_under_the_gaussian_kernel():
    (tree,), _, levels = batch_of([photo(height=16, width=20)], Exactly(1), "gaussian")
    second = rounds_of(levels[0], 320)[1]
    partition = tree.at_level(1)
    pairs, _ = partition.adjacency()
    means = kernels_for().region_means(tree.features[None], partition.labels.flatten(1), int(partition.counts[0]))[0]
    for u in range(20):
        neighbours = torch.cat((pairs[pairs[:, 0] == u, 1], pairs[pairs[:, 1] == u, 0]))
        distance = (means[neighbours] - means[u]).square().sum(1)
        chosen = (means[int(second.pick[u])] - means[u]).square().sum()
        assert float(chosen) == pytest.approx(float(distance.min()), rel=1e-4, abs=1e-4)


def test_the_mean_and_the_straight_value_are_exactly_the_means(example):
    features, fixed, labels, levels = example
    expected = DEFINED.region_means(features, labels, 9)
    for mode in ("mean", "straight"):
        assert torch.allclose(aggregate(example, mode), expected, atol=1e-12)
    cuts = Cuts(Partition(labels.view(2, 7, 8)), 9, True, True, fixed, levels)
    found = region_features(features, cuts, Similarity(), Distance(compared=2), "straight", kernels_for())
    assert torch.allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("mode", ["raw", "normalised", "mean"])
def test_gradients_agree_with_finite_differences(mode, similarity):
    _, labels, levels = batch_of([photo(height=4, width=5)], Exactly(3))
    generator = torch.Generator().manual_seed(0)
    features, fixed = (torch.randn(1, 2, 20, generator=generator, dtype=torch.float64) for _ in range(2))
    scalars = (WEIGHT.clone().requires_grad_(), PRECISION.clone().requires_grad_())

    def pooled(values, weight, precision):
        return aggregate((values, fixed, labels, levels), mode, similarity, weight=weight, precision=precision)

    assert torch.autograd.gradcheck(pooled, (features.requires_grad_(), *scalars), fast_mode=True)


def test_the_straight_gradient_is_that_of_the_normalised_weights_at_the_value_of_the_mean(example):
    """By hand for one group of two pixels: dL/df_u = share + ∂w_u/∂f · f."""
    features = torch.tensor([[[1.0, 3.0]]], dtype=torch.float64, requires_grad=True)
    levels = torch.zeros((1, 4, 4 + MOST_LEVELS), dtype=torch.int32)
    levels[0, 0, :2] = torch.tensor([1, 0])
    levels[0, 1, :2] = torch.tensor([0, 1])
    levels[0, 2, :2] = torch.tensor([0, 2])
    levels[0, 3, :3] = torch.tensor([0, 2, 3])
    labels = torch.zeros((1, 2), dtype=torch.int32)
    pooled = DEFINED.aggregate(features, features[:, :0], Grown(labels, 1, levels), Kernel(WEIGHT, PRECISION))
    assert pooled.tolist() == [[[2.0]]]
    (gradient,) = torch.autograd.grad(pooled.sum(), features)
    assert torch.allclose(gradient, torch.tensor([[[0.5, 0.5]]], dtype=torch.float64))  # equal distances: the softmax stays ½, ½


@pytest.mark.parametrize("compared", [None, 1, 2])
def test_the_fused_gradient_is_that_of_the_definition(example, compared):
    coefficients = torch.randn(2, 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    results = []
    for kernels in (kernels_for("numba"), DEFINED):
        leaves = [one.clone().requires_grad_() for one in (example[0], WEIGHT, PRECISION)]
        values, *scalars = leaves
        known = {"kernels": kernels, "compared": compared, "weight": scalars[0], "precision": scalars[1]}
        pooled = aggregate(example, "straight", features=values, **known)
        results.append(torch.autograd.grad((pooled * coefficients).sum(), leaves))
    for a, b in zip(*results, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
        assert bool((a != 0).any())


def test_kernels_see_only_the_features_that_are_compared(example):
    """Changing another feature of all pixels changes that feature's values and no other."""
    changed = example[0].clone()
    changed[:, 2] += torch.randn(2, 56, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    for similarity in SIMILARITIES:
        before, after = (aggregate(example, "raw", similarity, features=one, compared=2) for one in (example[0], changed))
        assert torch.equal(before[..., :2], after[..., :2])
        assert not torch.allclose(before[..., 2], after[..., 2])


def test_the_operator_is_well_behaved(example):
    features, fixed, labels, levels = example
    scalars = (WEIGHT.clone().requires_grad_(), PRECISION.clone().requires_grad_())
    opcheck(operators.straight_means, (features.clone().requires_grad_(), fixed, *scalars, labels, 9, levels, 2))
    opcheck(operators.raw_sums, (features, fixed, WEIGHT, PRECISION, labels, 9, levels, 2))


def test_no_gradient_crosses_images(example):
    for mode in MODES:
        planes = example[0].clone().requires_grad_()
        aggregate(example, mode, features=planes)[0].square().sum().backward()
        assert bool((planes.grad[0] != 0).any())
        assert bool((planes.grad[1] == 0).all())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e4])
def test_nothing_is_nan_at_any_scale_of_features(mode, similarity, scale):
    images = [photo(height=12, width=14), constant(12, 14)]
    _, labels, levels = batch_of(images, Exactly(10))
    planes = (torch.stack(images).flatten(2).to(torch.float32) / 255 * scale).requires_grad_()
    example = planes, torch.zeros(2, 0, 168), labels, levels
    scalars = {"weight": torch.tensor(1.0), "precision": torch.tensor(0.5)}
    pooled = aggregate(example, mode, similarity, **scalars)
    pooled.square().sum().backward()
    assert bool(pooled.isfinite().all())
    assert bool(planes.grad.isfinite().all())


@pytest.mark.parametrize("mode", ["mean", "straight"])
def test_torn_regions_take_the_means_of_their_own_pixels(mode):
    """The learned colour and the mean colour of a region belong to one set of pixels, whole node or not."""
    (tree,), labels, levels = batch_of([photo(height=24, width=24)], PAPER, "gaussian")
    assert not is_whole(PAPER)
    assert int(labels.max()) > 20
    features = tree.features[None].to(torch.float64)
    pooled = aggregate((features, features[:, :0], labels, levels), mode)
    assert torch.allclose(pooled, DEFINED.region_means(features, labels, pooled.shape[1]), atol=1e-9)


def test_pieces_of_a_region_that_never_meet_are_averaged_by_their_pixels():
    """Four pixels in two pairs; the region holds one whole pair and half of the other."""
    levels = torch.zeros((1, 4, 8 + MOST_LEVELS), dtype=torch.int32)
    levels[0, 0, :6] = torch.tensor([1, 0, 3, 2, 1, 0])
    levels[0, 1, :6] = torch.tensor([0, 1, 2, 3, 0, 1])
    levels[0, 2, :5] = torch.tensor([0, 2, 4, 0, 2])
    levels[0, 3, :4] = torch.tensor([0, 4, 6, 7])
    labels = torch.tensor([[0, 0, 0, 1]], dtype=torch.int32)
    features = torch.tensor([[[1.0, 2.0, 6.0, 9.0]]], dtype=torch.float64)
    for mode in ("mean", "straight"):
        found = DEFINED.aggregate(features, features[:, :0], Grown(labels, 2, levels), Kernel(WEIGHT, PRECISION), mode)
        assert found.tolist() == [[[3.0], [9.0]]]


def test_regions_that_no_tree_made_take_plain_means(example):
    features, _, labels, _ = example
    cuts = Cuts(Partition(labels.view(2, 7, 8)), 9, True, False)
    assert torch.equal(
        region_features(features, cuts, Similarity(), 0.7, "raw", kernels_for()), kernels_for().region_means(features, labels, 9)
    )


def test_the_softmax_of_groups_adds_up_to_one_even_far_from_zero():
    weights = group_softmax(torch.tensor([[-1e9, -1e9, 5.0]]), torch.tensor([[0, 0, 1]]), 2)
    assert weights.tolist() == [[0.5, 0.5, 1.0]]


def test_unknown_modes_and_kernels_are_refused(example):
    with pytest.raises(ValueError, match="straight, raw, normalised, mean"):
        aggregate(example, "sum")
    with pytest.raises(ValueError, match="gaussian, cosine, tanimoto"):
        Similarity("laplace")
