"""Backbone: a timm model from tokens on; its own norms, blocks and head are called, and nothing branches on data."""

from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from pixtree.models.adapters import masked_pool, pools_prefix


class TokenSequence(NamedTuple):
    """The input of the blocks.

    rows: (B, K + N, D), prefix tokens first. seen: (B, K + N) bool, which rows are no padding; None if none is.
    rope: rotary embedding of the N regions, see `rotary_embedding`; None for models without.
    """

    rows: Tensor
    seen: Tensor | None = None
    rope: Tensor | None = None


class Backbone(nn.Module):
    """The blocks and the head of a timm model: `forward` goes from a TokenSequence to logits.

    `torch.compile(…, fullgraph=True)` and `torch.export.export` take it.
    """

    def __init__(self, vit: Any) -> None:
        super().__init__()
        self.vit = vit

    def forward(self, sequence: TokenSequence) -> Tensor:
        """Logits (B, classes)."""
        return self.head(self.features(sequence), sequence.seen)

    def features(self, sequence: TokenSequence) -> Tensor:
        """Rows (B, K + N, D) after all blocks and the final norm."""
        rows = self.start(sequence.rows)
        for number in range(len(self.vit.blocks)):
            rows = self.block(number, rows, sequence)
        normed: Tensor = self.vit.norm(rows)
        return normed

    def start(self, rows: Tensor) -> Tensor:
        """The steps between embedded tokens and the first block."""
        started: Tensor = self.vit.norm_pre(self.vit.pos_drop(rows))
        return started

    def block(self, number: int, rows: Tensor, sequence: TokenSequence) -> Tensor:
        """One block; padding is hidden from attention."""
        options: dict[str, Any] = {}
        if sequence.seen is not None:
            options["attn_mask"] = sequence.seen[:, None, None]
        if sequence.rope is not None:
            options["rope"] = sequence.rope[number] if sequence.rope.ndim == 5 else sequence.rope
        block = self.vit.blocks[number]
        after: Tensor
        if self.vit.grad_checkpointing and self.training:
            after = checkpoint(block, rows, use_reentrant=False, **options)
        else:
            after = block(rows, **options)
        return after

    def head(self, rows: Tensor, seen: Tensor | None = None, pre_logits: bool = False) -> Tensor:
        """Logits (B, classes), or the input of the classifier (B, D); rows that are not `seen` are not pooled."""
        vit = self.vit
        result: Tensor
        if seen is None or pools_prefix(vit):
            result = vit.forward_head(rows, pre_logits=pre_logits)
            return result
        result = vit.head_drop(vit.fc_norm(masked_pool(vit, rows, seen)))
        return result if pre_logits else vit.head(result)

    def intermediates(self, sequence: TokenSequence, wanted: list[int], norm: bool, last: int) -> tuple[Tensor, list[Tensor]]:
        """Final rows and those after the `wanted` blocks, all (B, K + N, D); blocks after `last` are left out."""
        rows, found = self.start(sequence.rows), []
        for number in range(last + 1):
            rows = self.block(number, rows, sequence)
            if number in wanted:
                found.append(self.vit.norm(rows) if norm else rows)
        return self.vit.norm(rows), found
