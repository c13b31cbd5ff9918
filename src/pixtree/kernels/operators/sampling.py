"""Mean injection and sampling, fused, as an operator; no gradient reaches pixels, scale and shift."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("pixtree::sample_boxes", mutates_args=(), device_types="cpu")
def sample_boxes(
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
) -> tuple[Tensor, Tensor]:
    """F(S) (B, N, C, q, q) and M⁺ (B, N, q, q) of scale · (x + δ) + shift; arguments as in `reference.sampling.sample`."""
    from pixtree.kernels.compiled.sampling import sample_batch

    return sample_batch(pixels, change, scale, shift, labels, frame, mix, background)


@torch.library.custom_op("pixtree::sample_boxes_backward", mutates_args=(), device_types="cpu")
def sample_boxes_backward(
    gradient: Tensor,
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
    inside: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of δ (B, N, C), of λ per image (B,), and of β per image (B, C, q, q)."""
    from pixtree.kernels.compiled.sampling import spread_batch

    return spread_batch(gradient, pixels, change, scale, shift, labels, frame, mix, background, inside)


@sample_boxes.register_fake
def _(
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
) -> tuple[Tensor, Tensor]:
    shape = (pixels.shape[0], frame.shape[1], *background.shape)
    return pixels.new_empty(shape), pixels.new_empty((*shape[:2], *background.shape[1:]))


@sample_boxes_backward.register_fake
def _(
    gradient: Tensor,
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
    inside: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return change.new_empty(change.shape), pixels.new_empty(pixels.shape[0]), pixels.new_empty((pixels.shape[0], *background.shape))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    changes, mixes, betas = sample_boxes_backward(gradient, *ctx.saved_tensors)
    return None, changes, None, None, None, None, mixes.sum(), betas.sum(0)


sample_boxes.register_autograd(_backward, setup_context=_keep)
