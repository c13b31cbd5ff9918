"""Retrofit: any supported timm model with regions instead of patches, starting exactly where the patch model is."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import torch
from torch import nn

from pixtree.models.adapters import MODULES, REASONS, SUPPORTED, Stem, check_module, is_of_transformers, stem_of, without_stem
from pixtree.models.downloads import check_download
from pixtree.models.feature_getters import around, wrapped
from pixtree.models.patch_grids import positions_of
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.partitioners import Baseline
from pixtree.partitioners import partitioner as named_partitioner
from pixtree.tokenizer.cutting import PerPatch, TokenBudget
from pixtree.tokenizer.tokenizer import Options, Tokenizer, check_aggregation
from pixtree.trees.cuts import Exactly
from pixtree.trees.partition import Partitioner

OWN = ("pixtree", None)  # names for the tokenizer's own tree
NAMED = {"beit": REASONS["Beit"], "relpos": REASONS["VisionTransformerRelPos"], "sam": REASONS["VisionTransformerSAM"]}
LARGEST_BOX = 2  # sides of sampled boxes, in patches: this keeps most of a patch model's accuracy without training


def retrofit(
    model: str | nn.Module,
    tokens: int | None = None,
    *,
    budget: TokenBudget | None = None,
    partitioner: str | Partitioner | None = None,
    tokenizer: Tokenizer | Options | Mapping[str, Any] | None = None,
    position_resolution: int | None = None,
    backend: str = "auto",
    pretrained: bool = False,
    **model_args: Any,
) -> PixtreeViT:
    """A model with regions instead of patches; its projection, positions, prefix tokens, blocks, norms and head are kept.

    model: a timm name, which is created with `pretrained` (which downloads) and `model_args`; a timm module, which is copied; or a
        model of Hugging Face transformers or the folder of one, whose vision tower is exchanged in a copy of the same class.
    tokens, budget: the number of regions, or any `Budget`; by default there are as many as the image has patches,
        ceil(H / patch) · ceil(W / patch), the count of the timm model at that size.
    partitioner: None for the tree of the tokenizer; a name, such as "grid" for square patches; or any Partitioner.
    tokenizer: changes to `Options` by name; whole `Options`; or a Tokenizer, whose encoder and budget are taken over.
    position_resolution: bins per side of the position table; by default the table follows the patch grid of each image.

    >>> import torch, pixtree
    >>> model = pixtree.retrofit("vit_tiny_patch16_224", tokens=25, depth=1, num_classes=10).eval()
    >>> model(torch.zeros(1, 3, 64, 80)).shape
    torch.Size([1, 10])
    """
    if tokens is not None and budget is not None:
        raise ValueError(f"a model takes tokens= or budget=, got {tokens} and {budget}; give one")
    if tokens is not None:
        Exactly(tokens)  # refuses an invalid count before a model is created
    _check_partitioner(partitioner, tokens, budget)
    if partitioner not in OWN:
        check_aggregation(_asked(tokenizer), f"partitioner={partitioner!r}")
    wanted = Regions(tokens, budget, partitioner, tokenizer, position_resolution, backend)
    if is_of_transformers(model):
        from pixtree.models.huggingface.region_tower import retrofitted

        of_regions: PixtreeViT = retrofitted(model, wanted, pretrained, model_args)  # or rather a model of the class given
        return of_regions
    found = timm_model(model, pretrained, model_args)
    vit = wrapped(found)
    stem, config = stem_of(vit), getattr(vit, "pretrained_cfg", None) or {}
    built, engine = wanted.built(stem, config)
    name = model if isinstance(model, str) else str(config.get("architecture", ""))
    result = PixtreeViT(built, without_stem(vit), engine, name)
    result.image_size = (stem.grid[0] * stem.patch, stem.grid[1] * stem.patch)
    result.model_args = dict(model_args) if isinstance(model, str) and vit is found else None
    finished: PixtreeViT = around(found, result.train(vit.training))  # or rather timm's wrapper, with features_only=True
    return finished


@dataclass(frozen=True, eq=False)
class Regions:
    """The regions that a user asks for, see `retrofit`."""

    tokens: int | None
    budget: TokenBudget | None
    partitioner: str | Partitioner | None
    tokenizer: Tokenizer | Options | Mapping[str, Any] | None
    position_resolution: int | None
    backend: str

    def built(self, stem: Stem, config: Mapping[str, Any]) -> tuple[Tokenizer, Partitioner | None]:
        """A tokenizer that starts as the stem of a patch model, and the partitioner that replaces its tree, if any."""
        budget = self.budget
        if isinstance(self.tokenizer, Tokenizer) and self.tokens is None and self.partitioner in OWN:
            budget = budget or self.tokenizer.budget
        chosen = _budget(self.tokens, budget, self.partitioner, stem.patch)
        built = _tokenizer(stem, config, chosen, self.tokenizer, self.position_resolution, self.backend)
        return built, _engine(self.partitioner, self.tokens, stem)


def _check_partitioner(partitioner: str | Partitioner | None, tokens: int | None, budget: TokenBudget | None) -> None:
    if isinstance(partitioner, str) and partitioner != "grid":
        named_partitioner(partitioner, tokens or 1)
    if partitioner not in OWN and budget is not None:
        raise ValueError(f"only the tree takes budget=, got {budget} with partitioner={partitioner!r}; ask for tokens= instead")
    if partitioner not in OWN and not isinstance(partitioner, str) and tokens is not None:
        raise ValueError(f"a custom partitioner decides its count, got tokens={tokens}; leave tokens out")


def _engine(partitioner: str | Partitioner | None, tokens: int | None, stem: Stem) -> Partitioner | None:
    """The partitioner that replaces the tokenizer's tree, if any; a grid without a count has the model's own patches."""
    if partitioner in OWN:
        return None
    if not isinstance(partitioner, str):
        return partitioner
    if partitioner == "grid" and tokens is None:
        return named_partitioner("grid", patch=stem.patch)
    return named_partitioner(partitioner, tokens or stem.grid[0] * stem.grid[1])


def _budget(tokens: int | None, budget: TokenBudget | None, partitioner: str | Partitioner | None, patch: int) -> TokenBudget:
    """The given budget; without one, the count of a given partitioner, or as many regions as an image has patches."""
    if budget is not None:
        return budget
    own = partitioner.tokens if tokens is None and isinstance(partitioner, Baseline) else tokens
    return PerPatch(patch) if own is None else Exactly(own)


def timm_model(model: str | nn.Module, pretrained: bool, model_args: Mapping[str, Any], verb: str = "retrofitted") -> Any:
    """A timm model by name, or a copy of a module; refused with the reason if it is not supported. verb: what is done with it.

    With features_only=True it is timm's wrapper, see `feature_getters`.
    """
    if not isinstance(model, str):
        if model_args or pretrained:
            raise ValueError(f"timm arguments go with a name, got {', '.join(model_args) or 'pretrained'} with a module; drop them")
        check_module(wrapped(model), verb)
        return deepcopy(model)
    known = model.partition(".")[0]
    if not model.startswith(("hf-hub:", "hf_hub:", "local-dir:")):
        if not timm.is_model(known):
            near = get_close_matches(known, timm.list_models(module=list(MODULES)), 3)
            hint = f"did you mean {', '.join(near)}?" if near else "timm.list_models('vit*') lists names."
            raise ValueError(f"timm has no model {model!r}; {hint} Supported are {SUPPORTED}")
        if not _in_supported_modules(known):
            reason = next(
                (why for kind, why in NAMED.items() if kind in known), "it is not a plain Vision Transformer over patches"
            )
            raise ValueError(f"{model} cannot be {verb}: {reason}; supported are {SUPPORTED}")
    if pretrained:
        check_download(model)
    vit = timm.create_model(model, pretrained=pretrained, **model_args)
    check_module(wrapped(vit), verb)
    return vit


def _in_supported_modules(name: str) -> bool:
    return any(name in timm.list_models(name, module=module) for module in MODULES)


def _tokenizer(
    stem: Stem,
    config: Mapping[str, Any],
    budget: TokenBudget,
    given: Tokenizer | Options | Mapping[str, Any] | None,
    resolution: int | None,
    backend: str,
) -> Tokenizer:
    """A tokenizer that starts as the stem of the patch model."""
    options = _options(stem, config, given)
    built = Tokenizer(budget, options, backend=backend)
    if isinstance(given, Tokenizer):
        built.regions.load_state_dict(given.regions.state_dict())
    _take_over(built, stem, resolution)
    return built


def _options(stem: Stem, config: Mapping[str, Any], given: Tokenizer | Options | Mapping[str, Any] | None) -> Options:
    fixed: dict[str, Any] = {
        "width": int(stem.weight.shape[0]),
        "channels": stem.channels,
        "patch": stem.patch,
        "positions": 0,
        "prefix": len(stem.prefix),
        "mean": _per_channel(config.get("mean"), stem.channels),
        "std": _per_channel(config.get("std"), stem.channels),
    }
    asked, by_name = _asked(given), given if isinstance(given, Mapping) else {}
    wrong = sorted(set(by_name) & set(fixed))
    if wrong:
        raise ValueError(f"the model decides {', '.join(wrong)} of its tokenizer; leave these out")
    if given is None or (by_name is given and "features" not in given):
        fixed["features"] = max(asked.encoder.features, stem.channels)
    return _with_boxes(asked.changed(**fixed))


def _asked(given: Tokenizer | Options | Mapping[str, Any] | None) -> Options:
    """The given options in any form, before the model adds its own."""
    if isinstance(given, Tokenizer):
        return given.options
    return given if isinstance(given, Options) else Options().changed(**(given or {}))


def _with_boxes(options: Options) -> Options:
    """The same, open box sizes following the patch of the model: square patches must be sampled exactly."""
    smallest, largest = options.sampling.boxes[0], options.sampling.largest_box
    if largest is None:
        largest = max(LARGEST_BOX * options.sampling.patch, smallest)
    return options.changed(smallest_box=smallest, largest_box=largest)


def _per_channel(values: Any, channels: int) -> tuple[float, ...]:
    return tuple(values) if values is not None and len(values) == channels else (0.5,) * channels


@torch.no_grad()
def _take_over(tokenizer: Tokenizer, stem: Stem, resolution: int | None) -> None:
    """Put projection, positions and prefix tokens of the patch model into the tokenizer."""
    width, length = stem.weight.shape
    projection = nn.Linear(length, width, bias=stem.bias is not None)
    projection.weight.copy_(stem.weight)
    if stem.bias is not None:
        projection.bias.copy_(stem.bias)
    tokenizer.projection = projection if stem.norm is None else nn.Sequential(projection, stem.norm)  # type: ignore[assignment]
    tokenizer.prefix.copy_(stem.prefix)
    tokenizer.prefix.requires_grad_(len(stem.prefix) > 0)
    tokenizer.positions = _positions(stem, tokenizer, resolution)
    tokenizer.to(stem.weight)  # its device and precision


def _positions(stem: Stem, tokenizer: Tokenizer, resolution: int | None) -> Any:
    if stem.table is None:
        if resolution is not None:
            raise ValueError(f"this model has no table of positions, got position_resolution={resolution}; leave it out")
        return None
    return positions_of(stem.table, stem.grid, stem.patch, resolution, tokenizer.options.placing, tokenizer.backend)
