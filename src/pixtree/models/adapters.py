"""Differences between families of timm models: the place of the stem's weights, and the pooling of tokens under a mask."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.models.patch_grids import Grid, check_rotary
from pixtree.models.timm_import import timm

SUPPORTED = (
    "timm's Vision Transformers with square patches (vit, deit, deit3, dinov2, CLIP, SigLIP) and its EVA-02 and DINOv3 models"
)
MODULES = ("vision_transformer", "deit", "eva")  # of timm, where supported models live
REASONS = {
    "Beit": "its relative positions exist only between patches of a grid",
    "VisionTransformerRelPos": "its relative positions exist only between patches of a grid",
    "VisionTransformerSAM": "its windows and relative positions exist only on a grid",
    "NaFlexVit": "it has its own way to cut images of any size",
}


@dataclass(frozen=True, eq=False)
class Stem:
    """The stem of a patch model: everything before its blocks.

    weight (D, C·q·q), bias (D,) or None, norm of patches or None; table (rows·columns, D) or None; prefix (K, D), the class and
    register tokens with their positions.
    """

    weight: Tensor
    bias: Tensor | None
    norm: nn.Module | None
    table: Tensor | None
    grid: Grid
    prefix: Tensor
    patch: int
    channels: int


def is_of_transformers(model: Any) -> bool:
    """Whether a model is one of Hugging Face transformers, or the folder of one; timm's checkpoints have another config."""
    if not isinstance(model, str | os.PathLike):
        return any(kind.__module__.startswith(("transformers.", "pixtree.models.huggingface.")) for kind in type(model).__mro__)
    config = Path(model) / "config.json"
    return config.is_file() and "model_type" in json.loads(config.read_text(encoding="utf-8"))


def check_module(model: Any, verb: str = "retrofitted") -> None:
    """Refuse a module that is not a supported timm model, with the reason; verb: what would be done with it."""
    kind = type(model)
    families = (timm.models.vision_transformer.VisionTransformer, timm.models.eva.Eva)
    if not isinstance(model, families):
        reason = REASONS.get(kind.__name__, "it has no blocks over a sequence of patches")
        raise ValueError(f"{kind.__name__} cannot be {verb}: {reason}; supported are {SUPPORTED}")
    _check_patches(model.patch_embed)
    drop = getattr(model, "patch_drop", None)
    if drop is not None and not isinstance(drop, nn.Identity):
        raise ValueError("patch dropout is not supported, got a model with patch_drop_rate > 0; train with fewer tokens instead")
    if type(getattr(model, "attn_pool", None)).__name__ == "AttentionPoolPrr":
        raise ValueError(f"pooling by patch refinement (prr) takes no mask and is not supported; supported are {SUPPORTED}")
    check_rotary(getattr(model, "rope", None))


def _check_patches(embedding: Any) -> None:
    if type(embedding).__name__ != "PatchEmbed":
        name = type(embedding).__name__
        raise ValueError(
            f"expected patches from one convolution, got {name} (a hybrid, or a retrofit already); supported are {SUPPORTED}"
        )
    if embedding.patch_size[0] != embedding.patch_size[1]:
        raise ValueError(f"patches must be square, got {embedding.patch_size}; choose a model with patches such as 16×16")


def stem_of(vit: Any) -> Stem:
    """The stem of a supported timm model; tensors are its own."""
    embedding, positions = vit.patch_embed, vit.pos_embed
    named = (getattr(vit, name, None) for name in ("cls_token", "dist_token", "reg_token"))
    tokens = [token[0].detach() for token in named if token is not None]
    prefix = torch.cat(tokens) if tokens else embedding.proj.weight.new_zeros((0, vit.embed_dim))
    own = 0 if vit.no_embed_class else len(prefix)  # rows of the table that belong to prefix tokens
    if positions is not None and own:
        prefix = prefix + positions[0, :own].detach()
    return Stem(
        weight=embedding.proj.weight.detach().flatten(1),
        bias=None if embedding.proj.bias is None else embedding.proj.bias.detach(),
        norm=None if isinstance(embedding.norm, nn.Identity) else embedding.norm,
        table=None if positions is None else positions[0, own:].detach(),
        grid=embedding.grid_size,
        prefix=prefix,
        patch=embedding.patch_size[0],
        channels=embedding.proj.in_channels,
    )


def without_stem(vit: Any) -> Any:
    """The same model with an empty stem, so that weights taken over by the tokenizer are not kept twice."""
    vit.patch_embed, vit.pos_embed = nn.Identity(), None
    for name in ("cls_token", "dist_token", "reg_token"):
        if getattr(vit, name, None) is not None:
            setattr(vit, name, None)
    return vit


def pools_prefix(vit: Any) -> bool:
    """Whether the head reads prefix tokens only, so that padding cannot reach it."""
    return hasattr(vit, "head_dist") or (vit.global_pool in ("token", "") and vit.attn_pool is None)


def masked_pool(vit: Any, tokens: Tensor, seen: Tensor) -> Tensor:
    """The model's own pooling of tokens (B, L, D), over those that are `seen` (B, L) only: (B, D)."""
    is_eva = isinstance(vit, timm.models.eva.Eva)
    keeps_prefix = getattr(vit, "pool_include_prefix", False) or (is_eva and vit.attn_pool is not None)
    if not keeps_prefix:
        tokens, seen = tokens[:, vit.num_prefix_tokens :], seen[:, vit.num_prefix_tokens :]
    if vit.attn_pool is not None:
        bias = torch.zeros_like(seen, dtype=tokens.dtype).masked_fill(~seen, -torch.inf)
        pooled: Tensor = vit.attn_pool(tokens, attn_mask=bias[:, None, None])
        return pooled
    mean = (tokens * seen[..., None]).sum(dim=1) / seen.sum(dim=1, keepdim=True)
    if vit.global_pool == "avg":
        return mean
    largest = tokens.masked_fill(~seen[..., None], -torch.inf).amax(dim=1)
    return largest if vit.global_pool == "max" else 0.5 * (largest + mean)
