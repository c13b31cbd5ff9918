"""An exact number of tokens at the end of a tower: one partition of its patches, which all of its hidden states share."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.merge.definition import averaged, summed
from pixtree.models.coarsening.rules import LEAST, ROUNDS
from pixtree.models.coarsening.schedules import halved
from pixtree.models.patch_grids import Grid
from pixtree.runtime.precision import full_precision
from pixtree.tokenizer.tokens import painted
from pixtree.trees.build import partition_images
from pixtree.trees.cuts import Exactly

POOLS = ("tree", "regions")


@dataclass(frozen=True)
class Final:
    """What a tower returns: `count` tokens after its prefix.

    pool: "tree", the Ward tree of the tokens of a hidden state, weighted by attention; or "regions", those of the image's tree.
    layer: the number of that hidden state, as in `hidden_states[layer]`; other models read one that is not the last.
    """

    count: int
    pool: str = "tree"
    layer: int = -1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"a tower returns at least 1 token, got final_tokens={self.count}; ask for more")
        if self.pool not in POOLS:
            raise ValueError(f"pool is one of {', '.join(POOLS)}, got {self.pool!r}; choose one of these")

    def block(self, depth: int) -> int:
        """The number of the block that makes the hidden state."""
        block = self.layer % (depth + 1) - 1
        if block < 0 or not -depth - 1 <= self.layer <= depth:
            raise ValueError(f"hidden states after a layer are numbered 1 to {depth}, or −1 for the last, got {self.layer}")
        return block

    def check(self, left: int) -> None:
        """Refuse more tokens than are left where the tree is built."""
        if self.pool == "tree" and self.count > left:
            raise ValueError(f"{left} tokens are left at hidden state {self.layer}, got final_tokens={self.count}; ask for fewer")


@dataclass(frozen=True, eq=False)
class VisualTokens:
    """The tokens of a tower in reading order, that is by their first patch or pixel.

    features: (B, n, D). sizes: (B, n) float32, in patches. positions: (B, n, 2) float32, their centres in pixels, rows first.
    maps: (B, H, W) int64, the token of every pixel.
    """

    features: Tensor
    sizes: Tensor
    positions: Tensor
    maps: Tensor

    def __repr__(self) -> str:
        batch, count, width = self.features.shape
        return f"VisualTokens({batch} image{'' if batch == 1 else 's'}, {count} tokens of length {width})"

    def to_pixels(self, values: Tensor) -> Tensor:
        """Values (B, n, C) painted over the pixels of their tokens: (B, C, H, W); differentiable."""
        return painted(values, self.maps)


@dataclass(frozen=True, eq=False)
class Folding:
    """A partition of the patches of a batch. shares: (B, n, N) float32, of every patch in every token; sums over patches are 1.

    maps: (B, rows · patch, columns · patch) int64, the token of every pixel that fills a patch.
    """

    shares: Tensor
    maps: Tensor

    def means(self, rows: Tensor) -> Tensor:
        """Rows (B, K + N, D) with the patches of one token averaged: (B, K + n, D)."""
        prefix = rows.shape[1] - self.shares.shape[2]
        return torch.cat((rows[:, :prefix], self.shares.to(rows.dtype) @ rows[:, prefix:]), dim=1)

    def visual_tokens(self, features: Tensor, patch: int, shape: Grid) -> VisualTokens:
        """Features (B, n, D) with the places of their tokens in images of this height and width."""
        batch, height, width = self.maps.shape
        count = self.shares.shape[1]
        labels, start = self.maps.flatten(1), torch.zeros(batch, count, device=features.device)
        down, across = (torch.arange(side, device=features.device) for side in shape)
        rows, columns = torch.meshgrid(down[:height] + 0.5, across[:width] + 0.5, indexing="ij")
        sums = [start.scatter_add(1, labels, one.expand_as(self.maps).flatten(1)) for one in (torch.ones_like(rows), rows, columns)]
        pixels, centres = sums[0], torch.stack(sums[1:], dim=-1) / sums[0][..., None]
        down, across = down.clamp_max(height - 1), across.clamp_max(width - 1)  # pixels that fill no patch
        return VisualTokens(features, pixels / patch**2, centres, self.maps[:, down[:, None], across])


def folding_of_tree(features: Tensor, weights: Tensor, within: Tensor | None, count: int, base: Tensor, backend: str) -> Folding:
    """The Ward tree of tokens (B, m, D) with weights (B, m), cut at `count`.

    within: (B, N), the token of every patch; None if there are as many. base: (1, H, W), the patch of every pixel.
    """
    labels = exact_ward(features.detach().to(torch.float32), weights, count, backend)
    labels = labels if within is None else labels.gather(1, within)
    one_hot = torch.zeros(len(labels), count, labels.shape[1], device=labels.device).scatter_(1, labels[:, None], 1.0)
    maps = labels.gather(1, base.expand(len(labels), -1, -1).flatten(1)).view(len(labels), *base.shape[1:])
    return Folding(one_hot / one_hot.sum(dim=2, keepdim=True), maps)


def folding_of_regions(pixels: Tensor, grid: Grid, patch: int, count: int, backend: str) -> Folding:
    """The cut of every image's own tree at `count` regions. pixels: (B, 3, rows · patch, columns · patch) in 0..1."""
    labels = partition_images(pixels.detach().to(torch.float32).clamp(0.0, 1.0), Exactly(count), backend=backend).labels
    counts = kernels_for(backend, labels.device).cell_counts(labels, count, grid).to(torch.float32)
    return Folding(counts / counts.sum(dim=2, keepdim=True), labels.to(torch.int64))


def exact_ward(features: Tensor, weights: Tensor, count: int, backend: str = "auto") -> Tensor:
    """Labels (B, n) of the Ward tree's cut at any count, by steps that at most halve the number of clusters."""
    kernels, labels = kernels_for(backend, features.device), None
    weights = weights.clamp_min(LEAST)
    while labels is None or features.shape[1] > count:
        left = max(count, halved(features.shape[1]))
        with full_precision(features.device):  # autocast would round the distances
            found: Tensor = kernels.ward_labels(features, weights, left, ROUNDS)
        features, weights = averaged(features, weights, found, left), summed(weights, found, left)
        labels = found if labels is None else found.gather(1, labels)
    return labels
