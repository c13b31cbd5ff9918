"""Gradient histograms: known gradients, sums of one, differentiable in the image."""

from functools import partial

import torch

from pixtree.kernels import kernels_for
from pixtree.tokenizer import gradients as module
from pixtree.tokenizer.gradients import GradientHistogram, compressed, scharr

gradient_histogram = partial(module.gradient_histogram, kernels=kernels_for())

LABELS = torch.tensor([[[0, 0, 1, 1], [0, 0, 1, 1], [2, 2, 2, 2]]], dtype=torch.int32)


def test_scharr_takes_the_slope_of_a_ramp():
    ramp = torch.linspace(0, 1, 11)[:, None].expand(1, 3, 11, 11)
    gradients = scharr(ramp)
    assert torch.allclose(gradients[0, 0, 1:-1], torch.full((9, 11), 0.2), atol=1e-6)
    assert torch.allclose(gradients[0, 1], torch.zeros(11, 11), atol=1e-6)


def test_compression_keeps_the_range_and_the_sign():
    values = torch.tensor([-1.0, -0.1, 0.0, 0.1, 1.0]).expand(2, 1, 5)[None]
    found = compressed(values, torch.tensor([27.5, 27.5]))[0, 0, 0]
    assert torch.allclose(found[[0, 2, 4]], torch.tensor([-1.0, 0.0, 1.0]), atol=1e-6)
    assert float(found[3]) > 0.4


def test_histograms_sum_to_one_and_a_flat_region_has_one_cell():
    flat = gradient_histogram(torch.zeros(1, 2, 3, 4), LABELS, 4, 5)
    assert torch.allclose(flat[0, :3].sum(1), torch.ones(3))
    assert bool((flat[0, :3, 12] == 1).all())
    assert bool((flat[0, 3] == 0).all())
    assert torch.allclose(gradient_histogram(torch.randn(1, 2, 3, 4), LABELS, 3, 16).sum(2), torch.ones(1, 3))


def test_gradients_agree_with_finite_differences():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(1, 3, 3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    strength = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)

    def histogram(images, strength):
        return gradient_histogram(compressed(scharr(images), strength), LABELS, 3, 4)

    assert torch.autograd.gradcheck(histogram, (images, strength))


def test_every_weight_gets_a_gradient():
    module = GradientHistogram(6, 4)
    module(torch.rand(1, 3, 3, 4), LABELS, 3).square().sum().backward()
    assert all(bool((parameter.grad != 0).any()) for parameter in module.parameters())


def test_regions_without_pixels_have_no_texture():
    module = GradientHistogram(6, 4)
    embedded = module(torch.rand(1, 3, 3, 4), LABELS, 5)
    assert embedded.shape == (1, 5, 6)
    assert bool((embedded[0, :3] != 0).any(dim=1).all())
    assert not embedded[0, 3:].any()
