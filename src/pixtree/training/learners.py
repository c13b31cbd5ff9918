"""The model of a recipe: built, given its weights, and fitted to the classes, the image size and the drop path of the recipe."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pixtree.models import zoo
from pixtree.models.checkpoint import CONFIG
from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.models.zoo import load_weights as fill
from pixtree.tokenizer.components import LEVEL, fix_without, lacks, options_without
from pixtree.tokenizer.cutting import TokenBudget
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, TREE_WEIGHTS, paper_changes
from pixtree.tokenizer.weights import load_weights, shipped_weights
from pixtree.training.recipe import GIVEN, Model
from pixtree.trees.cuts import Exactly


def learner_of(model: Model, classes: int, *, weights: bool = True) -> Any:
    """The model of a recipe with a head for `classes`; without `weights`, as for a dry run, no start is loaded."""
    check_name(model)
    learner = _started(model) if weights else _fresh(model)
    if learner.num_classes != classes:
        learner.reset_classifier(classes)
        if isinstance(learner, PixtreeViT) and learner.model_args is not None:
            learner.model_args["num_classes"] = classes
    learner.set_input_size(img_size=model.image_size)
    if model.position_resolution is not None and learner.position_resolution != model.position_resolution:
        learner.set_position_resolution(model.position_resolution)
    set_drop_path(learner, model.dropped())
    if isinstance(learner, PixtreeViT):
        _fit_encoder(learner, model, weights)
        fix_without(model.without, learner.tokenizer)
    return learner


def check_name(model: Model) -> None:
    """Refuse settings that do not go together; names that timm does not know are refused when the model is created."""
    own = model.name in zoo.NAMES
    if own and model.tokenizer is not None:
        raise ValueError(f"{model.name} has its tokenizer by its name, got model.tokenizer={model.tokenizer}; remove it")
    if own and model.start == "timm":
        raise ValueError(f"{model.name} is trained from scratch, got model.start=timm; start fresh or from a folder")
    if not own and model.tokenizer is None:
        asked = [key for key in ("tokens", "position_resolution") if getattr(model, key) is not None]
        asked += ["encoder"] * (model.encoder != "fresh") + ["frozen"] * model.frozen + ["without"] * (model.without is not None)
        if asked:
            raise ValueError(
                f"a model of patches has no {', '.join(asked)}, got it for {model.name}; set model.tokenizer or remove it"
            )

    if model.without == "selection" and model.tokens is not None:
        raise ValueError(f"a model without selection has the regions of a level, got model.tokens={model.tokens}; remove it")


def set_drop_path(learner: Any, rate: float) -> None:
    """Drop whole blocks of samples while training, at a rate that rises from 0 in the first block to `rate` in the last."""
    if not 0 <= rate < 1:
        raise ValueError(f"expected a drop path rate in [0, 1), got {rate}; the paper has 0.1 and 0.2")
    blocks = (learner.vit if isinstance(learner, PixtreeViT) else learner).blocks
    for block, share in zip(blocks, torch.linspace(0, rate, len(blocks)).tolist(), strict=True):
        for name in ("drop_path1", "drop_path2"):
            if hasattr(block, name):
                setattr(block, name, timm.layers.DropPath(share) if share > 0 else nn.Identity())


def _fresh(model: Model, pretrained: bool = False) -> Any:
    """The model as timm or pixtree creates it."""
    if model.name in zoo.NAMES:
        options: dict[str, Any] = {"img_size": model.image_size, **model.arguments}
        if model.tokens is not None:
            options["tokens"] = model.tokens
        if model.without is not None:
            options["tokenizer"] = {**options.get("tokenizer", {}), **options_without(model.without)}
        if model.without == "selection":
            options["budget"] = LEVEL
        return timm.create_model(model.name, position_resolution=model.position_resolution or zoo.POSITION_BINS, **options)
    if not timm.is_model(model.name.partition(".")[0]):
        raise ValueError(f"expected the name of a model of timm or of {', '.join(zoo.NAMES)}, got {model.name!r}; check it")
    return _with_regions(timm.create_model(model.name, pretrained=pretrained, **model.arguments), model)


def _with_regions(vit: Any, model: Model) -> Any:
    """A timm model, with regions if the recipe asks for them."""
    if model.tokenizer is None:
        return vit
    changes = options_without(model.without)
    paper = model.tokenizer == "paper"
    budget: TokenBudget | None = PAPER_BUDGET if paper and model.tokens is None else None
    if model.without == "selection":
        budget = LEVEL
    made = retrofit(
        vit,
        tokens=model.tokens,
        budget=budget,
        tokenizer=paper_changes(**changes) if paper else changes or None,
        position_resolution=model.position_resolution,
    )
    made.name, made.model_args = model.name.partition(".")[0], dict(model.arguments)
    return made.train()


def _started(model: Model) -> Any:
    """The model with the weights that it starts from."""
    if model.start == "fresh":
        return _fresh(model)
    if model.start == "timm":
        return _fresh(model, pretrained=True)
    if model.start == GIVEN:
        raise ValueError(f"the recipe continues a model, got none for {model.name}; give --start with the folder of a run")
    path = Path(model.start)
    if path.is_dir():
        return _continued(model, path)
    if not path.is_file():
        raise FileNotFoundError(
            f"expected a folder of a run or a .safetensors file to start from, found none at {model.start!r}; check the path"
        )
    if model.name in zoo.NAMES:
        raise ValueError(f"{model.name} starts fresh or from the folder of a run, got the file {model.start!r}; give the folder")
    vit = timm.create_model(model.name, pretrained=False, **model.arguments)
    fill(vit, model.name, path)
    return _with_regions(vit, model)


def _continued(model: Model, folder: Path) -> Any:
    """The model that an earlier run wrote: one of regions, or one of patches."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        architecture = config["architecture"]
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"expected the folder of a run with its model, {str(folder)!r} has none; check the path") from None
    if architecture != _architecture(model.name):
        raise ValueError(
            f"expected a start of {_architecture(model.name)} for {model.name}, {str(folder)!r} holds {architecture}; "
            "give another folder, or --set model.name"
        )
    if config.get("library") == "pixtree":
        learner = PixtreeViT.from_pretrained(folder).train()
        if model.without is not None and not lacks(model.without, learner.tokenizer):
            raise ValueError(
                f"expected a start that was trained without {model.without}, {str(folder)!r} has it; start from a run with "
                f"model.without={model.without}"
            )
        if model.tokens is not None:
            learner.tokenizer.budget = Exactly(model.tokens)
        return learner
    return _with_regions(timm.create_model(f"local-dir:{folder}", pretrained=True), model)


def _architecture(name: str) -> str:
    """timm's name of the model that holds the blocks."""
    if name in zoo.NAMES:
        return f"vit_{name.rpartition('_')[2]}_patch16_224"
    return name.partition(".")[0]


def _fit_encoder(learner: PixtreeViT, model: Model, weights: bool) -> None:
    """Load weights into the encoder, and freeze it if the recipe asks for that."""
    regions, options = learner.tokenizer.regions, learner.tokenizer.options
    if model.frozen and options.aggregation in TREE_WEIGHTS:
        raise ValueError(
            f"a frozen encoder is for cutting beforehand, which {options.aggregation} weights cannot use; "
            "remove model.frozen, or use the tokenizer pixtree"
        )
    if model.encoder != "fresh" and (weights or model.encoder == "shipped"):
        (shipped_weights() if model.encoder == "shipped" else load_weights(model.encoder)).into(regions)
    regions.requires_grad_(not model.frozen)


def keep(learner: Any, model: Model, folder: Path) -> None:
    """Write a model as `PixtreeViT.from_pretrained`, or timm's "local-dir:", reads it; each file whole or not at all."""
    if isinstance(learner, PixtreeViT):
        learner.save_pretrained(folder)
        return
    made_with = {**model.arguments, "img_size": model.image_size}
    with tempfile.TemporaryDirectory(dir=folder, prefix=".pixtree-") as near:
        timm.models.save_for_hf(learner, near, model_args=made_with, safe_serialization=True)
        for path in Path(near).iterdir():
            path.replace(folder / path.name)
