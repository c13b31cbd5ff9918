"""The tier in plain torch: batches are cut as the compiled kernels cut them, with as many reads by the host."""

import pytest
import torch
from far_device import ELSEWHERE, Far, FarDevice, near
from pictures import photo

import pixtree
from pixtree.kernels import Kernels, kernels_for
from pixtree.kernels.image.colour.definition import light_table_on
from pixtree.kernels.proof import same_levels
from pixtree.kernels.tree import Cost, Energy, MergeRule

TIER, COMPILED = kernels_for("torch"), kernels_for("numba")
NAMES = ("astronaut", "coffee", "chelsea")


def photos(count: int, side: int) -> torch.Tensor:
    return torch.stack([photo(NAMES[number % 3], side, side).roll(number * 7, 2) for number in range(count)])


def differing(images: torch.Tensor, rule: MergeRule, tokens: int, levels: bool = True, unit: float = 1.0) -> list[str]:
    """What of the cuts of a batch, with two learned features, is not that of the compiled kernels."""
    features = torch.randn(len(images), 2, images[0, 0].numel(), generator=torch.Generator().manual_seed(0))
    arguments = (images, features, 2.0, tokens, True, unit, rule, levels)
    found, expected = TIER.cut_batch(*arguments), COMPILED.cut_batch(*arguments)
    equal = {"labels": torch.equal(found.labels, expected.labels), "planes": torch.equal(found.fixed, expected.fixed)}
    equal["levels"] = not levels or all(map(same_levels, found.levels, expected.levels))
    return [name for name, same in equal.items() if not same]


@pytest.mark.parametrize("unit", [0.0, 1.0])
@pytest.mark.parametrize("energy", list(Energy))
@pytest.mark.parametrize("cost", list(Cost))
def test_a_batch_is_cut_as_by_the_compiled_kernels(cost, energy, unit):
    rule = MergeRule(cost, energy, length_quarters=int(cost), ward_rounds=1 + int(energy))
    assert differing(photos(3, 24), rule, 9, rule.prunable, unit) == []


def test_images_of_a_batch_may_need_different_numbers_of_rounds():
    images = torch.stack((photo(height=9, width=11), (torch.arange(99) * 2).to(torch.uint8).view(9, 11).expand(3, -1, -1)))
    assert differing(images, MergeRule(Cost.GAUSSIAN), 5, False) == []
    assert differing(photos(1, 1), MergeRule(), 1) == []


def test_drawn_images_of_a_batch_are_cut_on_the_host():
    images = photos(3, 16).clone()
    images[1, :, :10] = 40
    assert differing(images, MergeRule(), 6) == []


def test_photos_of_224_px_in_a_batch_of_8_are_cut_as_by_the_compiled_kernels():
    assert differing(photos(8, 224), MergeRule(), 196, unit=1.0) == []


@pytest.mark.slow
def test_photos_of_512_px_in_a_batch_of_8_are_cut_as_by_the_compiled_kernels():
    images = torch.stack([photo(name, 300, 300) for name in ("astronaut", "coffee")] * 4)
    large = torch.nn.functional.interpolate(images.float(), size=(512, 512), mode="bilinear").round().to(torch.uint8)
    noise = torch.randint(-2, 3, large.shape, generator=torch.Generator().manual_seed(0))
    assert differing((large.int() + noise).clamp(0, 255).to(torch.uint8), MergeRule(), 1024) == []


@pytest.mark.parametrize("images", [1, 5])
def test_the_host_reads_three_times_per_round_however_large_the_batch(monkeypatch, images):
    pictures = photos(images, 20)
    with FarDevice(monkeypatch) as device:
        light_table_on(ELSEWHERE)  # once per process
        device.out = device.back = 0
        found = pixtree.segment(Far(pictures), tokens=9, backend="torch")
    assert torch.equal(near(found), pixtree.segment(pictures, tokens=9))
    rounds = (20 * 20).bit_length() - 1  # at most
    assert device.out <= 2 + 3 * rounds
    assert device.back == 1
    light_table_on.cache_clear()


def test_weighted_rules_are_cut_image_by_image_as_defined():
    images, rule = photos(2, 8), MergeRule(Cost.GAUSSIAN, weighted=True, precision=0.01)
    arguments = (images, torch.empty(2, 0, 64), 1.0, 5, True, 0.0, rule, False)
    assert torch.equal(TIER.cut_batch(*arguments).labels, Kernels.cut_batch(TIER, *arguments).labels)


def test_features_out_of_range_are_refused_in_the_words_of_the_definition():
    features = torch.full((1, 1, 64), torch.nan)
    with pytest.raises(ValueError, match="features must be finite"):
        TIER.cut_batch(photos(1, 8), features, 1.0, 5, True, 0.0, MergeRule(), False)
