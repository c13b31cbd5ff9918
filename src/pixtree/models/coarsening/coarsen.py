"""coarsen: less compute for a Vision Transformer without training."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from pixtree.models.adapters import check_module, is_of_transformers
from pixtree.models.coarsening.blocks import check_blocks
from pixtree.models.coarsening.clock import Clock, Speed, clock_of, evaluating
from pixtree.models.coarsening.coarse_vit import CoarseViT
from pixtree.models.coarsening.rules import Rule, rule_of
from pixtree.models.coarsening.schedules import Schedule, Shape, Wanted
from pixtree.models.entry import held_vit, stem_flops, token_count
from pixtree.models.feature_getters import around, wrapped
from pixtree.models.retrofit import timm_model
from pixtree.models.vit import PixtreeViT


def coarsen(
    model: str | nn.Module,
    compute: float | None = None,
    *,
    tokens: int | None = None,
    speed: float | Speed | None = None,
    schedule: Sequence[int] | Schedule | Shape | None = None,
    rule: str | Rule = "tree",
    input_size: int | tuple[int, int] | None = None,
    final_tokens: int | None = None,
    pool: str = "tree",
    final_layer: int | None = None,
    backend: str = "auto",
    pretrained: bool = False,
    **model_args: Any,
) -> CoarseViT:
    """The same model with token trees between its blocks: less compute, no training, nothing copied and nothing patched.

    model: a timm name, created with `pretrained` (which downloads) and `model_args`; a timm module or a retrofit, whose
    weights are then shared; or a model of Hugging Face transformers or the folder of one, whose vision tower is exchanged in a
    model of the same class.
    compute: share of the model's floating-point operations to use, 0.5 by default; 1.0 merges nothing.
    tokens: instead, as much compute as that many tokens in every block would take.
    speed: instead, a multiple of the untouched model's images per second, measured here for one image at a time with torch's
        threads; `Speed(1.8, batch=8)` for more at a time. Takes seconds.
    schedule: instead, tokens left after each block; or, with one of the above, a shape such as `ConstantShare(first=2)`.
    rule: which tokens merge, "tree" or the name of a baseline, see `RULES`.
    input_size: resize images to this many pixels a side first, which pays where less than 0.4 of the compute is wanted; `compute`
    stays a share of the model's compute at its own size.
    final_tokens: for Hugging Face towers, return exactly this many tokens after the prefix, in all hidden states; without another
        option the tower itself then keeps all of its compute. pool: "tree" merges by what the tower has seen, "regions" by colours.
        final_layer: the hidden state whose tokens decide, by default the one that the model around the tower reads, or the last.

    >>> import torch, pixtree
    >>> model = pixtree.coarsen("vit_tiny_patch16_224", compute=0.8, depth=4, num_classes=10).eval()
    >>> model(torch.zeros(1, 3, 224, 224)).shape
    torch.Size([1, 10])
    """
    asked = speed if speed is None or isinstance(speed, Speed) else Speed(speed)
    wanted, chosen = Wanted(compute, tokens, schedule, None if asked is None else asked.times), rule_of(rule, backend)
    if is_of_transformers(model):
        from pixtree.models.huggingface.coarse_tower import coarsened

        named = {**model_args, **({"pretrained": True} if pretrained else {})}
        final = (final_tokens, pool, final_layer)
        fast: CoarseViT = coarsened(
            model, wanted, chosen, input_size, final, backend, named, asked
        )  # or rather a model of the class given
        return fast
    if final_tokens is not None:
        raise ValueError(f"final_tokens= is for Hugging Face models, got {final_tokens} with a timm model; give schedule=")
    found = _checked(model, pretrained, model_args)
    held = wrapped(found)
    size = _size(held, input_size)
    count = token_count(held, size)
    if asked is None:
        fitted = wanted.fitted(held_vit(held), stem_flops(held), token_count(held), count, chosen)
    else:
        fitted = wanted.timed(_clock(held, chosen, count, asked.batch), len(held_vit(held).blocks), count)
    result = CoarseViT(held, fitted, chosen, size).train(held.training)
    result.model_args = dict(model_args) if isinstance(model, str) and held is found else None
    coarse: CoarseViT = around(found, result)  # or rather timm's wrapper, with features_only=True
    return coarse


def _clock(held: Any, rule: Rule, count: int, batch: int) -> Clock:
    """The times of a model's blocks at this many tokens."""
    same = CoarseViT(held, Schedule((1.0,) * len(held_vit(held).blocks)), rule)
    weight = next(held.parameters())
    images = torch.zeros(batch, same.in_channels, *same.image_size, dtype=weight.dtype, device=weight.device)
    with evaluating(held):
        return clock_of(same.vit, rule, same.readers, count, batch, lambda: held(images))


def _checked(model: Any, pretrained: bool, model_args: dict[str, Any]) -> Any:
    if isinstance(model, CoarseViT):
        raise ValueError("this model is coarsened already; coarsen the one it holds, which is its .model")
    if not isinstance(model, str) and (pretrained or model_args):
        raise ValueError(f"timm arguments go with a name, got {', '.join(model_args) or 'pretrained'} with a module; drop them")
    if isinstance(model, str):
        model = timm_model(model, pretrained, model_args, "coarsened")
    elif not isinstance(model, PixtreeViT):
        check_module(wrapped(model), "coarsened")
    check_blocks(held_vit(wrapped(model)))
    return model


def _size(model: Any, input_size: int | tuple[int, int] | None) -> tuple[int, int] | None:
    if input_size is None:
        return None
    if isinstance(model, PixtreeViT):
        raise ValueError(f"a retrofit has its own number of tokens, got input_size={input_size}; retrofit with fewer tokens=")
    size = (input_size, input_size) if isinstance(input_size, int) else input_size
    patch = model.patch_embed.patch_size[0]
    if any(side < patch or side % patch for side in size):
        raise ValueError(f"sides of images are multiples of the patch, {patch} pixels, got input_size={input_size}; round it")
    return size
