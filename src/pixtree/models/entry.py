"""The input of the first block: from images to tokens, for timm's patch models and for retrofits."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.models.patch_grids import Grid, on_grid, patch_grid, places_of_regions, rotary_at
from pixtree.models.region_input import RegionInput, check_tensor
from pixtree.models.timm_import import timm
from pixtree.runtime.transfer import filled


class Entry(NamedTuple):
    """tokens: (B, K + N, D) before the first block. rope: rotary embedding of the N tokens or None.

    places: (B or 1, N, 2) in patches, sides: (2,) of the image in patches; both None without rotary positions.
    of_pixels: makes `base`, which logits do not need. grid: rows and columns of patches.
    """

    tokens: Tensor
    rope: Tensor | None
    places: Tensor | None
    sides: Tensor | None
    of_pixels: Callable[[], Tensor]
    grid: Grid

    @property
    def base(self) -> Tensor:
        """The token of every pixel, (B or 1, H, W) int64."""
        return self.of_pixels()


def held_vit(model: Any) -> Any:
    """The timm model whose blocks run."""
    return model.vit if isinstance(model, RegionInput) else model


def token_count(model: Any, input_size: Grid | None = None) -> int:
    """Tokens that enter the first block, at the model's own image size or another (height, width)."""
    if not isinstance(model, RegionInput):
        patch = model.patch_embed.patch_size[0]
        return int(model.patch_embed.num_patches) if input_size is None else math.prod(side // patch for side in input_size)
    count = getattr(model.tokenizer.budget, "count", None)
    if count is None or type(model.tokenizer.budget).__name__ != "Exactly":
        raise ValueError(f"token trees need one count for all images, got {model.tokenizer.budget}; retrofit with tokens= instead")
    return int(getattr(model.partitioner, "tokens", None) or count)


def stem_flops(model: Any) -> int:
    """Operations of the projection of one token."""
    if isinstance(model, RegionInput):
        options = model.tokenizer.options
        return 2 * options.encoder.channels * options.sampling.patch**2 * int(options.width or 0)
    return 2 * int(model.patch_embed.proj.weight.numel())


def enter(model: Any, images: Tensor, input_size: Grid | None = None) -> Entry:
    """The tokens of images (B, C, H, W) by the model's own stem; with `input_size` the images are resized to it first."""
    check_tensor(images)
    return _of_regions(model, images) if isinstance(model, RegionInput) else _of_patches(model, images, input_size)


def _of_patches(vit: Any, images: Tensor, input_size: Grid | None) -> Entry:
    height, width = int(images.shape[2]), int(images.shape[3])
    patch = vit.patch_embed.patch_size[0]
    if input_size is None:
        grid = math.ceil(height / patch), math.ceil(width / patch)
        positioned = vit._pos_embed(vit.patch_embed(images))
        tokens, rope = positioned if isinstance(positioned, tuple) else (positioned, None)
    else:
        grid = input_size[0] // patch, input_size[1] // patch
        tokens, rope = _resized(vit, images, input_size, grid), None
    # Where images were resized, a pixel's token is that of the cell of the grid that it falls into.
    cell = (patch, patch) if input_size is None else (height / grid[0], width / grid[1])

    def base() -> Tensor:
        down, across = (cells(length, side, images.device) for length, side in zip((height, width), cell, strict=True))
        numbers: Tensor = down[:, None] * grid[1] + across
        return numbers[None]

    places = sides = None
    if getattr(vit, "rope", None) is not None:
        numbers = torch.arange(grid[0] * grid[1], device=images.device)
        places = torch.stack((numbers // grid[1], numbers % grid[1]), dim=-1).to(torch.float32)[None]
        sides = filled(grid, places)
        rope = rotary_at(vit.rope, places, sides) if rope is None else rope
    return Entry(vit.norm_pre(tokens), rope, places, sides, base, grid)


def cells(length: int, side: float, device: torch.device) -> Tensor:
    """The row or column of the patch grid that each of `length` pixels is in, for patches of `side` pixels."""
    return ((torch.arange(length, device=device) + 0.5) / side).to(torch.int64)


def _resized(vit: Any, images: Tensor, size: Grid, grid: Grid) -> Tensor:
    """The tokens that timm's `_pos_embed` returns after `set_input_size`, without changing the model."""
    if tuple(images.shape[2:]) != size:
        images = functional.interpolate(images, size, mode="bicubic", antialias=True)
    embedding = vit.patch_embed
    patches = embedding.norm(embedding.proj(images).flatten(2).transpose(1, 2))
    named = (getattr(vit, name, None) for name in ("cls_token", "dist_token", "reg_token"))
    prefix = [token.expand(images.shape[0], -1, -1) for token in named if token is not None]
    if vit.pos_embed is None:
        tokens = torch.cat([*prefix, patches], dim=1)
    else:
        own = 0 if vit.no_embed_class else vit.num_prefix_tokens
        table = timm.layers.resample_abs_pos_embed(vit.pos_embed, grid, embedding.grid_size, num_prefix_tokens=own)
        tokens = torch.cat([*prefix, patches], dim=1) + table if own else torch.cat([*prefix, patches + table], dim=1)
    positioned: Tensor = vit.pos_drop(tokens)
    return positioned


def _of_regions(model: RegionInput, images: Tensor) -> Entry:
    tokens = model.tokens(images)
    sequence = model.sequence(tokens)
    if sequence.seen is not None:
        raise ValueError("token trees need one count for all images, got a padded batch; retrofit with tokens= instead")
    labels, patch = tokens.partition.labels, model.tokenizer.options.sampling.patch
    places = sides = None
    if sequence.rope is not None:
        places, sides = places_of_regions(labels, tokens.features.shape[1], patch, tokens.backend)
    started = model.started(sequence.rows)
    return Entry(started, sequence.rope, places, sides, lambda: labels.to(torch.int64), patch_grid(labels, patch))


def on_patches(model: Any, tokens: Tensor, entry: Entry) -> Tensor:
    """Values (B, N, D) of the first block's tokens as maps over the patch grid, (B, D, rows, columns)."""
    if isinstance(model, RegionInput):
        return on_grid(tokens, entry.base.to(torch.int32), model.tokenizer.options.sampling.patch, model.tokenizer.backend)
    return tokens.transpose(1, 2).reshape(tokens.shape[0], tokens.shape[2], *entry.grid)
