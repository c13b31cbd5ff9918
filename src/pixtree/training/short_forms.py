"""The recipes that `pixtree train tokenizer` and `pixtree train distill` stand for, and the settings of runs of version 0.2."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pixtree.training.recipe import DistillationRecipe, TokenizerRecipe, checked_recipe, read_values
from pixtree.training.schedule import RENAMED, with_new_names

PRESETS = {"default": "tokenizer_laptop", "paper": "tokenizer"}  # recipes that the presets of the tokenizer start from
STEPS, WARMUP = 400, 20  # of the default preset; the paper counts epochs and has no warm-up
REPLACED = {"order": "replacement"}  # how version 0.2 drew the images of a tokenizer's crops
DISTILLED: dict[str, Any] = {
    "batch": 16,
    "epochs": 3.0,
    "warmup_share": 0.05,
    "rate": 3e-5,
    "tokenizer_lr_scale": 30.0,
    "weight_decay": 0.01,
    "clip": 1.0,
}


def tokenizer_recipe(
    preset: str = "default",
    *,
    images: int,
    steps: int | None = None,
    batch: int | None = None,
    size: int = 160,
    tokens: int | None = None,
    rate: float | None = None,
    decay: float | None = None,
    association: float | None = None,
    features: int = 8,
    compactness: float | None = None,
    seed: int = 0,
) -> TokenizerRecipe:
    """The recipe of `pixtree train tokenizer` for a folder with this many images; None keeps a value of the preset."""
    if preset not in PRESETS:
        raise ValueError(f"a preset is one of {', '.join(PRESETS)}, got {preset!r}; choose one of them")
    paper, values = preset == "paper", read_values(PRESETS[preset])
    refused = {"--tokens": tokens, "--association": association, "--compactness": compactness}
    given = [option for option, value in refused.items() if value is not None]
    if paper and given:
        raise ValueError(f"the paper's preset has no {', '.join(given)}, got it with --preset paper; remove it or use default")
    batch = values["schedule"]["batch"] if batch is None else batch
    if steps is None:
        steps = math.ceil(values["schedule"]["epochs"] * images / max(1, batch)) if paper else STEPS
    lengths = {"batch": batch, "epochs": None, "steps": steps, "warmup": 0.0, "warmup_steps": 0 if paper else WARMUP}
    values["schedule"] |= lengths | {"rate": values["schedule"]["rate"]["base"] if rate is None else rate, "seed": seed}
    values["encoder"] |= {"features": features, "crop": size}
    if decay is not None:
        values["schedule"]["weight_decay"] = decay
    if tokens is not None:
        values["encoder"]["tokens"] = tokens
    if association is not None:
        values["loss"]["association"] = association
    if not paper:
        values["encoder"]["compactness"] = 0.0 if compactness is None else compactness
    found = checked_recipe(values | {"about": f"tokenizer pretraining by the preset {preset}", "notes": (), "images": "all"})
    assert isinstance(found, TokenizerRecipe)
    return found


def distillation_recipe(
    model: str,
    *,
    weights: str | Path | None = None,
    tokens: Sequence[int] = (196,),
    compute: float | None = None,
    regions: float | None = None,
    crop: float = 0.7,
    **schedule: Any,
) -> DistillationRecipe:
    """The recipe of `pixtree train distill`, whose help explains its options; `benchmarks/distill.py` chose the rates.

    regions: by default 1 for region tokens and 0 for token trees, which have none. schedule: changes of the schedule.
    """
    if not 0 < crop <= 1:
        raise ValueError(f"a crop is a share of an image above 0 and at most 1, got {crop}; try 0.7")
    start = "timm" if weights is None else str(weights)
    kind = {"tokens": tokens} if compute is None else {"compute": compute}
    found = checked_recipe(
        {
            "task": "distillation",
            "about": f"{model} at " + (f"{compute} of the compute" if compute else f"{', '.join(map(str, tokens))} tokens"),
            "model": {"name": model, "start": start, **kind},
            "loss": {"regions": float(compute is None) if regions is None else regions},
            "augment": {"scale": (crop, 1.0), "ratio": (3 / 4, 4 / 3)},
            "schedule": DISTILLED | schedule,
        }
    )
    assert isinstance(found, DistillationRecipe)
    return found


def upgraded(stored: Mapping[str, Any], current: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a checkpoint as this version writes them; keys that are newer than the checkpoint have their defaults.

    0.2 kept a recipe with former keys, or the options of a command instead of a recipe. `current`: the settings of the run that
    resumes, for what 0.2 did not keep, and for texts, which are not settings.
    """
    if "recipe" in stored:
        values = stored["recipe"] | {"schedule": with_new_names(stored["recipe"]["schedule"])}
        if values["task"] == "tokenizer" and not RENAMED.keys().isdisjoint(stored["recipe"]["schedule"]):
            values |= REPLACED
        recipe = checked_recipe(values | {key: current["recipe"][key] for key in ("about", "notes")})
    elif "distillation" in stored:
        options = {RENAMED.get(key, key): value for key, value in stored["distillation"].items()}
        start = current.get("recipe", {}).get("model", {}).get("start", "timm")
        recipe = distillation_recipe(**options, weights=None if start == "timm" else start)
    elif "crops" in stored:
        recipe = _tokenizer_recipe(stored)
    else:
        return dict(stored)
    pictures = stored["pictures"] if "pictures" in stored else len(stored["images"])
    return {"plan": recipe.plan(pictures).record(), "recipe": recipe.model_dump(mode="json"), "pictures": pictures}


def _tokenizer_recipe(stored: Mapping[str, Any]) -> TokenizerRecipe:
    """The recipe of a run of `pixtree train tokenizer` by version 0.2."""
    (batch, size, budget), (preset, features, compactness, association) = stored["crops"], stored["model"]
    tokens = re.search(r"\d+", budget)
    own = {"tokens": int(tokens[0]) if tokens else None, "compactness": compactness, "association": association}
    plan = {key: stored["plan"][key] for key in ("steps", "rate", "decay", "seed")}
    images = len(stored["images"])
    found = tokenizer_recipe(
        preset, images=images, batch=batch, size=size, features=features, **plan, **({} if preset == "paper" else own)
    )
    return found.model_copy(update=REPLACED)
