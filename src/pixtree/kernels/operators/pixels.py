"""Pixels of images in other forms as operators; gradients reach the images."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("pixtree::whole_bytes", mutates_args=(), device_types="cpu")
def whole_bytes(images: Tensor) -> Tensor:
    """Images (B, C, H, W) float32 in which values that mean a byte are that byte, to the last bit."""
    from pixtree.kernels.compiled.pixels import whole_bytes_of_batch

    return whole_bytes_of_batch(images)


@torch.library.custom_op("pixtree::denormalised", mutates_args=(), device_types="cpu")
def denormalised(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """std · x + mean of images (B, C, H, W) float32; mean and std (C,) have no gradients."""
    from pixtree.kernels.compiled.pixels import denormalised_batch

    return denormalised_batch(images, mean, std)


@whole_bytes.register_fake
def _(images: Tensor) -> Tensor:
    return images.new_empty(images.shape)


@denormalised.register_fake
def _(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    return images.new_empty(images.shape)


def _straight_through(ctx: Any, gradient: Tensor) -> Tensor:
    return gradient


def _keep_scale(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[2])


def _scaled(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    (std,) = ctx.saved_tensors
    return gradient * std.to(gradient.dtype)[:, None, None], None, None


whole_bytes.register_autograd(_straight_through)
denormalised.register_autograd(_scaled, setup_context=_keep_scale)
