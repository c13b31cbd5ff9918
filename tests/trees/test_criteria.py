"""Criteria follow their formulas."""

import math
from dataclasses import replace

import pytest
import torch
from pictures import constant, noise, photo

from pixtree.kernels.tree.criterion import definition
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.criteria import Criterion, likelihood_constant, misfit, scores
from pixtree.trees.cuts import Level, opened_nodes
from pixtree.trees.options import TreeOptions


def degrees_of_freedom(tree, single_volume=0.0):
    return definition.degrees_of_freedom(tree.size, tree.volume, tree.tree, single_volume)


@pytest.fixture(scope="module")
def tree():
    return hierarchy_of_image(photo(height=30, width=30))


@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("aic", lambda k, n, pixels: 2 * k),
        ("aicc", lambda k, n, pixels: 2 * k + 2 * k * (k + 1) / (pixels - k - 1)),
        ("bic", lambda k, n, pixels: k * math.log(pixels)),
        ("cic", lambda k, n, pixels: k * (math.log(n) + 1)),
    ],
)
def test_penalties_follow_their_formulas(tree, name, penalty):
    criterion = Criterion(name, penalty=0.3)
    for node in (-1, -2, -30):
        k = tree.edges[0].numel() / int(tree.volume[node])
        expected = float(misfit(tree, criterion)[node]) + 0.3 * penalty(k, int(tree.size[node]), tree.leaves)
        assert float(scores(tree, criterion)[node]) == pytest.approx(expected)


def test_two_pixel_regions_are_not_rewarded_by_aicc(tree):
    pair = int(torch.nonzero(tree.size == 2)[0])
    assert tree.edges[0].numel() > tree.leaves - 2
    assert math.isinf(float(scores(tree, Criterion("aicc"))[pair]))


def test_single_pixels_are_infinitely_complex_unless_told_otherwise(tree):
    assert torch.isinf(degrees_of_freedom(tree)[: tree.leaves]).all()
    assert degrees_of_freedom(tree, 0.5)[0] == 2 * tree.edges[0].numel()


def test_the_whole_image_has_one_degree_of_freedom(tree):
    assert float(degrees_of_freedom(tree)[-1]) == 1.0
    assert float(degrees_of_freedom(hierarchy_of_image(noise(1, 1)))[-1]) == 1.0


def test_constants_are_the_same_in_every_cut(tree):
    plain, full = Criterion(penalty=0.05), Criterion(penalty=0.05, constants=True)
    assert tree.cut(budget=plain) == tree.cut(budget=full)
    difference = misfit(tree, full) - misfit(tree, plain)
    assert torch.allclose(difference, tree.size.to(torch.float64) * 3 * math.log(2 * math.pi * math.e * 10.0))


def test_the_generalised_normal_of_shape_two_is_the_gaussian(tree):
    exact = misfit(tree, Criterion(shape=2.0))
    near = misfit(tree, Criterion(shape=2.0 + 1e-9))
    there = ~scores(tree, Criterion("aic", nodes="levels")).isnan()
    assert torch.allclose(exact[there], near[there], rtol=1e-4, atol=1e-2)
    assert torch.isnan(near[~there]).all()
    assert likelihood_constant(Criterion(shape=2.0)) == pytest.approx(math.log(2 * math.pi * math.e * 10.0))


@pytest.mark.parametrize("shape", [1.0, 0.5])
def test_other_shapes_use_the_pixels_of_the_region(tree, shape):
    node = tree.region_nodes(opened_nodes(tree, Level(2)))
    some = int(node[0])
    pixels = tree.features.T[node == some].to(torch.float64)
    power = shape * (pixels - pixels.mean(0)).abs().pow(shape).mean(0)
    scale = math.sqrt(10.0 * math.gamma(1 / shape) / math.gamma(3 / shape)) ** shape
    expected = 2 / shape * len(pixels) * torch.log1p(power / scale).sum()
    assert float(misfit(tree, Criterion(shape=shape))[some]) == pytest.approx(float(expected), rel=1e-4)


@pytest.mark.parametrize("shape", [2.0, 1.0, 0.5])
def test_the_cut_of_a_criterion_costs_less_than_any_level(tree, shape):
    criterion = Criterion(shape=shape, penalty=0.05)
    cost = scores(tree, criterion)
    best, *levels = (
        float(cost[tree.region_nodes(opened_nodes(tree, budget)).unique()].sum())
        for budget in (criterion, *(Level(level) for level in range(1, tree.levels + 1)))
    )
    assert best <= min(levels)
    assert best < max(levels)


def test_a_smaller_penalty_or_floor_gives_more_regions(tree):
    counts = [int(tree.cut(budget=Criterion(penalty=penalty)).counts) for penalty in (1.0, 0.1, 0.01)]
    assert counts[0] < counts[1] < counts[2]
    assert int(tree.cut(budget=Criterion(penalty=0.1, floor=1.0)).counts) > counts[1]


def test_one_colour_is_one_region():
    assert int(hierarchy_of_image(constant(20, 20)).cut(criterion="aicc").counts) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "mdl"}, "aic, aicc, bic, cic, got 'mdl'"),
        ({"rule": "best"}, "optimal, pixel, got 'best'"),
        ({"nodes": "some"}, "binary, levels, got 'some'"),
        ({"penalty": -1.0}, "penalty must be a positive number"),
        ({"floor": 0.0}, "floor must be a positive number"),
        ({"shape": math.nan}, "shape must be a positive number"),
        ({"single_volume": -1.0}, "from 0 up"),
    ],
)
def test_knobs_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        Criterion(**options)


def test_coordinates_shape_the_tree_but_are_no_evidence():
    """A constant picture is one region under every criterion, however compact its regions are to be."""
    for name in ("aic", "aicc", "bic", "cic"):
        tree = hierarchy_of_image(constant(48, 48), TreeOptions(compactness=0.1))
        assert tree.content == [0, 1, 2]
        assert int(tree.cut(criterion=name).counts) == 1


def test_the_misfit_of_a_compact_tree_is_that_of_its_colours_alone():
    tree = hierarchy_of_image(photo(height=24, width=24), TreeOptions(compactness=0.1))
    for criterion in (Criterion(), Criterion(constants=True), Criterion(shape=1.0)):
        fit = misfit(tree, criterion)
        colours = replace(tree, features=tree.features[:3], coordinates=(0, 0))
        known = ~fit.isnan()
        assert torch.allclose(fit[known], misfit(colours, criterion)[known])


def test_the_tokens_of_a_compact_tokenizer_follow_the_content():
    from pixtree.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer(Criterion(), width=8, positions=0)
    assert tokenizer.options.tree.compactness > 0
    assert tokenizer.partition(constant(64, 64)[None]).counts.tolist() == [1]


def test_saved_trees_remember_which_planes_are_coordinates(tmp_path):
    tree = hierarchy_of_image(constant(12, 12), TreeOptions(compactness=0.1))
    tree.save(tmp_path / "tree.npz")
    assert type(tree).load(tmp_path / "tree.npz").coordinates == (3, 5)


def test_constants_are_neutral_for_the_optimal_cut_and_not_for_the_pixel_rule():
    tree = hierarchy_of_image(photo(height=40, width=40), TreeOptions("gaussian"))
    cuts = {
        rule: [tree.cut(budget=Criterion(rule=rule, penalty=0.05, constants=constants)) for constants in (False, True)]
        for rule in ("optimal", "pixel")
    }
    assert cuts["optimal"][0] == cuts["optimal"][1]
    assert cuts["pixel"][0] != cuts["pixel"][1]
