"""Models of transformers around a vision tower: finding the tower, exchanging it in a copy, and reading models from folders."""

import copy
import json
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from pixtree.models.adapters import REASONS
from pixtree.models.huggingface.trunk import FAMILIES

SUPPORTED = "ViT, DeiT, DINOv2 (with and without registers), DINOv3 ViT, CLIP, SigLIP, SigLIP 2 of fixed size and ViT-MAE's encoder"
REFUSED = {
    "Beit": REASONS["Beit"],
    "Data2VecVision": REASONS["Beit"],
    "Siglip2Vision": "its processor cuts images into patches of its own (NaFlex); SigLIP 2 checkpoints of fixed size are supported",
    "Swin": "its windows exist only on a grid",
}
GRID_HEADS = ("ForMaskedImageModeling", "ForPreTraining", "ForSemanticSegmentation", "ForDepthEstimation")


class Place(NamedTuple):
    """Where a model has its vision tower: the path of attributes, the tower, its class in FAMILIES, and the model around it."""

    path: str
    tower: Any
    kind: str
    model: Any

    @property
    def readers(self) -> int:
        """How many of the first tokens heads read; 0 without a class token."""
        if self.kind == "SiglipVisionModel":
            return 0
        return 2 if type(self.model).__name__ == "DeiTForImageClassificationWithTeacher" else 1


def place_of(model: Any, verb: str, grid: bool) -> Place:
    """The one vision tower of a model; refused with the reason if there is none. grid: whether its tokens stay those of patches."""
    found = [Place(path, module, kind, model) for path, module in model.named_modules() if (kind := _kind(module)) is not None]
    name = type(model).__name__
    if len(found) != 1:
        names = [kind.__name__ for module in model.modules() for kind in type(module).__mro__]
        reason = next((why for word, why in REFUSED.items() if any(one.startswith(word) for one in names)), None)
        if reason is None:
            reason = f"it has {len(found)} vision towers" if found else "it has no vision tower of a supported family"
        raise ValueError(f"{name} cannot be {verb}: {reason}; supported are {SUPPORTED}")
    place = found[0]
    if not grid and name.endswith(GRID_HEADS):
        raise ValueError(f"{name} cannot be {verb}: its head reads one token per patch; take the encoder, .{place.path}")
    if place.kind == "ViTMAEModel":
        _check_mask(place, verb)
    return place


def _check_mask(place: Place, verb: str) -> None:
    name = type(place.model).__name__
    if name.endswith("ForPreTraining"):
        raise ValueError(f"{name} cannot be {verb}: its decoder restores masked patches; take the encoder, .{place.path}")
    if place.tower.config.mask_ratio:
        raise ValueError(
            f"{name} cannot be {verb} while it masks patches, got mask_ratio={place.tower.config.mask_ratio}; "
            "set model.config.mask_ratio = 0 for whole images"
        )


def _kind(module: Any) -> str | None:
    names = (kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("transformers.models."))
    return next((name for name in names if name in FAMILIES), None)


def with_tower(model: Any, path: str, tower: nn.Module) -> Any:
    """A copy of the modules that lead to the tower, which the given one replaces; all other modules and all weights are shared."""
    if not path:
        return tower
    name, _, rest = path.partition(".")
    outer = copy.copy(model)
    vars(outer).update({key: copy.copy(value) for key, value in vars(model).items() if isinstance(value, dict)})
    outer._modules[name] = with_tower(model._modules[name], rest, tower)
    return outer


def loaded(model: Any) -> tuple[Any, dict[str, Any]]:
    """A module as it is, or the one in a folder as `save_pretrained` writes it; and the config of its image processor, if any."""
    if isinstance(model, nn.Module):
        return model, {}
    transformers = imported("transformers")
    folder = Path(model)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    name = next(iter(config.get("architectures") or []), None)
    if name is None or not hasattr(transformers, name):
        raise ValueError(f"expected the class of the model under architectures in {str(folder)!r}, got {name}; load it yourself")
    processor = folder / "preprocessor_config.json"
    reading = json.loads(processor.read_text(encoding="utf-8")) if processor.is_file() else {}
    return getattr(transformers, name).from_pretrained(str(folder), local_files_only=True).eval(), reading


def imported(module: str) -> Any:
    """A module of transformers, or an error that names the extra to install."""
    try:
        import_module("transformers")
        return import_module(module)
    except ImportError as error:
        raise ImportError(f"Hugging Face models need transformers ({error}); run pip install 'pixtree[transformers]'") from None


def tower_of(model: nn.Module) -> Any:
    """The coarsened or retrofitted vision tower inside a model: its counts, schedule, tokens and partitions.

    >>> from transformers import ViTConfig, ViTModel
    >>> vit = ViTModel(ViTConfig(hidden_size=24, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48))
    >>> import pixtree
    >>> tower_of(pixtree.coarsen(vit, schedule=[180, 160, 140, 120])).counts
    (180, 160, 140, 120)
    """
    from pixtree.models.huggingface.tower import Tower

    for module in model.modules():
        if isinstance(module, Tower):
            return module
    raise ValueError(
        f"{type(model).__name__} has no coarsened or retrofitted tower; call pixtree.coarsen or pixtree.retrofit first"
    )
