"""The way back: which tokens a coarse token stands for, after every block, down to pixels."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pixtree.kernels import kernels_for


@dataclass(frozen=True, eq=False)
class TokenTree:
    """The nested partitions of one batch: after every block, the coarse token that each token of the first block is in.

    labels: one (B, N) int64 per block, numbered from 0 by first tokens; equal labels stay equal in later blocks.
    base: (B, H, W) int64, the token of the first block that each pixel is in.
    """

    labels: tuple[Tensor, ...]
    base: Tensor

    def __repr__(self) -> str:
        batch, tokens = self.labels[0].shape
        left = ", ".join(map(str, self.counts))
        return f"TokenTree({batch} image{'' if batch == 1 else 's'}, {tokens} tokens, after the blocks {left})"

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Tokens after each block; all images of a batch have the same."""
        return tuple(int(labels.max()) + 1 for labels in self.labels)

    def unfold(self, values: Tensor, block: int = -1) -> Tensor:
        """Values (B, n, C) of the tokens after a block, given to every token of the first block: (B, N, C); differentiable."""
        labels = self.labels[block]
        if values.ndim != 3 or values.shape[:2] != (labels.shape[0], self.counts[block]):
            raise ValueError(
                f"expected values (B, n, C) with B, n = {(labels.shape[0], self.counts[block])}, got {tuple(values.shape)}; "
                "drop prefix tokens and name the block"
            )
        return unfolded(values, labels)

    def maps(self, block: int = -1) -> Tensor:
        """The coarse token of every pixel after a block, (B, H, W) int64."""
        labels = self.labels[block]
        return labels.gather(1, self.base.expand(len(labels), -1, -1).flatten(1)).view(len(labels), *self.base.shape[1:])

    def to_pixels(self, values: Tensor, block: int = -1) -> Tensor:
        """Values (B, n, C) of the tokens after a block, painted over their pixels: (B, C, H, W); differentiable."""
        maps = self.maps(block)
        rows = self.unfold(values, block)
        planes = kernels_for("auto", rows.device).paint(rows, self.base.expand_as(maps).flatten(1))
        return planes.view(*planes.shape[:2], *maps.shape[1:])


def unfolded(values: Tensor, labels: Tensor) -> Tensor:
    """Values (B, n, C) at labels (B, N): (B, N, C)."""
    return values.gather(1, labels[:, :, None].expand(-1, -1, values.shape[2]))


def averaged(values: Tensor, sizes: Tensor, labels: Tensor, count: int) -> Tensor:
    """Means (B, count, C) of values (B, n, C), each counting as its size (B, n); differentiable in the values."""
    batch, tokens, width = values.shape
    # One index for the whole batch, so that the sum runs over rows; a share per row, so that single rows stay as they are.
    index = (labels + torch.arange(batch, device=labels.device)[:, None] * count).flatten()
    totals = sizes.new_zeros(batch * count).index_add(0, index, sizes.flatten())
    shares = (sizes.flatten() / totals[index]).to(values.dtype)
    rows = (values.reshape(batch * tokens, width)) * shares[:, None]
    means = values.new_zeros(batch * count, width).scatter_add(0, index[:, None].expand(-1, width), rows)
    return means.view(batch, count, width)


def summed(sizes: Tensor, labels: Tensor, count: int) -> Tensor:
    """Sizes (B, count) of clusters, from those of their members (B, n)."""
    return sizes.new_zeros(sizes.shape[0], count).scatter_add(1, labels, sizes)
