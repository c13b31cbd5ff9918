"""Sampling of bounding boxes on the CPU, forwards and backwards in numba: `sampling.extract`, fused.

A row of samples first blends its two image rows over the columns of the box (contiguous, so it vectorises), then interpolates
along the row. The backward pass is the transpose: samples, columns of the box, two image rows.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels.compiled.jit import inlined, kernel
from pixtree.kernels.threads import each

Array = NDArray[Any]


@torch.library.custom_op("pixtree::sample_boxes", mutates_args=(), device_types="cpu")
def sample_boxes(image: Tensor, labels: Tensor, frame: Tensor, mix: Tensor, background: Tensor) -> tuple[Tensor, Tensor]:
    """F(S) (B, N, C, q, q) and M⁺ (B, N, q, q); arguments as in `sampling.extract`."""
    batch, channels = image.shape[:2]
    count, samples = frame.shape[1], background.shape[-1]
    tokens = image.new_empty((batch, count, channels, samples, samples))
    inside = image.new_empty((batch, count, samples, samples))
    inputs = [one.detach().contiguous().numpy() for one in (image, labels, frame)]
    scale, beta = mix.detach().numpy().reshape(1)[0], background.detach().contiguous().numpy()

    def of_image(number: int) -> None:
        sample_image(*(one[number] for one in inputs), scale, beta, tokens[number].numpy(), inside[number].numpy())

    each(of_image, range(batch))
    return tokens, inside


@torch.library.custom_op("pixtree::sample_boxes_backward", mutates_args=(), device_types="cpu")
def sample_boxes_backward(
    gradient: Tensor, image: Tensor, labels: Tensor, frame: Tensor, mix: Tensor, background: Tensor, inside: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the image (B, C, H, W), of λ per image (B,), and of β per image (B, C, q, q)."""
    planes = torch.zeros_like(image, memory_format=torch.contiguous_format)
    mixes, betas = image.new_zeros(image.shape[0]), image.new_zeros((image.shape[0], *background.shape))
    inputs = [one.detach().contiguous().numpy() for one in (gradient, image, frame, inside)]
    scale, beta = mix.detach().numpy().reshape(1)[0], background.detach().contiguous().numpy()

    def of_image(number: int) -> None:
        outputs = planes[number].numpy(), betas[number].numpy()
        mixes[number] = spread_image(*(one[number] for one in inputs), scale, beta, *outputs)

    each(of_image, range(image.shape[0]))
    return planes, mixes, betas


@sample_boxes.register_fake
def _(image: Tensor, labels: Tensor, frame: Tensor, mix: Tensor, background: Tensor) -> tuple[Tensor, Tensor]:
    shape = (image.shape[0], frame.shape[1], *background.shape)
    return image.new_empty(shape), image.new_empty((*shape[:2], *background.shape[1:]))


@sample_boxes_backward.register_fake
def _(
    gradient: Tensor, image: Tensor, labels: Tensor, frame: Tensor, mix: Tensor, background: Tensor, inside: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(image), image.new_empty(image.shape[0]), image.new_empty((image.shape[0], *background.shape))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    planes, mixes, betas = sample_boxes_backward(gradient, *ctx.saved_tensors)
    return planes, None, None, mixes.sum(), betas.sum(0)


sample_boxes.register_autograd(_backward, setup_context=_keep)


@inlined
def place_taps(start: Any, side: Any, samples: int, size: int, low: Array, high: Array, fraction: Array) -> None:
    """Bilinear taps of one axis; see `sampling.taps`."""
    for i in range(samples):
        position = start + (np.float32(i) + np.float32(0.5)) * (side / np.float32(samples)) - np.float32(0.5)
        position = min(max(position, np.float32(0.0)), np.float32(size - 1))
        low[i] = np.int64(position)
        high[i] = min(low[i] + 1, size - 1)
        fraction[i] = position - np.float32(low[i])


@kernel
def sample_image(image: Array, labels: Array, frame: Array, mix: Any, background: Array, tokens: Array, inside: Array) -> None:
    """One image (C, H, W): tokens (N, C, q, q) and inside (N, q, q); regions with an empty frame get zeros."""
    channels, height, width = image.shape
    samples = background.shape[2]
    kind = image.dtype
    blend = np.empty(width, kind)
    top, bottom, down = np.empty(samples, np.int64), np.empty(samples, np.int64), np.empty(samples, np.float32)
    left, right, along = np.empty(samples, np.int64), np.empty(samples, np.int64), np.empty(samples, np.float32)
    for region in range(frame.shape[0]):
        if frame[region, 2] <= 0:
            tokens[region] = 0
            inside[region] = 0
            continue
        place_taps(frame[region, 0], frame[region, 2], samples, height, top, bottom, down)
        place_taps(frame[region, 1], frame[region, 3], samples, width, left, right, along)
        first = left[0]
        reach = right[samples - 1] - first + 1
        for i in range(samples):
            lower, upper = kind.type(down[i]), kind.type(1) - kind.type(down[i])
            above, below = labels[top[i], first : first + reach], labels[bottom[i], first : first + reach]
            for t in range(reach):
                blend[t] = (upper if above[t] == region else kind.type(0)) + (lower if below[t] == region else kind.type(0))
            for j in range(samples):
                a = blend[left[j] - first]
                inside[region, i, j] = a + kind.type(along[j]) * (blend[right[j] - first] - a)
            for c in range(channels):
                over, under = image[c, top[i], first : first + reach], image[c, bottom[i], first : first + reach]
                for t in range(reach):
                    blend[t] = upper * over[t] + lower * under[t]
                for j in range(samples):
                    a = blend[left[j] - first]
                    value = a + kind.type(along[j]) * (blend[right[j] - first] - a)
                    outside = kind.type(1) - inside[region, i, j]
                    keep = inside[region, i, j] + mix * outside
                    tokens[region, c, i, j] = keep * value + (kind.type(1) - mix) * outside * background[c, i, j]


@kernel
def spread_image(
    gradient: Array, image: Array, frame: Array, inside: Array, mix: Any, background: Array, planes: Array, betas: Array
) -> float:
    """Transpose of `sample_image` for one image: adds into planes (C, H, W) and betas (C, q, q), returns the gradient of λ."""
    channels, height, width = image.shape
    samples = background.shape[2]
    kind = image.dtype
    blend, pull = np.empty(width, kind), np.empty(width, kind)
    top, bottom, down = np.empty(samples, np.int64), np.empty(samples, np.int64), np.empty(samples, np.float32)
    left, right, along = np.empty(samples, np.int64), np.empty(samples, np.int64), np.empty(samples, np.float32)
    total = 0.0
    for region in range(frame.shape[0]):
        if frame[region, 2] <= 0:
            continue
        place_taps(frame[region, 0], frame[region, 2], samples, height, top, bottom, down)
        place_taps(frame[region, 1], frame[region, 3], samples, width, left, right, along)
        first = left[0]
        reach = right[samples - 1] - first + 1
        for i in range(samples):
            lower, upper = kind.type(down[i]), kind.type(1) - kind.type(down[i])
            for c in range(channels):
                over, under = image[c, top[i], first : first + reach], image[c, bottom[i], first : first + reach]
                for t in range(reach):
                    blend[t] = upper * over[t] + lower * under[t]
                    pull[t] = 0
                for j in range(samples):
                    g, outside = gradient[region, c, i, j], kind.type(1) - inside[region, i, j]
                    a = blend[left[j] - first]
                    value = a + kind.type(along[j]) * (blend[right[j] - first] - a)
                    betas[c, i, j] += (kind.type(1) - mix) * outside * g
                    total += g * outside * (value - background[c, i, j])
                    force = (inside[region, i, j] + mix * outside) * g
                    pull[left[j] - first] += (kind.type(1) - kind.type(along[j])) * force
                    pull[right[j] - first] += kind.type(along[j]) * force
                target_over, target_under = planes[c, top[i], first : first + reach], planes[c, bottom[i], first : first + reach]
                for t in range(reach):
                    target_over[t] += upper * pull[t]
                for t in range(reach):
                    target_under[t] += lower * pull[t]
    return total
