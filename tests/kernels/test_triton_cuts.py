"""Cuts in Triton, from images to labels and levels, equal those of the definition."""

import pytest
import torch
from interpreted import TRITON, in_blocks, in_random_order
from torch import Tensor

import pixtree
from pixtree.kernels import kernels_for
from pixtree.kernels.tree import MOST_LEVELS, Cost, Energy, MergeRule
from pixtree.kernels.tree.choice import Choice
from pixtree.runtime import launch

pytestmark = pytest.mark.usefixtures("interpreting")

DEFINED = kernels_for("torch")


def random_bytes(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.dtype == b.dtype and torch.equal(a.nan_to_num(7.0), b.nan_to_num(7.0))


IMAGES = random_bytes(3, 3, 6, 7)
IMAGES[1] //= 64  # many ties
IMAGES[1] *= 64
IMAGES[2, :, :, 3:] = IMAGES[2, :, :, :4]  # and equal halves


def test_a_segmentation_of_tensors_in_the_interpreter_is_that_of_the_cpu():
    found = pixtree.segment(IMAGES, tokens=9, backend="triton")
    assert torch.equal(found, pixtree.segment(IMAGES, tokens=9, backend="torch"))
    assert torch.equal(found, pixtree.segment(IMAGES, tokens=9))


@pytest.mark.parametrize("rule", [MergeRule(), MergeRule(Cost.GAUSSIAN, Energy.SQUARED_ERROR), MergeRule(Cost.COSINE)])
def test_nested_cuts_with_every_number_of_regions_are_those_of_the_definition(rule):
    planes, counts = DEFINED.lab(IMAGES[0]), list(range(42, 0, -1))
    found, expected = (one.exact_cut(planes, (6, 7), rule, 42, None, counts[1:]) for one in (TRITON, DEFINED))
    for count, a, b in zip(counts, (found.labels, *found.coarser), (expected.labels, *expected.coarser), strict=True):
        assert torch.equal(a, b), count


@pytest.mark.parametrize("unit", [0.0, 1.0])
@pytest.mark.parametrize(("channels", "colour", "floats"), [(3, True, True), (1, True, False), (4, True, True), (3, False, False)])
def test_a_batch_is_cut_as_its_images_are_with_the_planes_and_levels_that_gradients_need(channels, colour, floats, unit):
    images = IMAGES.repeat(1, 2, 1, 1)[:, :channels]
    images = images / 255.0 if floats else images
    features = torch.randn(3, 2, 42, generator=torch.Generator().manual_seed(1))
    arguments = (images, features, torch.tensor(3.0), 8, colour, unit if colour else 0.0, MergeRule(), True)
    for a, b in zip(TRITON.cut_batch(*arguments), DEFINED.cut_batch(*arguments), strict=True):
        assert same_bits(a, b)


def test_images_that_do_not_fit_into_memory_together_are_cut_in_parts(monkeypatch):
    arguments = (IMAGES, torch.empty(3, 0, 42), 1.0, 5, True, 0.0, MergeRule(), False)
    expected = DEFINED.cut_batch(*arguments).labels
    monkeypatch.setattr(launch, "LARGEST_CHUNK", 84)
    assert launch.chunks(3, 42) == [slice(0, 2), slice(2, 3)]
    assert torch.equal(TRITON.cut_batch(*arguments).labels, expected)


@pytest.mark.parametrize(("lanes", "seed"), [(8, 0), (32, 1), (128, 2)])
def test_neither_the_order_of_programs_nor_their_size_changes_a_cut(lanes, seed):
    levels = torch.empty(4, 2 * 20 + MOST_LEVELS, dtype=torch.int32)
    planes = DEFINED.lab(IMAGES[seed, :, :4, :5])
    expected = DEFINED.exact_cut(planes, (4, 5), MergeRule(), 6, levels.clone(), [3])
    with in_blocks(lanes), in_random_order(seed):
        found = TRITON.exact_cut(planes, (4, 5), MergeRule(), 6, levels, [3])
    assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.coarser[0], expected.coarser[0])
    assert torch.equal(found.levels, expected.levels)


def test_trees_with_features_that_kernels_do_not_take_are_those_of_the_definition():
    planes = torch.randn(17, 20, generator=torch.Generator().manual_seed(0))
    found, expected = (one.exact_cut(planes, (4, 5), MergeRule(), 6) for one in (TRITON, DEFINED))
    assert torch.equal(found.labels, expected.labels)
    arguments = (IMAGES[:1, :, :4, :5], planes[None], 1.0, 6, True, 0.0, MergeRule(), False)
    assert torch.equal(TRITON.cut_batch(*arguments).labels, DEFINED.cut_batch(*arguments).labels)


def drawn_images() -> Tensor:
    """Noise, flat shapes with blended pixels between them, one colour, a flat half beside noise, and thin stripes."""
    shapes = torch.full((3, 8, 9), 30, dtype=torch.uint8)
    shapes[:, 3:, 5:], shapes[:, 3:, 4], shapes[:, 6, 1], shapes[:, 0, 4] = 90, 55, 60, 70
    noise = random_bytes(3, 8, 9, seed=5)
    half, stripes = noise.clone(), (torch.arange(9) // 2 * 50).to(torch.uint8).expand(3, 8, 9).clone()
    half[:, :4] = 7
    stripes[:, 7, 5:] = 255
    return torch.stack((noise, shapes, torch.full_like(noise, 9), half, stripes))


def test_drawn_images_of_a_batch_are_cut_by_their_flat_zones():
    images = drawn_images()
    zones = [DEFINED.flat_zones(DEFINED.lab(one), torch.ones(8, 9, dtype=torch.bool)) for one in images]
    assert [one is not None for one in zones] == [False, True, True, True, True]
    assert any(bool((one.joins >= 0).any()) for one in zones if one is not None)
    features, arguments = torch.empty(5, 0, 72), (1.0, 6, True, 0.0, MergeRule(), True)
    for a, b in zip(TRITON.cut_batch(images, features, *arguments), DEFINED.cut_batch(images, features, *arguments), strict=True):
        assert torch.equal(a, b)


BUDGETS = [
    {"tokens": 40},
    {"level": 1},
    {"criterion": "aic"},
    {"criterion": pixtree.Criterion("bic", penalty=0.1, rule="pixel", nodes="levels")},
    {"criterion": pixtree.Criterion("cic", penalty=0.1, rule="pixel", single_volume=0.5), "compactness": 0.1},
    {"at_most": 5, "criterion": pixtree.Criterion("aic", penalty=0.1), "compactness": 0.1},
]


@pytest.mark.parametrize("options", BUDGETS, ids=lambda options: " ".join(options))
def test_cuts_of_every_budget_are_those_of_the_definition(options):
    images = drawn_images()
    found = pixtree.segment(images, backend="triton", **options)
    assert torch.equal(found, pixtree.segment(images, backend="torch", **options))


WEIGHTED = [
    MergeRule(Cost.GAUSSIAN, weighted=True, precision=0.001),
    MergeRule(Cost.COSINE, Energy.SQUARED_ERROR, weighted=True),
    MergeRule(Cost.TANIMOTO, weighted=True),
]


@pytest.mark.parametrize("rule", WEIGHTED, ids=lambda rule: rule.cost.name)
def test_weighted_rules_cut_as_defined(rule):
    images, features = drawn_images()[[0, 1, 3]], torch.randn(3, 2, 72, generator=torch.Generator().manual_seed(1))
    arguments = (images, features, 2.0, Choice(None, regions=7), True, 0.0, rule, True)
    for a, b in zip(TRITON.choose_batch(*arguments), DEFINED.choose_batch(*arguments), strict=True):
        assert torch.equal(a, b)


def test_features_that_are_not_numbers_are_refused():
    features = torch.full((1, 1, 42), torch.nan)
    with pytest.raises(RuntimeError, match="features must be finite"):
        TRITON.cut_batch(IMAGES[:1], features, 1.0, 5, True, 0.0, MergeRule(), False)


def test_colours_have_the_bits_of_the_definition():
    floats = torch.rand(3, 50, 40, generator=torch.Generator().manual_seed(0)) * 1.4 - 0.2
    floats[0, 0, :4] = torch.tensor([torch.nan, torch.inf, -torch.inf, 1e30])
    every_byte = torch.arange(256, dtype=torch.uint8).repeat(3).view(3, 16, 16).clone()
    every_byte[1] = every_byte[1].flip(0)
    for image in (floats, every_byte, every_byte / 255.0):
        assert same_bits(TRITON.lab(image), DEFINED.lab(image))
        assert same_bits(TRITON.lightness(image[:1]), DEFINED.lightness(image[:1]))
        assert same_bits(TRITON.colours(image[:2]), DEFINED.colours(image[:2]))
