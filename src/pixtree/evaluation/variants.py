"""Variants of one model, so that all of them can stand in one table: patches, fewer patches, regions, token trees, ToMe."""

import copy
import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from pixtree.models.checkpoint import CONFIG, WEIGHTS, from_pretrained
from pixtree.models.coarsening import CoarseViT, coarsen
from pixtree.models.coarsening.schedules import total_flops
from pixtree.models.entry import held_vit, stem_flops, token_count
from pixtree.models.retrofit import retrofit
from pixtree.models.vit import PixtreeViT
from pixtree.models.zoo import load_weights, named_model
from pixtree.trees.cuts import Exactly

KINDS = {"tokens": int, "compute": float, "rule": str, "size": int, "run": str}


@dataclass(frozen=True)
class Variant:
    """What becomes of a model; nothing for the model as it is.

    tokens: a retrofit with that many regions. compute: token trees at that share of the compute, on top of the regions if there
    are some. rule: another merging rule, such as "tome". size: the patch model on images of that many pixels a side.
    run: a folder that `pixtree train distill` has written.
    """

    tokens: int | None = None
    compute: float | None = None
    rule: str | None = None
    size: int | None = None
    run: str | None = None

    def __post_init__(self) -> None:
        if self.rule is not None and self.compute is None:
            raise ValueError(f"a merging rule needs a share of the compute, got rule={self.rule} alone; add compute=0.5")
        if self.size is not None and self.tokens is not None:
            raise ValueError(f"regions are counted, not sized, got size={self.size} with tokens={self.tokens}; give one of them")

    def __str__(self) -> str:
        given = [(one.name, getattr(self, one.name)) for one in fields(self) if getattr(self, one.name) is not None]
        return ",".join(f"{name}={Path(value).name if name == 'run' else value}" for name, value in given) or "as it is"


def parsed_variant(text: str) -> Variant:
    """A variant from its name on the command line, such as "tokens=100" or "compute=0.5,rule=tome"."""
    values: dict[str, Any] = {}
    for word in text.split(","):
        name, _, value = word.strip().partition("=")
        try:
            values[name] = KINDS[name](value)
        except (KeyError, ValueError):
            raise ValueError(
                f"a variant is made of {', '.join(f'{key}=' for key in KINDS)} with values, got {word.strip()!r}; try tokens=100 "
                "or compute=0.5,rule=tome"
            ) from None
    return Variant(**values)


def model_of(name: str, weights: str | Path | None = None) -> Any:
    """A model of timm by name, or the one in a folder that `pixtree train distill` or `save_pretrained` has written."""
    if Path(name).is_dir():
        if weights is not None:
            raise ValueError(f"a folder brings its own weights, got {str(weights)!r} with {name!r}; leave the file out")
        return model_in(Path(name))
    return named_model(name, weights)


def model_in(folder: Path) -> Any:
    """The model of a folder: a retrofit, or what token trees were distilled from with its trees."""
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"expected a folder with {CONFIG} and {WEIGHTS}, got {str(folder)!r} without; check the path")
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if config.get("library") == "pixtree":
        return from_pretrained(folder)
    from pixtree.models.timm_import import timm

    model = timm.create_model(config["model"]).eval()
    load_weights(model, config["model"], folder / WEIGHTS)
    return coarsen(model, config["compute"])


def variant_of(base: Any, variant: Variant) -> Any:
    """The variant of a model; weights are shared with it where nothing changes them."""
    model = base if variant.run is None else model_in(Path(variant.run))
    held = model.model if isinstance(model, CoarseViT) else model
    if variant.tokens is not None:
        model = held = _with_tokens(held, variant.tokens)
    if variant.compute is not None:
        return coarsen(held, variant.compute, rule=variant.rule or "tree", input_size=variant.size)
    if variant.size is not None:
        count = token_count(held, (variant.size, variant.size))
        return coarsen(held, schedule=(count,) * len(held.blocks), input_size=variant.size)
    return model


def _with_tokens(model: Any, tokens: int) -> PixtreeViT:
    if not isinstance(model, PixtreeViT):
        return retrofit(model, tokens=tokens)
    changed = copy.copy(model)  # modules are shared, but the budget is not
    changed._modules = {**model._modules, "tokenizer": copy.copy(model.tokenizer)}
    changed.tokenizer.budget = Exactly(tokens)
    return changed


class Cost(NamedTuple):
    """What one image costs: tokens before the first and after the last block, and billions of operations."""

    tokens: int
    left: int
    gflops: float


def cost_of(model: Any, side: int | None = None) -> Cost:
    """Tokens and GFLOPs of matrix products and convolutions; comparisons and additions of a tree are left out, as usual.

    side: of the images in pixels, of which the cost of a tokenizer depends; the model's own by default.
    """
    if isinstance(model, CoarseViT):
        tokens = token_count(model.model, model.input_size)
        extra = tokenizer_flops(model.model, tokens, side) / 1e9 if isinstance(model.model, PixtreeViT) else 0.0
        return Cost(tokens, model.counts[-1], model.gflops + extra)
    tokens, vit = token_count(model), held_vit(model)
    flops = total_flops(vit, stem_flops(model), tokens, (tokens,) * len(vit.blocks))
    return Cost(tokens, tokens, (flops + (tokenizer_flops(model, tokens, side) if isinstance(model, PixtreeViT) else 0)) / 1e9)


@torch.no_grad()
def tokenizer_flops(model: PixtreeViT, tokens: int, side: int | None = None) -> int:
    """Operations of a retrofit's encoder and positions for one image; the projection counts as the stem, and the tree compares."""
    plain = copy.deepcopy(model.tokenizer)
    for module in plain.modules():
        if isinstance(getattr(module, "backend", None), str):
            setattr(module, "backend", "torch")  # noqa: B010, since modules hold it untyped; the counter knows its operators
    height, width = model.image_size if side is None else (side, side)
    like = plain.prefix
    places = torch.arange(height * width, device=like.device)
    labels = (places * tokens // (height * width)).to(torch.int32).view(1, height, width)
    with FlopCounterMode(display=False) as counter:
        plain.regions.encode(like.new_zeros(1, model.in_channels, height, width))
        if plain.positions is not None:
            plain.positions(labels, tokens)
    return int(counter.get_total_flops())


def parameters_of(model: nn.Module) -> int:
    """Numbers that a model has learned or can learn."""
    return sum(one.numel() for one in model.parameters())
