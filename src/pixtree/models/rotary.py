"""Rotary positions per region: timm's formulas on a grid of patches, read at the centroids of regions instead."""

import math
from typing import Any

import torch
from torch import Tensor

from pixtree.models.positions import patch_grid, places
from pixtree.models.timm_import import timm
from pixtree.runtime.transfer import filled

KINDS = ("RotaryEmbeddingCat", "RotaryEmbeddingDinoV3", "RotaryEmbeddingMixed")


def check_rotary(rope: Any) -> None:
    """Refuse the kinds of rotary embedding that cannot be read between patches."""
    kind = type(rope).__name__
    if rope is not None and kind not in KINDS:
        raise ValueError(f"rotary positions are supported as {', '.join(KINDS)}, got {kind}; choose an EVA-02 or DINOv3 model")
    if getattr(rope, "in_pixels", False):
        raise ValueError("rotary positions in pixel frequencies are not supported, got in_pixels=True; choose another model")
    if getattr(rope, "aug_active", False):
        raise ValueError("rotary shift, jitter and rescale are not supported for regions, got one of them; leave them out")


def rotary_embedding(rope: Any, labels: Tensor, count: int, patch: int, backend: str = "auto") -> Tensor:
    """The rotary embedding of the regions of labels (B, H, W), see `rotary_at`."""
    return rotary_at(rope, *places_of_regions(labels, count, patch, backend))


def places_of_regions(labels: Tensor, count: int, patch: int, backend: str = "auto") -> tuple[Tensor, Tensor]:
    """Centroids (B, N, 2) of the regions of labels (B, H, W) in patches, where patch i has coordinate i; rows and columns (2,)."""
    centres = places(labels, count, patch, backend)
    return centres, filled(patch_grid(labels, patch), centres)


def rotary_at(rope: Any, centres: Tensor, shape: Tensor, number: int | None = None) -> Tensor:
    """The rotary embedding of tokens at `centres` (B, N, 2), rows and columns in patches, of an image of `shape` patches.

    (B, 1, N, 2d), sines then cosines. Where frequencies are learned per block: (depth, B, heads, N, 2d), or (B, heads, N, 2d) for
    one block `number`. At the centres of square patches the result is timm's own.
    """
    kind = type(rope).__name__
    if kind == "RotaryEmbeddingMixed":
        return _mixed(rope, centres) if number is None else _mixed(rope, centres, number)[0]
    angles = _dinov3_angles(rope, centres, shape) if kind == "RotaryEmbeddingDinoV3" else _cat_angles(rope, centres, shape)
    halves = getattr(rope, "rotate_half", False)  # before timm 1.0.27 some embeddings have one layout only
    angles = angles.tile(2) if halves else angles.repeat_interleave(2, dim=-1)
    return torch.cat((angles.sin(), angles.cos()), dim=-1)[:, None]


def _cat_angles(rope: Any, places: Tensor, shape: Tensor) -> Tensor:
    """(B, N, d/2): coordinate times frequency, the first axis first."""
    places = places + rope.grid_offset
    if rope.ref_feat_shape is not None:
        places = places / shape * filled(rope.ref_feat_shape, places)
    bands = rope.bands
    if bands is None:
        bands = timm.layers.pos_embed_sincos.freq_bands(rope.dim // 4, temperature=rope.temperature, step=1, device=places.device)
    frequencies: Tensor = bands.to(places)
    return (_ordered(places, rope)[..., None] * frequencies).flatten(2)


def _dinov3_angles(rope: Any, places: Tensor, shape: Tensor) -> Tensor:
    """(B, N, d/2): coordinates in −1..1 over periods, rows first."""
    periods: Tensor = rope.periods.to(places)
    sides = {"max": shape.max().expand(2), "min": shape.min().expand(2), "separate": shape}[rope.normalize_coords]
    coordinates: Tensor = 2.0 * (places + 0.5 + rope.grid_offset) / sides - 1.0
    return (2.0 * math.pi * coordinates[..., None] / periods).flatten(2)


def _mixed(rope: Any, places: Tensor, number: int | None = None) -> Tensor:
    first, second = _ordered(places, rope).flatten(0, 1).unbind(-1)
    frequencies = rope.freqs if number is None else rope.freqs[:, number : number + 1]
    embedding: Tensor = timm.layers.pos_embed_sincos.get_mixed_freqs(frequencies, first, second)  # (depth, heads, B·N, 2d)
    return embedding.reshape(*embedding.shape[:2], *places.shape[:2], -1).transpose(1, 2)


def _ordered(places: Tensor, rope: Any) -> Tensor:
    """(row, column) as the embedding orders its axes."""
    return places.flip(-1) if rope.grid_indexing == "xy" else places
