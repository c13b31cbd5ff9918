"""The encoder: any size, isometric start, options that are checked."""

import pytest
import torch
from torch.library import opcheck

from pixtree.kernels import kernels_for, operators
from pixtree.kernels.tokens.encode import compiled
from pixtree.kernels.tokens.encode.definition import context
from pixtree.tokenizer.encoder import Encoder, EncoderOptions


def encoder_of(**options) -> Encoder:
    return Encoder(EncoderOptions(**options))


def fused(encoder, images):
    return kernels_for("numba").encode(images, encoder.layers())


def defined(encoder, images):
    return kernels_for("torch").encode(images, encoder.layers())


def is_fused(encoder, images):
    return compiled._is_fused(images, encoder.layers())


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 7), (16, 16), (33, 18)])
@pytest.mark.parametrize("kernel_size", [2, 3])
def test_features_have_exactly_the_size_of_the_image(size, kernel_size):
    encoder = encoder_of(features=4, hidden=6, kernel_size=kernel_size)
    assert encoder(torch.rand(2, 3, *size)).shape == (2, 4, *size)


@pytest.mark.parametrize("features", [3, 6, 8, 16, 24, 32])
def test_the_start_is_an_isometry_of_colours(features):
    encoder, images = encoder_of(features=features), torch.rand(1, 3, 6, 5)
    encoded = encoder(images).flatten(2)[0]
    back = encoder.residual.weight.flatten(1).T @ encoded
    assert torch.allclose(back, images.flatten(2)[0], atol=1e-6)


def test_the_context_is_aligned_with_the_image():
    encoder = encoder_of(features=3)
    with torch.no_grad():
        encoder.first.weight.fill_(0.1)
        encoder.first.bias.zero_()
        encoder.second.weight.fill_(0.1)
    images = torch.zeros(1, 3, 32, 32)
    images[..., 16:, :] = 1.0
    rows = context(images, encoder.layers())[0, 0].mean(1).detach()
    assert torch.allclose(rows + rows.flip(0), (rows[0] + rows[-1]).expand(32), atol=1e-5)


def test_the_linear_ablation_has_no_convolutions():
    names = [name for name, _ in encoder_of(linear=True).named_parameters()]
    assert names == ["residual.weight", "residual.bias"]


def test_too_few_features_and_odd_kernels_are_refused():
    with pytest.raises(ValueError, match="at least the 3 channels"):
        encoder_of(features=2)
    with pytest.raises(ValueError, match="2 or 3"):
        encoder_of(kernel_size=5)


@pytest.mark.bfloat16
def test_it_ignores_autocast_and_runs_in_double():
    encoder = Encoder()
    images = torch.rand(1, 3, 8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(encoder(images), Encoder()(images))  # features decide, so they stay in float32
    assert encoder.double()(torch.rand(1, 3, 8, 8).double()).dtype == torch.float64


def scrambled(**options) -> Encoder:
    """An encoder away from its start, where c₂ is zero."""
    torch.manual_seed(2)
    encoder = encoder_of(**options)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.3)
    return encoder


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (33, 18), (64, 52)])
@pytest.mark.parametrize("options", [{}, {"channels": 1, "features": 5, "hidden": 6}, {"channels": 4}])
def test_the_fused_encoder_equals_the_definition_and_its_gradients(size, options):
    encoder = scrambled(**options)
    images = torch.rand(2, options.get("channels", 3), *size, requires_grad=True)
    quick, plain = fused(encoder, images), defined(encoder, images)
    assert is_fused(encoder, images)
    assert torch.equal(quick, plain)
    weights = torch.randn_like(plain)
    leaves = [("images", images), *encoder.named_parameters()]
    tensors = [one for _, one in leaves]
    found, expected = (torch.autograd.grad((one * weights).sum(), tensors) for one in (quick, plain))
    for (name, _), a, b in zip(leaves, found, expected, strict=True):
        assert torch.allclose(a, b, atol=1e-4 * float(b.abs().max())), name


@pytest.mark.parametrize("scale", [1e2, 1e4])
def test_the_fused_encoder_bears_any_scale(scale):
    encoder, images = scrambled(), torch.randn(1, 3, 9, 9) * scale
    assert torch.allclose(fused(encoder, images), defined(encoder, images), rtol=1e-4, atol=1e-4 * scale)


def test_gradients_agree_with_finite_differences():
    encoder, images = scrambled(features=3, hidden=4).double(), torch.rand(1, 3, 5, 6, dtype=torch.float64, requires_grad=True)
    names = [name for name, _ in encoder.named_parameters()]

    def encoded(pixels, *values):
        return torch.func.functional_call(encoder, dict(zip(names, values, strict=True)), (pixels,))

    assert torch.autograd.gradcheck(encoded, (images, *encoder.parameters()))


def test_only_the_default_layers_in_float32_are_fused():
    images = torch.rand(1, 3, 8, 8)
    assert not any(is_fused(encoder_of(**one), images) for one in ({"kernel_size": 3}, {"linear": True}, {"corners": True}))
    assert not is_fused(Encoder().double(), images.double())
    assert is_fused(Encoder(), images.requires_grad_())


def test_the_operator_is_well_behaved():
    encoder = scrambled(features=4, hidden=4)
    opcheck(operators.encode, (torch.rand(2, 3, 6, 5), *encoder.layers().tensors()))


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_images_of_other_channels_are_refused(channels):
    with pytest.raises(ValueError, match="of 3 channels"):
        Encoder()(torch.zeros(2, channels, 16, 16))
