"""Facets: queries, keys, values and rows of chosen blocks, of patch models and of retrofits alike; one image at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.models.adapters import check_module
from pixtree.models.coarsening.blocks import Projections, attend, check_blocks, think
from pixtree.models.coarsening.entry import Entry, enter, held_vit
from pixtree.models.positions import Grid
from pixtree.models.vit import PixtreeViT

FACETS = ("query", "key", "value", "row")


class Facet(NamedTuple):
    """What is read of a block: its number, −1 for the last one, and one of FACETS; a row is what the block gives on."""

    block: int
    name: str


@dataclass(frozen=True, eq=False)
class Reading:
    """What a model makes of one image.

    features: (N, D) of the N tokens, the facets side by side, each of unit length. attention: (N,) how much the last block's class
    token looks at each token, mean over heads; without a class token, how much all tokens do. entry: the input of the first block.
    is_grid: whether tokens are patches of `entry.grid`; else `entry.base` (1, H, W) has the token of every pixel.
    """

    features: Tensor
    attention: Tensor
    entry: Entry
    is_grid: bool

    @property
    def grid(self) -> Grid | None:
        """Rows and columns of patches; None for tokens that are regions."""
        return self.entry.grid if self.is_grid else None


@torch.no_grad()
def read(model: Any, image: Tensor, facets: Sequence[Facet]) -> Reading:
    """The facets of one normalised image (1, C, H, W); patches must fill its height and width."""
    vit = checked_reader(model)
    depth, prefix = len(vit.blocks), int(vit.num_prefix_tokens)
    wanted = [(checked_block(facet, depth), facet.name) for facet in facets]
    is_grid = not isinstance(model, PixtreeViT)
    entry = enter(model, image, (int(image.shape[2]), int(image.shape[3])) if is_grid else None)
    rows, attention, found = entry.rows, entry.rows, {}
    for number, block in enumerate(vit.blocks):
        rows, made, whole = attend(block, rows, None, rope_at(vit, entry.rope, number), whole=number == depth - 1)
        rows = think(block, rows)
        attention = attention if whole is None else whole
        found.update({(at, name): _facet(made, rows, name)[0, prefix:] for at, name in wanted if at == number})
    readers = slice(0, 1) if prefix else slice(None)
    features = torch.cat([functional.normalize(found[one], dim=-1) for one in wanted], dim=-1)
    return Reading(features, attention[0, :, readers, prefix:].mean(dim=(0, 1)), entry, is_grid)


@torch.no_grad()
def logits_of_some(model: Any, entry: Entry, kept: Tensor) -> Tensor:
    """Logits (classes,) of one image of which only the `kept` tokens (N,) bool go through the blocks."""
    vit = held_vit(model)
    prefix = int(vit.num_prefix_tokens)
    rows = torch.cat((entry.rows[:, :prefix], entry.rows[:, prefix:][:, kept]), dim=1)
    for number, block in enumerate(vit.blocks):
        rope = rope_at(vit, entry.rope, number)
        rows = block(rows) if rope is None else block(rows, rope=rope[..., kept, :])
    logits: Tensor = vit.forward_head(vit.norm(rows))
    return logits[0]


def rope_at(vit: Any, rope: Tensor | None, number: int) -> Tensor | None:
    """The rotary embedding of one block; some models have one per block."""
    if rope is None:
        return None
    return rope[number] if type(vit.rope).__name__ == "RotaryEmbeddingMixed" else rope


def checked_reader(model: Any) -> Any:
    """The timm model inside a supported model; all others are refused with the reason."""
    if isinstance(model, str):
        raise TypeError(f"expected a model, got the name {model!r}; pass timm.create_model({model!r}, pretrained=True)")
    if not isinstance(model, PixtreeViT):
        check_module(model)
    check_blocks(held_vit(model))
    return held_vit(model)


def checked_block(facet: Facet, depth: int) -> int:
    """The place of a facet's block, from 0."""
    if facet.name not in FACETS:
        raise ValueError(f"a facet is one of {', '.join(FACETS)}, got {facet.name!r}; choose one of these")
    if not 1 <= abs(facet.block) <= depth:
        raise ValueError(f"this model has blocks 1 to {depth}, or −1 for the last, got {facet.block}; choose one of these")
    return facet.block - 1 if facet.block > 0 else depth + facet.block


def _facet(made: Projections, rows: Tensor, name: str) -> Tensor:
    """One facet of a block as rows (B, K + N, D)."""
    if name == "row":
        return rows
    part: Tensor = getattr(made, name)  # (B, heads, K + N, d)
    return part.transpose(1, 2).flatten(2)
