"""Compute: floating-point operations of a model's matrix products for one image, two per multiplication and addition."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from pixtree.models.adapters import pools_prefix
from pixtree.models.coarsening.seen import Rule


def linear_weights(module: nn.Module) -> int:
    """Weights of all matrices that every row is multiplied by."""
    return sum(layer.in_features * layer.out_features for layer in module.modules() if isinstance(layer, nn.Linear))


def total_flops(vit: Any, stem: int, tokens: int, counts: Sequence[int], rule: Rule | None = None) -> int:
    """From patches to logits, with `counts` tokens after each block; `stem` is what one token costs before the blocks.

    Merging counts too; without a rule it is free. Softmax, norms and comparisons are left out, as usual.
    """
    prefix, readers, total, left = vit.num_prefix_tokens, _readers(vit), stem * tokens, tokens
    for block, count in zip(vit.blocks, counts, strict=True):
        attention, rows = block.attn, prefix + left
        width = attention.num_heads * attention.head_dim
        total += 2 * linear_weights(attention) * rows + 4 * rows * rows * width
        total += 2 * linear_weights(block.mlp) * (prefix + count)
        if rule is not None and count < left:
            total += rule.flops(left, count, int(vit.embed_dim), attention.head_dim)
        left = count
    return total + _head_flops(vit, prefix, readers, tokens)


def _readers(vit: Any) -> int:
    return 2 if hasattr(vit, "head_dist") else 1


def _head_flops(vit: Any, prefix: int, readers: int, tokens: int) -> int:
    heads = [vit.head, vit.head_dist] if readers == 2 else [vit.head]
    total = sum(2 * linear_weights(head) for head in heads)
    pool = getattr(vit, "attn_pool", None)
    if pool is not None and not pools_prefix(vit):  # keys and values of all rows, one query
        rows = tokens + prefix
        total += 2 * linear_weights(pool.kv) * rows + 4 * rows * pool.kv.in_features
        total += 2 * (linear_weights(pool) - linear_weights(pool.kv))
    return total
