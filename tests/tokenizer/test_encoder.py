"""The encoder: any size, isometric start, options that are checked."""

import pytest
import torch

from pixtree.tokenizer.encoder import Encoder


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 7), (16, 16), (33, 18)])
@pytest.mark.parametrize("kernel_size", [2, 3])
def test_features_have_exactly_the_size_of_the_image(size, kernel_size):
    encoder = Encoder(features=4, hidden=6, kernel_size=kernel_size)
    assert encoder(torch.rand(2, 3, *size)).shape == (2, 4, *size)


@pytest.mark.parametrize("features", [3, 6, 8, 16, 24, 32])
def test_the_start_is_an_isometry_of_colours(features):
    encoder, images = Encoder(features=features), torch.rand(1, 3, 6, 5)
    encoded = encoder(images).flatten(2)[0]
    back = encoder.residual.weight.flatten(1).T @ encoded
    assert torch.allclose(back, images.flatten(2)[0], atol=1e-6)


def test_the_context_is_aligned_with_the_image():
    encoder = Encoder(features=3)
    with torch.no_grad():
        encoder.first.weight.fill_(0.1)
        encoder.first.bias.zero_()
        encoder.second.weight.fill_(0.1)
    images = torch.zeros(1, 3, 32, 32)
    images[..., 16:, :] = 1.0
    rows = encoder.context(images)[0, 0].mean(1).detach()
    assert torch.allclose(rows + rows.flip(0), (rows[0] + rows[-1]).expand(32), atol=1e-5)


def test_the_linear_ablation_has_no_convolutions():
    names = [name for name, _ in Encoder(linear=True).named_parameters()]
    assert names == ["residual.weight", "residual.bias"]


def test_too_few_features_and_odd_kernels_are_refused():
    with pytest.raises(ValueError, match="at least the 3 channels"):
        Encoder(features=2)
    with pytest.raises(ValueError, match="2 or 3"):
        Encoder(kernel_size=5)


def test_it_runs_in_the_precision_of_its_caller():
    encoder = Encoder()
    with torch.autocast("cpu", torch.bfloat16):
        assert encoder(torch.rand(1, 3, 8, 8)).dtype == torch.bfloat16
    assert encoder.double()(torch.rand(1, 3, 8, 8).double()).dtype == torch.float64
