"""Facets: queries, keys, values and output tokens of chosen blocks, of patch models and retrofits; one image at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.models.adapters import check_module
from pixtree.models.coarsening.blocks import Projections, attend, check_blocks, think
from pixtree.models.entry import Entry, enter, held_vit
from pixtree.models.patch_grids import Grid, rope_at
from pixtree.models.vit import PixtreeViT

FACETS = ("query", "key", "value", "row")


class Facet(NamedTuple):
    """What to read of a block: its number, −1 for the last one, and one of FACETS; a row is the block's output token."""

    block: int
    name: str


@dataclass(frozen=True, eq=False)
class Reading:
    """The facets of one image.

    features: (N, D) of the N tokens, the facets side by side, each of unit length. attention: (N,) how much the last block's class
    token attends to each token, mean over heads; without a class token, how much all tokens do. entry: the first block's input.
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
    tokens, attention, found = entry.tokens, entry.tokens, {}
    for number, block in enumerate(vit.blocks):
        tokens, made, whole = attend(block, tokens, None, rope_at(vit, entry.rope, number), whole=number == depth - 1)
        tokens = think(block, tokens)
        attention = attention if whole is None else whole
        found.update({(at, name): _facet(made, tokens, name)[0, prefix:] for at, name in wanted if at == number})
    readers = slice(0, 1) if prefix else slice(None)
    features = torch.cat([functional.normalize(found[one], dim=-1) for one in wanted], dim=-1)
    return Reading(features, attention[0, :, readers, prefix:].mean(dim=(0, 1)), entry, is_grid)


@torch.no_grad()
def logits_of_some(model: Any, entry: Entry, kept: Tensor) -> Tensor:
    """Logits (classes,) of one image of which only the `kept` tokens (N,) bool go through the blocks."""
    vit = held_vit(model)
    prefix = int(vit.num_prefix_tokens)
    tokens = torch.cat((entry.tokens[:, :prefix], entry.tokens[:, prefix:][:, kept]), dim=1)
    for number, block in enumerate(vit.blocks):
        rope = rope_at(vit, entry.rope, number)
        tokens = block(tokens) if rope is None else block(tokens, rope=rope[..., kept, :])
    logits: Tensor = vit.forward_head(vit.norm(tokens))
    return logits[0]


def checked_reader(model: Any) -> Any:
    """The timm model inside a supported model; others are refused with the reason."""
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


def _facet(made: Projections, tokens: Tensor, name: str) -> Tensor:
    """One facet of every token of a block, (B, K + N, D)."""
    if name == "row":
        return tokens
    part: Tensor = getattr(made, name)  # (B, heads, K + N, d)
    return part.transpose(1, 2).flatten(2)
