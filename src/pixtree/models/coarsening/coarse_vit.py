"""CoarseViT: a timm model or a retrofit whose tokens merge between attention and MLP of its blocks; and TokenTree, the way back."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pixtree.models.adapters import pools_prefix
from pixtree.models.backbone import LikeTimm
from pixtree.models.coarsening.blocks import attend, norm_of_mlp, think
from pixtree.models.coarsening.rules import Rule, Seen
from pixtree.models.coarsening.schedules import Schedule, total_flops
from pixtree.models.entry import Entry, enter, held_vit, on_patches, stem_flops, token_count
from pixtree.models.patch_grids import Grid, rope_at, rotary_at
from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.tokens import painted


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
        expected = (self.labels[block].shape[0], self.counts[block])
        if values.ndim != 3 or values.shape[:2] != expected:
            shape = tuple(values.shape)
            raise ValueError(
                f"expected values (B, n, C) with B, n = {expected}, got {shape}; drop prefix tokens and name the block"
            )
        return unfolded(values, self.labels[block])

    def maps(self, block: int = -1) -> Tensor:
        """The coarse token of every pixel after a block, (B, H, W) int64."""
        labels = self.labels[block]
        return labels.gather(1, self.base.expand(len(labels), -1, -1).flatten(1)).view(len(labels), *self.base.shape[1:])

    def to_pixels(self, values: Tensor, block: int = -1) -> Tensor:
        """Values (B, n, C) of the tokens after a block, painted over their pixels: (B, C, H, W); differentiable."""
        return painted(self.unfold(values, block), self.base.expand(len(values), -1, -1))


class Coarse(NamedTuple):
    """Tokens (B, K + n, D) between two blocks; once some have merged also sizes (B, n), labels (B, N), places (B, n, 2)."""

    tokens: Tensor
    sizes: Tensor | None = None
    labels: Tensor | None = None
    places: Tensor | None = None


class CoarseViT(LikeTimm):
    """A Vision Transformer with token trees between its blocks; made by `pixtree.coarsen`. It behaves like the model it holds.

    model: a timm model or a PixtreeViT; its weights are shared, not copied. schedule: how many tokens each block leaves.
    rule: which tokens merge. input_size: height and width that images are resized to first, None keeps their size.
    """

    def __init__(self, model: Any, schedule: Schedule, rule: Rule, input_size: Grid | None = None) -> None:
        super().__init__()
        self.model, self.schedule, self.rule, self.input_size = model, schedule, rule, input_size
        self.pretrained_cfg = getattr(model, "pretrained_cfg", {})
        self.default_cfg = self.pretrained_cfg
        self.feature_info = model.feature_info

    @property
    def vit(self) -> Any:
        """The timm model whose blocks run."""
        return held_vit(self.model)

    @property
    def counts(self) -> tuple[int, ...]:
        """Tokens after each block, at the model's own image size or the one that images are resized to."""
        return self.schedule.counts(token_count(self.model, self.input_size))

    @property
    def gflops(self) -> float:
        """Billions of operations of matrix products for one image, merging included."""
        tokens = token_count(self.model, self.input_size)
        return total_flops(self.vit, stem_flops(self.model), tokens, self.counts, self.rule) / 1e9

    @property
    def compute(self) -> float:
        """The share of the operations that the untouched model needs at its own image size."""
        tokens, depth = token_count(self.model), len(self.vit.blocks)
        return self.gflops * 1e9 / total_flops(self.vit, stem_flops(self.model), tokens, (tokens,) * depth)

    @property
    def in_channels(self) -> int:
        """C, the channels of an image."""
        held = self.model
        return int(held.in_channels if isinstance(held, PixtreeViT) else held.patch_embed.proj.in_channels)

    @property
    def image_size(self) -> Grid:
        """Height and width that `predict` resizes to: those of the model that is held."""
        size: Grid = self.model.image_size if isinstance(self.model, PixtreeViT) else self.model.patch_embed.img_size
        return size

    # The interface of a timm model, beyond `LikeTimm`

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes)."""
        coarse, _ = self._run(enter(self.model, images, self.input_size))
        tokens = self.vit.norm(coarse[-1].tokens)
        if not pools_prefix(self.vit) or self.vit.global_pool == "":
            tokens = self._unfolded(tokens, coarse[-1])
        return self.forward_head(tokens)

    def forward_features(self, images: Tensor) -> Tensor:
        """Tokens (B, K + N, D) after all blocks: every token of the first block has the values of its coarse token."""
        coarse, _ = self._run(enter(self.model, images, self.input_size))
        return self._unfolded(self.vit.norm(coarse[-1].tokens), coarse[-1])

    def forward_head(self, rows: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits of tokens (B, K + N, D). Means over unfolded tokens are means by size, so the model's own head is right."""
        result: Tensor = self.vit.forward_head(rows, pre_logits=pre_logits)
        return result

    def forward_tree(self, images: Tensor) -> tuple[Tensor, TokenTree]:
        """Coarse tokens (B, K + n, D) after all blocks and the final norm, and the tree of the tokens they stand for."""
        entry = enter(self.model, images, self.input_size)
        coarse, labels = self._run(entry)
        return self.vit.norm(coarse[-1].tokens), TokenTree(tuple(labels), entry.base)

    def _after_blocks(
        self, images: Tensor, wanted: list[int], norm: bool, last: int
    ) -> tuple[Tensor, list[Tensor], Callable[[Tensor], Tensor]]:
        entry = enter(self.model, images, self.input_size)
        coarse, _ = self._run(entry, last + 1)
        whole = [self._unfolded(coarse[number].tokens, coarse[number]) for number in sorted(set(wanted))]
        found = [self.vit.norm(tokens) for tokens in whole] if norm else whole
        final = self._unfolded(self.vit.norm(coarse[-1].tokens), coarse[-1])
        return final, found, lambda values: on_patches(self.model, values, entry)

    def set_input_size(self, img_size: int | Grid | None = None, patch_size: int | Grid | None = None) -> None:
        """Continue at another image size, as timm has it; the model that is held changes, the schedule keeps its shares."""
        if self.input_size is not None:
            raise ValueError(f"this model resizes its images to {self.input_size}, got img_size={img_size}; coarsen it anew")
        self.model.set_input_size(img_size, patch_size)

    def no_weight_decay(self) -> set[str]:
        """Parameters that weight decay must leave alone: those of the model that is held."""
        return {f"model.{name}" for name in self.model.no_weight_decay()}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers for layer-wise decay: everything before the blocks, then the blocks."""
        held = r"^model\.(?:backbone\.vit\.)?"
        return {
            "stem": held + r"(?:tokenizer|cls_token|dist_token|reg_token|pos_embed|patch_embed|norm_pre|rope)",
            "blocks": [(held + r"blocks\.(\d+)", None), (held + r"norm\.", (99999,))],
        }

    # From block to block

    def _run(self, entry: Entry, blocks: int | None = None) -> tuple[list[Coarse], list[Tensor]]:
        """Tokens and labels (B, N) after each of the first `blocks` blocks."""
        batch, tokens = entry.tokens.shape[0], entry.tokens.shape[1] - self.num_prefix_tokens
        counts = self.schedule.counts(tokens)[:blocks]
        apart = torch.arange(tokens, device=entry.tokens.device).expand(batch, tokens)
        state, found, labels = Coarse(entry.tokens), [], []
        for number, count in enumerate(counts):
            if self.vit.grad_checkpointing and self.training:
                state = checkpoint(self._block, number, count, state, entry, use_reentrant=False)
            else:
                state = self._block(number, count, state, entry)
            found.append(state)
            labels.append(apart if state.labels is None else state.labels)
        return found, labels

    def _block(self, number: int, count: int, state: Coarse, entry: Entry) -> Coarse:
        """One block, after which `count` tokens are left."""
        block, rope = self.vit.blocks[number], self._rope(number, state, entry)
        prefix, before = self.num_prefix_tokens, state.tokens.shape[1] - self.num_prefix_tokens
        if count == before and state.sizes is None:  # nothing has merged: run the block unchanged
            options = {} if rope is None else {"rope": rope}
            return state._replace(tokens=block(state.tokens, **options))
        whole = count < before and self.rule.asks_for_attention(self._readers())
        tokens, made, attention = attend(block, state.tokens, state.sizes, rope, whole)
        if count < before:
            sizes = torch.ones_like(tokens[:, prefix:, 0], dtype=torch.float32) if state.sizes is None else state.sizes
            depth, norm = len(self.vit.blocks), norm_of_mlp(block)
            seen = Seen(tokens, sizes, prefix, self._readers(), number, depth, made, attention, norm)
            with torch.no_grad():
                labels = self.rule(seen, count)
            state = self._merged(state, tokens, sizes, labels, count, entry)
            tokens = state.tokens
        return state._replace(tokens=think(block, tokens))

    def _merged(self, state: Coarse, tokens: Tensor, sizes: Tensor, labels: Tensor, count: int, entry: Entry) -> Coarse:
        """Tokens of one label as one token: values and places are means by size."""
        prefix = self.num_prefix_tokens
        means = averaged(tokens[:, prefix:], sizes, labels, count)
        places = entry.places if state.places is None else state.places
        if places is not None:
            places = averaged(places.expand(len(tokens), -1, -1), sizes, labels, count)
        now = labels if state.labels is None else labels.gather(1, state.labels)
        return Coarse(torch.cat((tokens[:, :prefix], means), dim=1), summed(sizes, labels, count), now, places)

    def _rope(self, number: int, state: Coarse, entry: Entry) -> Tensor | None:
        """Rotary embedding of a block's tokens: the model's own until some have merged, then at their places."""
        if entry.rope is None or entry.sides is None:
            return None
        if state.places is not None:
            return rotary_at(self.vit.rope, state.places, entry.sides, number)
        return rope_at(self.vit, entry.rope, number)

    def _readers(self) -> int:
        """How many of the first tokens the head reads; 0 where it pools tokens."""
        if not pools_prefix(self.vit):
            return 0
        return 2 if hasattr(self.vit, "head_dist") else min(1, self.num_prefix_tokens)

    def _unfolded(self, tokens: Tensor, state: Coarse) -> Tensor:
        """Tokens (B, K + n, D) as (B, K + N, D): each token of the first block gets the values of its coarse token."""
        if state.labels is None:
            return tokens
        prefix = self.num_prefix_tokens
        return torch.cat((tokens[:, :prefix], unfolded(tokens[:, prefix:], state.labels)), dim=1)


def unfolded(values: Tensor, labels: Tensor) -> Tensor:
    """Values (B, n, C) at labels (B, N): (B, N, C)."""
    return values.gather(1, labels[:, :, None].expand(-1, -1, values.shape[2]))


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
