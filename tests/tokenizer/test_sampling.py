"""Extraction: patches come back unchanged, the fused kernel is the definition, gradients agree."""

import pytest
import torch
from torch.library import opcheck

from pixtree.kernels import kernels_for
from pixtree.kernels.operators import sample_boxes
from pixtree.kernels.tokens.sample import Background, Boxes, Injected
from pixtree.kernels.tokens.sample.compiled import grouped
from pixtree.kernels.tokens.sample.definition import extract, taps
from pixtree.tokenizer.sampling import Sampler, frames


def defined(*tensors: torch.Tensor) -> torch.Tensor:
    """The definition, of tensors in the order of the operator."""
    return kernels_for("torch").sample(*grouped(tensors))


PATCHES = (torch.arange(48)[:, None] // 16 * 2 + torch.arange(32) // 16).to(torch.int32)[None]


def example(samples: int = 3, dtype: torch.dtype = torch.float64):
    generator = torch.Generator().manual_seed(1)
    image = torch.rand(2, 3, 7, 9, generator=generator, dtype=dtype)
    labels = torch.stack((torch.arange(63).view(7, 9) // 16, torch.arange(63).view(7, 9) % 9 // 3)).to(torch.int32)
    frame = frames(kernels_for().region_boxes(labels, 4), (7, 9), 2, None)
    frame[1, 3] = 0
    background = torch.rand(3, samples, samples, generator=generator, dtype=dtype)
    return image, Boxes(labels, frame), Background(torch.tensor(0.3, dtype=dtype), background)


def test_square_patches_return_their_pixels_unchanged():
    image = torch.rand(1, 3, 48, 32)
    tokens = Sampler()(Injected(image, torch.zeros(1, 6, 3), torch.ones(3), torch.zeros(3)), PATCHES)
    expected = image.unfold(2, 16, 16).unfold(3, 16, 16).permute(0, 2, 3, 1, 4, 5).flatten(1, 2)
    assert torch.equal(tokens, expected)


def injected(channels: int = 3, dtype: torch.dtype = torch.float64):
    """Arguments of `sample_boxes`, with pixels outside all regions."""
    _, (labels, frame), (mix, _) = example(dtype=dtype)
    labels[0, 2, 3:5] = -1
    generator = torch.Generator().manual_seed(2)
    shapes = ((2, channels, 7, 9), (2, 4, channels), (channels,), (channels,), (channels, 3, 3))
    pixels, change, scale, shift, background = (torch.rand(shape, generator=generator, dtype=dtype) for shape in shapes)
    return pixels, change, scale, shift, labels, frame, mix, background


@pytest.mark.parametrize("channels", [1, 3, 4, 6])
def test_the_fused_kernel_equals_the_definition_and_its_gradients(channels):
    arguments = injected(channels)
    leaves = [arguments[i].requires_grad_() for i in (1, 6, 7)]
    fused, plain = sample_boxes(*arguments)[0], defined(*arguments)
    assert torch.allclose(fused, plain, atol=1e-12)
    weights = torch.rand(plain.shape, generator=torch.Generator().manual_seed(3), dtype=plain.dtype)
    found, expected = (torch.autograd.grad((one * weights).sum(), leaves) for one in (fused, plain))
    for a, b in zip(found, expected, strict=True):
        assert torch.allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("function", [lambda *a: sample_boxes(*a)[0], defined], ids=["fused", "torch"])
def test_gradients_agree_with_finite_differences(function):
    pixels, change, scale, shift, labels, frame, mix, background = injected()
    inputs = (change.requires_grad_(), mix.requires_grad_(), background.requires_grad_())
    assert torch.autograd.gradcheck(lambda d, m, b: function(pixels, d, scale, shift, labels, frame, m, b), inputs)


def test_gradients_of_the_image_agree_with_finite_differences():
    image, boxes, background = example()
    assert torch.autograd.gradcheck(lambda x: extract(x, boxes, background), image.requires_grad_())


def test_the_operator_is_well_behaved():
    pixels, change, scale, shift, labels, frame, mix, background = injected(dtype=torch.float32)
    inputs = (pixels, change.requires_grad_(), scale, shift, labels, frame, mix.requires_grad_(), background.requires_grad_())
    opcheck(sample_boxes, inputs)


def test_rows_without_a_region_are_zero():
    assert bool((sample_boxes(*injected())[0][1, 3] == 0).all())


def test_boxes_grow_about_their_centre_and_stay_inside():
    boxes = torch.tensor([[[10, 10, 12, 12], [0, 0, 1, 1], [0, 0, 40, 4], [38, 2, 40, 30]]], dtype=torch.int32)
    assert frames(boxes, (40, 32), 8, None)[0].tolist() == [[7, 7, 8, 8], [0, 0, 8, 8], [0, 0, 40, 8], [32, 2, 8, 28]]
    assert frames(boxes, (40, 32), 8, 16)[0, 2].tolist() == [12, 0, 16, 8]
    assert frames(boxes, (4, 32), 8, None)[0, 0, 2] == 4


def test_boxes_at_the_far_border_grow_into_the_padding_and_no_other_does():
    boxes = torch.tensor([[[32, 0, 33, 8], [24, 0, 32, 4], [30, 2, 33, 6], [20, 0, 33, 3], [0, 0, 33, 32]]], dtype=torch.int32)
    expected = [[32, 0, 8, 8], [24, 0, 8, 8], [30, 0, 8, 8], [20, 0, 13, 8], [0, 0, 33, 32]]
    assert frames(boxes, (33, 32), 8, None, patch=8)[0].tolist() == expected
    assert frames(torch.tensor([[[0, 0, 3, 2]]]), (3, 4), 8, None, patch=8)[0].tolist() == [[0, 0, 8, 4]]


def test_what_the_border_cuts_off_a_patch_is_sampled_as_padding():
    image, labels = torch.rand(1, 3, 17, 32), (torch.arange(17)[:, None] // 16 * 2 + torch.arange(32) // 16).to(torch.int32)
    tokens = Sampler()(Injected(image, torch.zeros(1, 4, 3), torch.full((3,), 2.0), torch.full((3,), -1.0)), labels[None])
    padded = torch.nn.functional.pad(2 * image - 1, (0, 0, 0, 15))
    assert torch.allclose(tokens, padded.unfold(2, 16, 16).unfold(3, 16, 16).permute(0, 2, 3, 1, 4, 5).flatten(1, 2), atol=1e-6)


def test_samples_lie_at_the_centres_of_equal_cells():
    found = taps(torch.tensor([[2.0]]), torch.tensor([[4.0]]), 2, 100)
    assert (found.low + found.fraction).flatten().tolist() == [2.5, 4.5]


def test_wrong_boxes_and_mixes_are_refused():
    with pytest.raises(ValueError, match="smallest"):
        Sampler(smallest=16, largest=8)
    with pytest.raises(ValueError, match="between 0 and 1"):
        Sampler(mix=1.5)


@pytest.mark.parametrize("mix", [0.0, 1.0])
def test_lambda_of_0_and_1_is_not_learned(mix):
    sampler = Sampler(mix=mix)
    assert float(sampler.mix) == mix
    assert [name for name, _ in sampler.named_parameters()] == ["background"]
    assert list(sampler.state_dict()) == ["background"]
    image, labels = torch.rand(1, 3, 16, 16), (torch.arange(16) // 8).to(torch.int32).expand(1, 16, 16).contiguous()
    tokens = sampler(Injected(image, torch.zeros(1, 2, 3), torch.ones(3), torch.zeros(3)), labels)
    tokens.sum().backward()
    assert bool((tokens[0, 0, :, :, 12:] == mix * image[0, :, :, 12:]).all())
    assert bool((sampler.background.grad != 0).any()) == (mix == 0.0)


def test_lambda_one_shows_the_background_and_beta_fills_what_it_hides():
    image, labels = torch.rand(1, 1, 4, 4), torch.tensor([[[0, 0, 1, 1]] * 4], dtype=torch.int32)
    boxes = Boxes(labels, torch.tensor([[[0.0, 0.0, 4.0, 4.0], [0.0, 0.0, 4.0, 4.0]]]))
    beta = torch.full((1, 4, 4), 7.0)
    shown = extract(image, boxes, Background(torch.tensor(1.0), beta))
    assert torch.allclose(shown[0, 0], image[0])
    hidden = extract(image, boxes, Background(torch.tensor(0.0), beta))
    assert torch.allclose(hidden[0, 0, 0, :, :2], image[0, 0, :, :2])
    assert bool((hidden[0, 0, 0, :, 2:] == 7).all())
