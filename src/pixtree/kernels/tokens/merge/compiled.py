"""Tokens of one cluster as one token, compiled: one pass over the tokens, where no gradient is asked for."""

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.tokens.merge import definition
from pixtree.runtime.jit import kernel
from pixtree.runtime.threads import each, spans

WORTH_A_THREAD = 2**21  # values; memory is the limit, which threads share


def merge_tokens(tokens: Tensor, sizes: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Tokens (B, K + count, D) and sizes (B, count); gradients and other types are left to the definition."""
    learns = torch.is_grad_enabled() and tokens.requires_grad
    if learns or tokens.dtype != torch.float32 or sizes.dtype != torch.float32 or torch.compiler.is_compiling():
        return definition.merge_tokens(tokens, sizes, labels, count)
    batch, length, width = tokens.shape
    prefix = length - sizes.shape[1]
    merged, totals = torch.empty(batch, prefix + count, width), torch.empty(batch, count)
    inputs = [one.detach().contiguous().numpy() for one in (tokens, sizes, labels)]

    def of_images(span: tuple[int, int]) -> None:
        _merge_images(*inputs, prefix, *span, merged.numpy(), totals.numpy())

    each(of_images, spans(batch, tokens.numel(), WORTH_A_THREAD))
    return merged, totals


@kernel
def _merge_images(tokens, sizes, labels, prefix, start, end, merged, totals) -> None:
    """The images from `start` to `end`; members are added in their order, as the definition does."""
    for image in range(start, end):
        total = totals[image]
        total[:] = np.float32(0.0)
        for i in range(labels.shape[1]):
            total[labels[image, i]] += sizes[image, i]
        for i in range(prefix):
            merged[image, i] = tokens[image, i]
        merged[image, prefix:] = np.float32(0.0)
        for i in range(labels.shape[1]):
            label = labels[image, i]
            share = sizes[image, i] / total[label]
            row, mean = tokens[image, prefix + i], merged[image, prefix + label]
            for k in range(row.size):
                mean[k] += row[k] * share
