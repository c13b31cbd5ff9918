"""The arithmetic of the study of learned features: moments of regions, harm of merges, losses, and changed pictures."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch):
    """The two scripts, imported under their own names."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    found = import_module("region_features"), import_module("learned_encoder")
    yield found
    for module in found:
        sys.modules.pop(module.__name__, None)


def fine_regions(features, separating):
    """Eight regions in a row, of two segments; the features are noise, and one more may tell the segments apart."""
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(8, 2, generator=generator) * 8
    segment = torch.arange(8) // 4
    extra = 30.0 * segment[:, None] * separating
    moments = features.Moments(torch.full((8,), 50.0), torch.cat((noise, extra), 1), torch.full((8, 3), 20.0))
    votes = 50.0 * torch.nn.functional.one_hot(segment).to(torch.float32)
    touching = torch.stack((torch.arange(7), torch.arange(1, 8)), 1)
    return moments, votes, touching


def test_moments_of_groups_are_those_of_their_pixels(study):
    features, _ = study
    pixels = torch.randn(60, 3, generator=torch.Generator().manual_seed(1)) * 10
    region, group = torch.arange(60) % 6, torch.tensor([0, 0, 1, 1, 1, 2])
    single = features.Moments(torch.ones(60), pixels, torch.zeros(60, 3))
    found, straight = single.grouped(region).grouped(group), single.grouped(group[region])
    for one, other in zip(found, straight, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-2)
    union = straight.take(torch.tensor([0])).joined(straight.take(torch.tensor([1])))
    expected = pixels[group[region] < 2]
    torch.testing.assert_close(union.deviation[0], (expected - expected.mean(0)).square().sum(0), rtol=1e-4, atol=1e-2)


def test_merging_does_harm_only_across_the_border_of_segments(study):
    features, script = study
    _, votes, touching = fine_regions(features, False)
    pairs = script.pairs_of(np.arange(8), touching, torch.full((7,), 5.0), votes)
    assert pairs.harm.tolist() == pytest.approx([0, 0, 0, 2, 0, 0, 0])  # 50 pixels of either segment, in regions of 50 pixels
    halves = script.pairs_of(np.arange(8) // 4, touching, torch.full((7,), 5.0), votes)
    assert len(halves.harm) == 1
    assert float(halves.length[0]) == 5.0
    assert pairs.border.tolist() == pytest.approx([0, 0, 0, 5 / (4 * 50**0.5), 0, 0, 0])


@pytest.mark.parametrize("loss", ["merges", "association"])
def test_a_feature_that_tells_segments_apart_lowers_the_loss(study, loss):
    features, script = study
    values = []
    for separating in (False, True):
        moments, votes, touching = fine_regions(features, separating)
        if loss == "association":
            # The second region of the cut crosses the border between the segments.
            group = torch.tensor([0, 0, 0, 1, 1, 1, 1, 1])
            values.append(float(features.association_loss(moments, votes, touching, group, 1.0)))
        else:
            pairs = script.pairs_of(np.arange(8), touching, torch.full((7,), 5.0), votes)
            values.append(float(features.merge_loss(moments, pairs, torch.Generator().manual_seed(0), 0.5)))
    assert values[1] < 0.5 * values[0]


def test_changed_descriptors_are_those_of_the_changed_picture(study):
    features, script = study
    generator = torch.Generator().manual_seed(5)
    lab = torch.randn(3, 40, 60, generator=generator).cumsum(2) * 8
    labels = (torch.arange(40)[:, None] // 10 * 6 + torch.arange(60)[None] // 10).to(torch.int32)
    size = torch.full((24,), 100.0)
    colours = features.Moments(torch.ones(2400), lab.flatten(1).t(), torch.zeros(2400, 3)).grouped(labels.flatten().to(torch.int64))
    for seed in range(4):
        before = features.pooled(features.filtered(lab), labels, size)
        found, moments = script.changed(before, colours, torch.Generator().manual_seed(seed))
        again = torch.Generator().manual_seed(seed)
        unit = features.Moments(torch.ones(1), torch.ones(1, 3), torch.ones(1, 3))
        # What the change does to plain values tells which it was: the contrast from moments, offsets and signs from colours.
        zero, _ = script.changed(torch.zeros(1, features.DESCRIPTORS), unit, again)
        offset = zero[0, :3] * features.UNIT
        swapped = not torch.allclose(moments.mean[:, 1] / colours.mean[:, 1], (moments.mean[:, 1] / colours.mean[:, 1])[0])
        order = [0, 2, 1] if swapped else [0, 1, 2]
        factor = (moments.mean / colours.mean[:, order])[0]
        probe, _ = script.changed(torch.ones(1, features.DESCRIPTORS), unit, torch.Generator().manual_seed(seed))
        sign = torch.sign(probe[0, :3] - zero[0, :3])
        picture = lab[order] * (factor * sign)[:, None, None] + offset[:, None, None]
        after = features.pooled(features.filtered(picture), labels, size)
        torch.testing.assert_close(found, after, rtol=0.02, atol=0.02)


def test_a_difference_below_two_standard_errors_is_a_tie(study):
    _, script = study
    assert script.against(-0.004, 0.001, less_is_better=True).endswith("ahead")
    assert script.against(-0.004, 0.001, less_is_better=False).endswith("behind")
    assert script.against(-0.0019, 0.001, less_is_better=True).endswith("tie")


def test_the_choice_keeps_recall_if_a_setting_does(study):
    _, script = study
    rows = [
        {"undersegmentation_error": error, "boundary_recall_difference": recall, "boundary_recall_se": 0.002}
        for error, recall in ((0.080, -0.01), (0.086, -0.001), (0.088, 0.0))
    ]
    assert script.best(rows) == 1
    assert script.best(rows[:1]) == 0
