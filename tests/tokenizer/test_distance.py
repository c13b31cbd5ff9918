"""The distance between pixels: which features it compares, and what it refuses."""

import pytest
import torch
from pictures import photo

import pixtree
from pixtree.tokenizer.tokenizer import PAPER, Options, region_encoder

IMAGE = photo(height=48, width=64)[None]


def labels_after(options: Options, feature: int) -> torch.Tensor:
    """The cut of a tokenizer whose `feature` is a hundred times as large."""
    regions = region_encoder(options)
    with torch.no_grad():
        torch.nn.init.normal_(regions.encoder.residual.weight, generator=torch.Generator().manual_seed(0))
        regions.encoder.residual.weight[feature] *= 100.0
        return regions(IMAGE, pixtree.Exactly(20)).partition.labels


@pytest.mark.parametrize(("options", "seen"), [(Options(), 3), (Options().changed(compared=5), 5), (PAPER, 8)])
def test_the_distance_compares_the_first_features_and_no_other(options, seen):
    assert options.compared_features == seen
    before = labels_after(options, seen) if seen < 8 else region_encoder(options)(IMAGE, pixtree.Exactly(20)).partition.labels
    assert all(torch.equal(labels_after(options, feature), before) for feature in range(seen, 8))
    assert not any(torch.equal(labels_after(options, feature), before) for feature in range(seen))


def test_beside_colours_all_features_of_a_small_encoder_are_compared():
    assert Options().changed(features=4, decision="features").compared_features == 4
    assert Options().changed(channels=1, features=2).compared_features == 2


@pytest.mark.parametrize("compared", [0, 9])
def test_as_many_features_as_there_are_can_be_compared(compared):
    with pytest.raises(ValueError, match=f"compares 1 to all 8 features, got compared={compared}"):
        pixtree.Tokenizer(compared=compared)


def test_a_fresh_tokenizer_compares_colours_as_they_are():
    """Its features are a turn of colours, all of it among those that are compared."""
    regions = region_encoder(Options())
    pixels = torch.rand(1, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        compared = regions.decision.of_features(regions.encode(pixels))
    steps = [(one[..., 1:] - one[..., :-1]).square().sum(1) for one in (compared, pixels.flatten(2))]
    assert torch.allclose(*steps, atol=1e-6)
