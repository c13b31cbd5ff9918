"""Exact cuts without the tree below them: the same labels, bit for bit, as from the whole tree; and the levels they keep."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import constant, noise, photo
from tree_rounds import rounds_of

import pixtree
from pixtree.kernels import kernels_for
from pixtree.kernels.tree import MOST_LEVELS, Cost, Energy, MergeRule
from pixtree.kernels.tree.prune import compiled as pruning

compiled, reference = kernels_for("numba"), kernels_for("torch")

COSTS = (Cost.GAUSSIAN, Cost.WARD, Cost.LIKELIHOOD)


def by_whole_tree(planes, shape, rule, count, kernels=compiled):
    tree = kernels.build(planes, torch.ones(shape, dtype=torch.bool), rule)
    return kernels.cut_labels(tree.parent, kernels.open_largest(tree.gain, tree.left, tree.right, count - 1))


def planes_of(image, channels=3, seed=0):
    """Lab and more planes like it, with a little noise; (channels, H·W)."""
    lab = compiled.lab(image)
    generator = torch.Generator().manual_seed(seed)
    repeated = lab.repeat(-(-channels // 3), 1)[:channels]
    return repeated + torch.randn(repeated.shape, generator=generator)


@pytest.mark.parametrize("count", [1, 2, 7, 50, 200, 700, 96 * 112])
def test_photos_are_cut_as_by_the_whole_tree(count):
    planes, shape = compiled.lab(photo(height=96, width=112)), (96, 112)
    assert torch.equal(
        compiled.exact_cut(planes, shape, MergeRule(), count).labels, by_whole_tree(planes, shape, MergeRule(), count)
    )


@pytest.mark.parametrize(("image", "count"), [(photo(), 600), (photo(), 3000), (noise(40, 41), 90), (constant(9, 9), 40)])
def test_coarser_nested_cuts_come_with_the_finest(image, count):
    planes, shape, coarser = compiled.lab(image), tuple(image.shape[1:]), (1, 5, count // 4)
    for kernels in (compiled, reference) if image.shape[1] < 50 else (compiled,):
        found = kernels.exact_cut(planes, shape, MergeRule(), count, coarser=coarser)
        for labels, regions in zip((found.labels, *found.coarser), (count, *coarser), strict=True):
            assert torch.equal(labels, by_whole_tree(planes, shape, MergeRule(), regions))


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 8, 13, 16, 17])
@pytest.mark.parametrize("cost", COSTS)
def test_every_number_of_channels_and_every_cost(channels, cost):
    planes, shape, rule = planes_of(photo("coffee", 60, 70), channels), (60, 70), MergeRule(cost=cost, ward_rounds=2)
    assert torch.equal(compiled.exact_cut(planes, shape, rule, 40).labels, by_whole_tree(planes, shape, rule, 40))


@pytest.mark.parametrize("image", [constant(40, 50), noise(64, 64), noise(1, 80), noise(80, 1), noise(1, 2)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_images_without_structure(image, count):
    shape = (image.shape[1], image.shape[2])
    planes, count = compiled.lab(image), min(count, shape[0] * shape[1])
    labels = compiled.exact_cut(planes, shape, MergeRule(), count).labels
    assert torch.equal(labels, by_whole_tree(planes, shape, MergeRule(), count))
    assert torch.equal(labels, reference.exact_cut(planes, shape, MergeRule(), count).labels)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 24), st.integers(1, 24), st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([2, 8, 256]))
def test_both_backends_agree_on_any_image(height, width, seed, count, colours):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randint(0, colours, (3, height, width), generator=generator, dtype=torch.int32) * (255 // (colours - 1))
    planes, shape, count = compiled.lab(image.to(torch.uint8)), (height, width), min(count, height * width)
    found = compiled.exact_cut(planes, shape, MergeRule(), count).labels
    assert torch.equal(found, reference.exact_cut(planes, shape, MergeRule(), count).labels)


@pytest.mark.parametrize("guess", [1e-9, 1 / 16, 1.0, 100.0])
def test_a_bad_guess_costs_time_only(guess, monkeypatch):
    planes, shape = compiled.lab(photo(height=80, width=90)), (80, 90)
    expected = by_whole_tree(planes, shape, MergeRule(), 60)
    monkeypatch.setattr(pruning, "GUESS", guess)
    assert torch.equal(compiled.exact_cut(planes, shape, MergeRule(), 60).labels, expected)


def test_a_good_guess_leaves_most_nodes_out(monkeypatch):
    made, grow = [], pruning.grow_flat

    def spy(*arguments):
        made.append(grow(*arguments))
        return made[-1]

    monkeypatch.setattr(pruning, "grow_flat", spy)
    pixtree.segment(photo(height=224, width=224), tokens=100)
    assert len(made) == 1
    assert made[0][1] < 224 * 224 / 5


@pytest.mark.parametrize(
    "rule", [MergeRule(energy=Energy.SQUARED_ERROR), MergeRule(cost=Cost.COSINE), MergeRule(cost=Cost.TANIMOTO)]
)
def test_rules_that_cannot_be_pruned_take_the_whole_tree(rule):
    planes, shape = compiled.lab(photo(height=30, width=40)), (30, 40)
    cut = compiled.exact_cut(planes, shape, rule, 20)
    assert not rule.prunable
    assert cut.levels is None
    assert torch.equal(cut.labels, by_whole_tree(planes, shape, rule, 20))


def empty_levels(shape):
    return torch.empty((4, 2 * shape[0] * shape[1] + MOST_LEVELS), dtype=torch.int32)


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (9, 13), (30, 42)])
def test_both_backends_keep_the_same_levels(shape):
    planes = compiled.lab(photo(height=shape[0], width=shape[1]))
    kept = [one.exact_cut(planes, shape, MergeRule(), 1, empty_levels(shape)).levels for one in (compiled, reference)]
    rounds = [rounds_of(levels, shape[0] * shape[1]) for levels in kept]
    assert len(rounds[0]) == len(rounds[1])
    for a, b in zip(*rounds, strict=True):
        assert torch.equal(a.component, b.component)
        assert torch.equal(a.pick, b.pick)


@pytest.mark.parametrize("count", [1, 12, 30 * 42])
def test_levels_are_those_of_the_tree(count):
    """Level by level: components of the picks, down to one region; the tree's levels have the same counts."""
    planes, shape = compiled.lab(photo(height=30, width=42)), (30, 42)
    levels = compiled.exact_cut(planes, shape, MergeRule(), count, empty_levels(shape)).levels
    pick, members, start, offset = levels.numpy()
    tree = compiled.build(planes, torch.ones(shape, dtype=torch.bool), MergeRule())
    pixels, level = 30 * 42, 0
    while offset[level + 1] - offset[level] > 1:
        here, up, size = offset[level], offset[level + 1], offset[level + 1] - offset[level]
        begins = start[up - pixels + level : offset[level + 2] - pixels + level + 1]
        assert int((tree.level[pixels:] > level).sum()) == size - 1
        assert (begins[0], begins[-1]) == (0, size)
        assert np.array_equal(np.sort(members[here:up]), np.arange(size))
        component = np.empty(size, int)
        for group in range(len(begins) - 1):
            component[members[here + begins[group] : here + begins[group + 1]]] = group
        assert np.array_equal(component[pick[here:up]], component)
        level += 1


def test_segment_is_the_cut_of_the_hierarchy():
    image = photo(height=70, width=64)
    expected = pixtree.hierarchy(image).cut(tokens=33)
    assert torch.equal(pixtree.segment(image, tokens=33), expected.labels[0])
    assert torch.equal(pixtree.segment(image, tokens=33, relax=True), pixtree.hierarchy(image).cut(tokens=33, relax=True).labels[0])
