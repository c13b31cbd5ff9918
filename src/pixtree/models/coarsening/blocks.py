"""Blocks in two halves: attention, weighted by token sizes, and the MLP; a block's own submodules do the work.

Tokens merge between the halves, as in ToMe: attention has then shown what matters, and the MLP already runs on fewer tokens.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.models.timm_import import timm

PRE_NORM, POST_NORM = ("Block", "EvaBlock"), ("ResPostBlock", "EvaBlockPostNorm")
ATTENTIONS = ("Attention", "AttentionRope", "EvaAttention")


class Projections(NamedTuple):
    """Queries, keys and values (B, heads, L, d) of a block; the scale of products; the bias of keys (B, 1, 1, L) or None."""

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    bias: Tensor | None

    def attention(self) -> Tensor:
        """The attention (B, heads, L, L) of all tokens."""
        return self._normalised((self.query * self.scale) @ self.key.transpose(-2, -1))

    def attention_of_first(self, count: int) -> Tensor:
        """The attention (B, heads, count, L) of the few first tokens: a matrix product would copy all keys first."""
        chosen = self.query[:, :, :count] * self.scale
        if count == 1:
            return self._normalised((self.key * chosen).sum(dim=-1)[:, :, None])
        scores = [(self.key * row[:, :, None]).sum(dim=-1) for row in chosen.unbind(dim=2)]
        return self._normalised(torch.stack(scores, dim=2))

    def _normalised(self, scores: Tensor) -> Tensor:
        return (scores if self.bias is None else scores + self.bias).softmax(dim=-1)


def check_blocks(vit: Any) -> None:
    """Refuse models whose blocks have no place between attention and MLP, or whose attention is of another kind."""
    for block in vit.blocks:
        name = type(block).__name__
        if name not in (*PRE_NORM, *POST_NORM):
            raise ValueError(
                f"{name} cannot be coarsened: nothing stands between its attention and its MLP; choose a plain Vision Transformer"
            )
        attention = type(block.attn).__name__
        if attention not in ATTENTIONS:
            raise ValueError(f"{attention} cannot be coarsened; attention is supported as {', '.join(ATTENTIONS)}")


def attend(
    block: Any, tokens: Tensor, bias: Tensor | None, rope: Tensor | None, whole: bool, first: int | None = None
) -> tuple[Tensor, Projections, Tensor | None]:
    """The first half of a block: tokens (B, L, D) after attention, its projections, and with `whole` the attention weights.

    bias: of all keys, see `key_bias`; None if all tokens have size 1.
    first: only this many tokens are wanted, the first ones, (B, first, D); they attend to all.
    """
    post_norm = type(block).__name__ in POST_NORM
    read = tokens if post_norm else block.norm1(tokens)
    made, gate = _projections(block.attn, read, rope, bias)
    if first is not None:
        tokens, made = tokens[:, :first], made._replace(query=made.query[:, :, :first])
        gate = None if gate is None else gate[:, :first]
    attention = made.attention() if whole else None
    branch = _output(block.attn, made, gate, attention)
    branch = block.norm1(branch) if post_norm else _scaled(block, branch, 1)
    return tokens + block.drop_path1(branch), made, attention


def think(block: Any, tokens: Tensor) -> Tensor:
    """The second half of a block: tokens (B, L, D) after its MLP."""
    post_norm = type(block).__name__ in POST_NORM
    branch = block.norm2(block.mlp(tokens)) if post_norm else _scaled(block, block.mlp(block.norm2(tokens)), 2)
    result: Tensor = tokens + block.drop_path2(branch)
    return result


def norm_of_mlp(block: Any) -> nn.Module | None:
    """The norm before the MLP of a block; None without."""
    return None if type(block).__name__ in POST_NORM else block.norm2


def _scaled(block: Any, branch: Tensor, half: int) -> Tensor:
    """LayerScale, which is a module in one family and a parameter in the other."""
    module = getattr(block, f"ls{half}", None)
    if module is not None:
        scaled: Tensor = module(branch)
        return scaled
    gamma = getattr(block, f"gamma_{half}", None)
    return branch if gamma is None else gamma * branch


def key_bias(sizes: Tensor, tokens: Tensor) -> Tensor:
    """log(size) for every key, 0 for prefix tokens, (B, 1, 1, L): a token of size s counts as s equal ones would (ToMe, eq. 1).

    sizes: (B, n) of the last n of the tokens (B, L, D).
    """
    prefix = tokens.shape[1] - sizes.shape[1]
    return functional.pad(sizes.log(), (prefix, 0)).to(tokens.dtype)[:, None, None]


def _projections(attn: Any, tokens: Tensor, rope: Tensor | None, bias: Tensor | None) -> tuple[Projections, Tensor | None]:
    batch, length, _ = tokens.shape
    gate = attn.gate(tokens).sigmoid() if getattr(attn, "gate", None) is not None else None
    if attn.qkv is None:
        layers = (attn.q_proj, attn.k_proj, attn.v_proj)
        parts = [layer(tokens).view(batch, length, -1, attn.head_dim).transpose(1, 2) for layer in layers]
    else:
        packed = attn.qkv(tokens)
        if getattr(attn, "q_bias", None) is not None:
            packed = packed + torch.cat((attn.q_bias, attn.k_bias, attn.v_bias))
        parts = list(packed.view(batch, length, 3, attn.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0))
    query, key, value = attn.q_norm(parts[0]), attn.k_norm(parts[1]), parts[2]
    if rope is not None:
        query, key = (_rotated(attn, part, rope).type_as(value) for part in (query, key))
    groups = query.shape[1] // key.shape[1]  # grouped queries share keys
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    return Projections(query, key, value, attn.scale, bias), gate


def _rotated(attn: Any, part: Tensor, rope: Tensor) -> Tensor:
    """Queries or keys (B, heads, L, d), rotated by position; prefix tokens have none."""
    prefix = attn.num_prefix_tokens
    half = getattr(attn, "rotate_half", False)
    turned = timm.layers.apply_rot_embed_cat(part[:, :, prefix:], rope, half=half)
    return torch.cat((part[:, :, :prefix], turned), dim=2)


def _output(attn: Any, made: Projections, gate: Tensor | None, attention: Tensor | None) -> Tensor:
    """The output of attention before the residual, (B, L, D)."""
    dropout = attn.attn_drop.p if attn.training else 0.0
    if attention is None:
        mixed = functional.scaled_dot_product_attention(made.query, made.key, made.value, attn_mask=made.bias, dropout_p=dropout)
    else:
        mixed = functional.dropout(attention, dropout) @ made.value
    tokens = mixed.transpose(1, 2).flatten(2)
    tokens = attn.norm(tokens) if hasattr(attn, "norm") else tokens
    result: Tensor = attn.proj_drop(attn.proj(tokens if gate is None else tokens * gate))
    return result
