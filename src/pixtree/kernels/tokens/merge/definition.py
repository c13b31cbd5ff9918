"""Tokens of one cluster as one token, in plain torch on any device; differentiable in the tokens."""

import torch
from torch import Tensor


def merge_tokens(tokens: Tensor, sizes: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Tokens (B, K + count, D) and sizes (B, count) of clusters.

    tokens: (B, K + n, D), of which the first K stay as they are. sizes: (B, n) float32, by which the others are averaged.
    labels: (B, n) int64, which use every number from 0 to count − 1.
    """
    prefix = tokens.shape[1] - sizes.shape[1]
    means = averaged(tokens[:, prefix:], sizes, labels, count)
    return torch.cat((tokens[:, :prefix], means), dim=1), summed(sizes, labels, count)


def averaged(values: Tensor, sizes: Tensor, labels: Tensor, count: int) -> Tensor:
    """Means (B, count, C) of values (B, n, C), each counting as its size (B, n); differentiable in the values."""
    batch, tokens, width = values.shape
    # One index for the whole batch, so that the sum runs over rows of memory; a share per row, so that single tokens do not change.
    index = (labels + torch.arange(batch, device=labels.device)[:, None] * count).flatten()
    totals = sizes.new_zeros(batch * count).index_add(0, index, sizes.flatten())
    shares = (sizes.flatten() / totals[index]).to(values.dtype)
    weighted = values.reshape(batch * tokens, width) * shares[:, None]
    means = values.new_zeros(batch * count, width).scatter_add(0, index[:, None].expand(-1, width), weighted)
    return means.view(batch, count, width)


def summed(sizes: Tensor, labels: Tensor, count: int) -> Tensor:
    """Sizes (B, count) of clusters, from those of their members (B, n)."""
    return sizes.new_zeros(sizes.shape[0], count).scatter_add(1, labels, sizes)
