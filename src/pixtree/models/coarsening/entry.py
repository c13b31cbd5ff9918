"""What enters the first block: from images to rows, for timm's patch models and for retrofits."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pixtree.models.positions import Grid, on_grid, patch_grid
from pixtree.models.rotary import places_of_regions
from pixtree.models.vit import PixtreeViT


class Entry(NamedTuple):
    """rows: (B, K + N, D) before the first block. rope: rotary embedding of the N tokens or None.

    places: (B or 1, N, 2) in patches, sides: (2,) of the image in patches; both None without rotary positions.
    base: (B or 1, H, W) int64, the token of every pixel. grid: rows and columns of patches.
    """

    rows: Tensor
    rope: Tensor | None
    places: Tensor | None
    sides: Tensor | None
    base: Tensor
    grid: Grid


def held_vit(model: Any) -> Any:
    """The timm model whose blocks run."""
    return model.vit if isinstance(model, PixtreeViT) else model


def token_count(model: Any) -> int:
    """Tokens that enter the first block at the model's own image size."""
    if not isinstance(model, PixtreeViT):
        return int(model.patch_embed.num_patches)
    count = getattr(model.tokenizer.budget, "count", None)
    if count is None or type(model.tokenizer.budget).__name__ != "Exactly":
        raise ValueError(
            f"token trees need one count for all images, got {model.tokenizer.budget}; retrofit with tokens= instead of budget="
        )
    return int(getattr(model.partitioner, "tokens", None) or count)


def stem_flops(model: Any) -> int:
    """Operations of the projection of one token."""
    if isinstance(model, PixtreeViT):
        options = model.tokenizer.options
        return 2 * options.channels * options.patch**2 * int(options.width or 0)
    return 2 * int(model.patch_embed.proj.weight.numel())


def enter(model: Any, images: Tensor) -> Entry:
    """Rows for images (B, C, H, W), by the model's own stem."""
    return _of_regions(model, images) if isinstance(model, PixtreeViT) else _of_patches(model, images)


def _of_patches(vit: Any, images: Tensor) -> Entry:
    positioned = vit._pos_embed(vit.patch_embed(images))
    rows, rope = positioned if isinstance(positioned, tuple) else (positioned, None)
    height, width = int(images.shape[2]), int(images.shape[3])
    patch = vit.patch_embed.patch_size[0]
    grid = math.ceil(height / patch), math.ceil(width / patch)
    down, across = (torch.arange(side, device=images.device) // patch for side in (height, width))
    base = (down[:, None] * grid[1] + across)[None]
    places = sides = None
    if rope is not None:
        numbers = torch.arange(grid[0] * grid[1], device=images.device)
        places = torch.stack((numbers // grid[1], numbers % grid[1]), dim=-1).to(torch.float32)[None]
        sides = torch.tensor(grid, dtype=torch.float32, device=images.device)
    return Entry(vit.norm_pre(rows), rope, places, sides, base, grid)


def _of_regions(model: PixtreeViT, images: Tensor) -> Entry:
    tokens = model.tokens(images)
    sequence = model.sequence(tokens)
    if sequence.seen is not None:
        raise ValueError("token trees need one count for all images, got a padded batch; retrofit with tokens= instead of budget=")
    labels, patch = tokens.partition.labels, model.tokenizer.options.patch
    places = sides = None
    if sequence.rope is not None:
        places, sides = places_of_regions(labels, tokens.features.shape[1], patch)
    rows = model.backbone.start(sequence.rows)
    return Entry(rows, sequence.rope, places, sides, labels.to(torch.int64), patch_grid(labels, patch))


def on_patches(model: Any, rows: Tensor, entry: Entry) -> Tensor:
    """Rows (B, N, D) of the first block's tokens as maps over the patch grid, (B, D, rows, columns)."""
    if isinstance(model, PixtreeViT):
        return on_grid(rows, entry.base.to(torch.int32), entry.grid)
    return rows.transpose(1, 2).reshape(rows.shape[0], rows.shape[2], *entry.grid)
