"""The blocks of a Vision Transformer with merges between attention and MLP, for every model whose blocks look like timm's."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.merge.definition import averaged, summed
from pixtree.models.coarsening.blocks import attend, key_bias, norm_of_mlp, think
from pixtree.models.coarsening.rules import Rule, Seen, attention_of
from pixtree.models.coarsening.schedules import Schedule
from pixtree.models.entry import Entry
from pixtree.models.patch_grids import rope_at, rotary_at


class Coarse(NamedTuple):
    """Tokens (B, K + n, D) between two blocks; once some have merged also sizes (B, n), labels (B, N), places (B, n, 2).

    bias: (B, 1, 1, K + n), of the tokens as keys, see `key_bias`; made where tokens merge and kept until they merge again.
    attended: (B, n) float32, how much the readers attended to each token in this block, where that was asked for.
    """

    tokens: Tensor
    sizes: Tensor | None = None
    labels: Tensor | None = None
    places: Tensor | None = None
    attended: Tensor | None = None
    bias: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Merging:
    """What happens from block to block.

    vit: a timm model, or the blocks of another library under timm's names. readers: how many of the first tokens the head reads, 0
    where it pools tokens. watched: the block whose attention is kept in `Coarse.attended`, None for no block. only_prefix: nobody
    reads the other tokens after the last block, so that it leaves them out.
    """

    vit: Any
    schedule: Schedule
    rule: Rule
    readers: int
    watched: int | None = None
    only_prefix: bool = False

    def run(self, entry: Entry, blocks: int | None = None) -> tuple[list[Coarse], list[Tensor]]:
        """Tokens and labels (B, N) after each of the first `blocks` blocks."""
        batch, tokens = entry.tokens.shape[0], entry.tokens.shape[1] - self.vit.num_prefix_tokens
        counts = self.schedule.counts(tokens)[:blocks]
        apart = torch.arange(tokens, device=entry.tokens.device).expand(batch, tokens)
        state, found, labels = Coarse(entry.tokens), [], []
        for number, count in enumerate(counts):
            if self.vit.grad_checkpointing and self.vit.training:
                state = checkpoint(self._block, number, count, state, entry, use_reentrant=False)
            else:
                state = self._block(number, count, state, entry)
            found.append(state)
            labels.append(apart if state.labels is None else state.labels)
        return found, labels

    def _block(self, number: int, count: int, state: Coarse, entry: Entry) -> Coarse:
        """One block, after which `count` tokens are left."""
        block, rope = self.vit.blocks[number], self._rope(number, state, entry)
        prefix, before = self.vit.num_prefix_tokens, state.tokens.shape[1] - self.vit.num_prefix_tokens
        is_watched = number == self.watched
        if self.only_prefix and number == len(self.vit.blocks) - 1:
            return state._replace(tokens=think(block, attend(block, state.tokens, state.bias, rope, False, prefix)[0]))
        if count == before and state.sizes is None and not is_watched:  # nothing has merged: run the block unchanged
            options = {} if rope is None else {"rope": rope}
            return state._replace(tokens=block(state.tokens, **options))
        whole = (is_watched and self.readers == 0) or (count < before and self.rule.asks_for_attention(self.readers))
        tokens, made, attention = attend(block, state.tokens, state.bias, rope, whole)
        sizes = torch.ones_like(tokens[:, prefix:, 0], dtype=torch.float32) if state.sizes is None else state.sizes
        depth, norm = len(self.vit.blocks), norm_of_mlp(block)
        seen = Seen(tokens, sizes, prefix, self.readers, number, depth, made, attention, norm)
        state = state._replace(tokens=tokens, attended=attention_of(seen).detach() if is_watched else None)
        if count < before:
            with torch.no_grad():
                labels = self.rule(seen, count)
            state = self._merged(state, sizes, labels, count, entry)
        return state._replace(tokens=think(block, state.tokens))

    def _merged(self, state: Coarse, sizes: Tensor, labels: Tensor, count: int, entry: Entry) -> Coarse:
        """Tokens of one label as one token: values and places are means by size."""
        kernels = kernels_for(getattr(self.rule, "backend", "auto"), labels.device)
        tokens, totals = kernels.merge_tokens(state.tokens, sizes, labels, count)
        places = entry.places if state.places is None else state.places
        if places is not None:
            places = averaged(places.expand(tokens.shape[0], -1, -1), sizes, labels, count)
        now = labels if state.labels is None else labels.gather(1, state.labels)
        attended = None if state.attended is None else summed(state.attended, labels, count)
        return Coarse(tokens, totals, now, places, attended, key_bias(totals, tokens))

    def _rope(self, number: int, state: Coarse, entry: Entry) -> Tensor | None:
        """Rotary embedding of a block's tokens: the model's own until some have merged, then at their places."""
        if entry.rope is None or entry.sides is None:
            return None
        if state.places is not None:
            return rotary_at(self.vit.rope, state.places, entry.sides, number)
        return rope_at(self.vit, entry.rope, number)


def unfolded_rows(tokens: Tensor, state: Coarse) -> Tensor:
    """Tokens (B, K + n, D) as (B, K + N, D): each token of the first block gets the values of its coarse token."""
    if state.labels is None or state.sizes is None:
        return tokens
    prefix = tokens.shape[1] - state.sizes.shape[1]
    return torch.cat((tokens[:, :prefix], unfolded(tokens[:, prefix:], state.labels)), dim=1)


def unfolded(values: Tensor, labels: Tensor) -> Tensor:
    """Values (B, n, C) at labels (B, N): (B, N, C)."""
    return values.gather(1, labels[:, :, None].expand(-1, -1, values.shape[2]))
