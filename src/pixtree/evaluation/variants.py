"""Variants of a model in one table: patches, fewer patches, regions, token trees, ToMe; their cost and speed. [`tab:efficiency`]"""

import copy
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from pixtree.models.checkpoint import CONFIG, WEIGHTS, from_pretrained
from pixtree.models.coarsening import CoarseViT, coarsen
from pixtree.models.coarsening.schedules import total_flops
from pixtree.models.entry import held_vit, stem_flops, token_count
from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.models.zoo import load_weights, named_model
from pixtree.runtime.backend import wait_for
from pixtree.tokenizer.cutting import TokenBudget
from pixtree.trees.cuts import Exactly

EFFICIENCY_COLUMNS = [
    ["variant", "Variant", ""],
    ["tokens", "Tokens", ".5g"],
    ["parameters", "Parameters, M", ".2f"],
    ["gflops", "GFLOPs per image", ".2f"],
    ["tokens_per_second", "Tokens/s", ".0f"],
    ["images_per_second", "Images/s", ".2f"],
    ["ratio", "Images/s against the first", ".3f"],
    ["least", "least", ".3f"],
    ["most", "most", ".3f"],
]
KINDS = {"tokens": int, "compute": float, "rule": str, "size": int, "run": str}


@dataclass(frozen=True)
class Variant:
    """A change to a model; without values, the model as it is.

    tokens: a retrofit with that many regions. compute: token trees at that share of the compute, on top of the regions if there
    are some. rule: another merging rule, such as "tome". size: the patch model on images of that many pixels a side.
    run: a folder written by `pixtree train`.
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
    """A model of timm by name, or from a folder written by `pixtree train` or `save_pretrained`."""
    if Path(name).is_dir():
        if weights is not None:
            raise ValueError(f"a folder brings its own weights, got {str(weights)!r} with {name!r}; leave the file out")
        return model_in(Path(name))
    return named_model(name, weights)


def model_in(folder: Path) -> Any:
    """The model of a folder: a retrofit, a timm model that a recipe trained, or one with distilled token trees."""
    if not (folder / CONFIG).is_file():
        raise FileNotFoundError(f"expected a folder with {CONFIG} and {WEIGHTS}, got {str(folder)!r} without; check the path")
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    if config.get("kind") == "coarsened":
        return CoarseViT.from_pretrained(folder)
    if config.get("library") == "pixtree":
        return from_pretrained(folder)
    if "architecture" in config:
        return timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
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
    return with_budget(model, Exactly(tokens)) if isinstance(model, PixtreeViT) else retrofit(model, tokens=tokens)


def with_budget(model: PixtreeViT, budget: TokenBudget) -> PixtreeViT:
    """The same model with another budget; modules are shared, but the budget is not."""
    changed = copy.copy(model)
    changed._modules = {**model._modules, "tokenizer": copy.copy(model.tokenizer)}
    changed.tokenizer.budget = budget
    return changed


class Cost(NamedTuple):
    """The mean cost of an image: tokens before the first and after the last block, and billions of operations."""

    tokens: float
    left: float
    gflops: float


def has_one_count(model: Any) -> bool:
    """Whether every image gets the same number of tokens; that of a criterion, for one, depends on the image."""
    return not isinstance(model, PixtreeViT) or isinstance(model.tokenizer.budget, Exactly)


def cost_of(model: Any, side: int | None = None, counts: Tensor | None = None) -> Cost:
    """Tokens and GFLOPs of matrix products and convolutions; comparisons and additions of a tree are not counted, as usual.

    side: of the images in pixels, on which the cost of a tokenizer depends; the model's own by default. counts: (N,), the tokens of
    every image, for models where they differ. An image costs what its own tokens cost, without the padding of its batch.
    """
    if isinstance(model, CoarseViT):
        tokens = token_count(model.model, model.input_size)
        extra = tokenizer_flops(model.model, tokens, side) / 1e9 if isinstance(model.model, PixtreeViT) else 0.0
        return Cost(tokens, model.counts[-1], model.gflops + extra)
    if not has_one_count(model) and counts is None:
        raise ValueError(f"images of this model have different numbers of tokens ({model.tokenizer.budget}); pass their counts")
    each = [token_count(model)] if has_one_count(model) or counts is None else [int(count) for count in counts]
    vit, stem, mean = held_vit(model), stem_flops(model), statistics.mean(each)
    blocks = statistics.mean(total_flops(vit, stem, count, (count,) * len(vit.blocks)) for count in each)
    extra = tokenizer_flops(model, round(mean), side) if isinstance(model, PixtreeViT) else 0
    return Cost(mean, mean, (blocks + extra) / 1e9)


@torch.inference_mode()
def counts_of(model: Any, images: Tensor) -> Tensor | None:
    """The tokens of every image, (B,); None where all images have as many."""
    return None if has_one_count(model) or isinstance(model, CoarseViT) else model.partition(images).counts


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
    """The number of parameters."""
    return sum(one.numel() for one in model.parameters())


def photo_batch(batch: int, side: int) -> Tensor:
    """Different crops of scikit-image's photos, normalised to −1..1, (batch, 3, side, side), as timm models take them."""
    from skimage import data

    crops = []
    for number in range(batch):
        pixels = (data.astronaut, data.coffee, data.chelsea)[number % 3]()  # type: ignore[no-untyped-call]
        image = torch.from_numpy(pixels).permute(2, 0, 1)
        start = 8 * (number // 3)
        crop = image[None, :, start : start + 280, start : start + 400].to(torch.float32)
        crops.append(functional.interpolate(crop, (side, side), mode="bilinear", antialias=True))
    return torch.cat(crops).round() / 127.5 - 1.0


@torch.inference_mode()
def seconds(model: Any, images: Tensor) -> float:
    """The time of one batch."""
    wait_for(images.device)
    start = time.perf_counter()
    model(images)
    wait_for(images.device)
    return time.perf_counter() - start


def in_turns(
    models: Mapping[str, Any], images: Tensor, rounds: int, report: Callable[[int], None] = lambda count: None
) -> dict[str, list[float]]:
    """Seconds of every model in every round; the order is reversed from round to round, and a first round warms up."""
    found: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(rounds + 1):
        for name in list(models)[:: -1 if turn % 2 else 1]:
            taken = seconds(models[name], images)
            if turn:
                found[name].append(taken)
        report(1)
    return found


def efficiency_rows(
    models: Mapping[str, Any], images: Tensor, rounds: int, report: Callable[[int], None] = lambda count: None
) -> list[dict[str, Any]]:
    """A row per model; ratios against the first model are medians over the rounds."""
    costs = {name: cost_of(model, counts=counts_of(model, images)) for name, model in models.items()}
    found = in_turns(models, images, rounds, report)
    first, rows = next(iter(found.values())), []
    for name, model in models.items():
        cost, each = costs[name], sorted(a / b for a, b in zip(first, found[name], strict=True))
        speed = len(images) / statistics.median(found[name])
        rows.append(
            {
                "variant": name,
                "tokens": cost.tokens,
                "parameters": parameters_of(model) / 1e6,
                "gflops": cost.gflops,
                "tokens_per_second": speed * cost.tokens,
                "images_per_second": speed,
                "ratio": statistics.median(each),
                "least": each[0],
                "most": each[-1],
            }
        )
    return rows
