"""Cuts in Triton, from images to labels and levels, equal those of the definition."""

import pytest
import torch
from interpreted import TRITON, in_blocks, in_random_order
from torch import Tensor

import pixtree
from pixtree.kernels import kernels_for
from pixtree.kernels.tree import MOST_LEVELS, Cost, Energy, MergeRule
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


def test_drawn_images_of_a_batch_are_cut_as_well():
    images = IMAGES.clone()
    images[1, :, :4] = 40
    features, arguments = torch.empty(3, 0, 42), (1.0, 6, True, 0.0, MergeRule(), True)
    for a, b in zip(TRITON.cut_batch(images, features, *arguments), DEFINED.cut_batch(images, features, *arguments), strict=True):
        assert torch.equal(a, b)


def test_a_weighted_rule_cuts_as_defined():
    rule, planes = MergeRule(Cost.GAUSSIAN, weighted=True, precision=0.001), DEFINED.lab(IMAGES[0])
    found, expected = (one.exact_cut(planes, (6, 7), rule, 6) for one in (TRITON, DEFINED))
    assert torch.equal(found.labels, expected.labels)


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
