"""The default aggregation, fused, as an operator: plain means whose gradient also reaches κ."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("pixtree::straight_means", mutates_args=(), device_types="cpu")
def straight_means(
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    count: int,
    levels: Tensor,
    compared: int,
) -> Tensor:
    """Region means (B, N, d) of features (B, d, P); arguments as in `reference.aggregation.aggregate`."""
    from pixtree.kernels.compiled.aggregation import mean_batch

    return mean_batch(features, labels, count)


@torch.library.custom_op("pixtree::straight_gradients", mutates_args=(), device_types="cpu")
def straight_gradients(
    gradient: Tensor,
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    levels: Tensor,
    compared: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of the features (B, d, P), and of (w, π) per image, (B, 2)."""
    from pixtree.kernels.compiled.aggregation import pull_batch

    return pull_batch(gradient, features, fixed, weight, precision, labels, levels, compared)


@straight_means.register_fake
def _(
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    count: int,
    levels: Tensor,
    compared: int,
) -> Tensor:
    return features.new_empty((features.shape[0], count, features.shape[1]))


@straight_gradients.register_fake
def _(
    gradient: Tensor,
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    levels: Tensor,
    compared: int,
) -> tuple[Tensor, Tensor]:
    return features.new_empty(features.shape), features.new_empty((features.shape[0], 2))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    features, fixed, weight, precision, labels, _, levels, ctx.compared = inputs
    ctx.save_for_backward(features, fixed, weight, precision, labels, levels)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
    planes, scalars = straight_gradients(gradient, *ctx.saved_tensors, ctx.compared)
    of_weight, of_precision = scalars.sum(0).unbind()
    return planes, None, of_weight, of_precision, None, None, None, None


straight_means.register_autograd(_backward, setup_context=_keep)
