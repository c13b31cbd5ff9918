"""The fused encoder as an operator; no gradient reaches the images."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("pixtree::encode", mutates_args=(), device_types="cpu")
def encode(images: Tensor, lift: Tensor, offset: Tensor, first: Tensor, bias: Tensor, second: Tensor, shift: Tensor) -> Tensor:
    """Features (B, d, H, W) float32 of images (B, C, H, W) float32: A x + b + up(c₂(silu(c₁ x))), c₁ and c₂ of 2×2, stride 2.

    lift, offset: A (d, C, 1, 1) and b (d,). first, bias: of c₁, (h, C, 2, 2) and (h,). second, shift: of c₂, (d, h, 2, 2) and (d,).
    """
    from pixtree.kernels.compiled.encoding import encode_batch

    return encode_batch(images, lift, offset, first, bias, second, shift)


@torch.library.custom_op("pixtree::encode_backward", mutates_args=(), device_types="cpu")
def encode_backward(
    gradient: Tensor, images: Tensor, first: Tensor, bias: Tensor, second: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of A, b, of c₁'s weight and bias, and of c₂'s, from that of the features (B, d, H, W)."""
    from pixtree.kernels.compiled.encoding import pull_batch

    return pull_batch(gradient, images, first, bias, second)


@encode.register_fake
def _(images: Tensor, lift: Tensor, offset: Tensor, first: Tensor, bias: Tensor, second: Tensor, shift: Tensor) -> Tensor:
    return images.new_empty((images.shape[0], lift.shape[0], *images.shape[2:]))


@encode_backward.register_fake
def _(
    gradient: Tensor, images: Tensor, first: Tensor, bias: Tensor, second: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    depth, channels = second.shape[0], images.shape[1]
    shapes: tuple[Any, ...] = ((depth, channels, 1, 1), depth, first.shape, bias.shape, second.shape, depth)
    lift, offset, first_sum, bias_sum, second_sum, shift = (images.new_empty(shape) for shape in shapes)
    return lift, offset, first_sum, bias_sum, second_sum, shift


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    images, _, _, first, bias, second, _ = inputs
    ctx.save_for_backward(images, first, bias, second)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    return None, *encode_backward(gradient, *ctx.saved_tensors)


encode.register_autograd(_backward, setup_context=_keep)
