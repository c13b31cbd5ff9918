"""Checkpoints of coarsened timm models: config.json and model.safetensors, the held model and the schedule; no pickle."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from pixtree.files import replacing, write_tensors
from pixtree.models.checkpoint import CONFIG, SPARE, WEIGHTS, checked_architecture, checked_shapes, local_or_hub
from pixtree.models.checkpoint_config import LARGEST, MOST_BYTES, Plain, PretrainedValues, Size, first_fault
from pixtree.models.coarsening.blocks import check_blocks
from pixtree.models.coarsening.coarse_vit import CoarseViT
from pixtree.models.coarsening.rules import RULES, rule_of
from pixtree.models.coarsening.schedules import Schedule
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT

Share = Annotated[float, Field(gt=0.0, le=1.0)]


class CoarseConfig(BaseModel):
    """Everything that rebuilds a coarsened model except its weights."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=())
    library: Literal["pixtree"]
    kind: Literal["coarsened"]
    architecture: Any  # compared with timm's own names
    model_args: Plain
    num_classes: Annotated[int, Field(ge=0, le=LARGEST)]
    global_pool: Annotated[str, Field(max_length=50)]
    pretrained_cfg: PretrainedValues
    image_size: Annotated[list[Size], Field(min_length=2, max_length=2)]
    shares: Annotated[list[Share], Field(min_length=1, max_length=256)]
    rule: Literal[tuple(RULES)]  # type: ignore[valid-type]
    input_size: Annotated[list[Size], Field(min_length=2, max_length=2)] | None


def save_coarse(model: CoarseViT, folder: str | Path) -> None:
    """Write a coarsened timm model into a folder, created if needed; each file whole or not at all."""
    config = _config_of(model)
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"a checkpoint is a folder, {str(target)!r} is a file; choose another name")
    target.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.model.state_dict().items()}
    write_tensors(target / WEIGHTS, tensors, {"format": "pt"})
    with replacing(target / CONFIG) as temporary:
        temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load_coarse(source: str | Path, *, revision: str | None = None, token: str | None = None) -> CoarseViT:
    """The coarsened model in a folder or a repository "user/name" of the Hugging Face Hub, in `eval()` and its own precision."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    config_path, weights_path = local_or_hub(source, revision, token)
    config = _read(config_path)
    try:
        tensors = load_file(weights_path)
    except SafetensorError as error:
        raise ValueError(f"expected weights as safetensors, got {weights_path.name} ({error}); save the model again") from None
    vit = _built(config, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    vit.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
    return _around(vit, config).eval()


def _config_of(model: CoarseViT) -> dict[str, Any]:
    held: Any = model.model
    if isinstance(held, PixtreeViT):
        raise ValueError("a coarsened retrofit is saved in two steps; save its .model and give its .schedule to coarsen again")
    named = next((name for name in RULES if replace_backend(rule_of(name)) == replace_backend(model.rule)), None)
    if named is None:
        raise ValueError(f"a rule is saved by its name, one of {', '.join(RULES)}, got {model.rule}; coarsen with one of these")
    own = model.pretrained_cfg
    config = {
        "library": "pixtree",
        "kind": "coarsened",
        "architecture": str(own.get("architecture", "")),
        "model_args": model.model_args or {},
        "num_classes": held.num_classes,
        "global_pool": held.global_pool,
        "pretrained_cfg": {key: list(own[key]) for key in ("mean", "std", "input_size") if own.get(key) is not None},
        "image_size": list(model.image_size),
        "shares": list(model.schedule.shares),
        "rule": named,
        "input_size": None if model.input_size is None else list(model.input_size),
    }
    checked = _parsed(json.dumps(config).encode(), CONFIG)  # nothing is written that could not be read
    remedy = "coarsen a name with these arguments instead of a module"
    weights = {name: tuple(tensor.shape) for name, tensor in held.state_dict().items()}
    try:
        twin = _built(checked, weights).to(next(held.parameters()))
    except ValueError as error:
        raise ValueError(f"{config['architecture']!r} as timm creates it is not this model ({error}); {remedy}") from None
    twin.load_state_dict(held.state_dict())
    if not torch.equal(_probe(twin), _probe(held)):
        raise ValueError(f"{config['architecture']!r} as timm creates it gives other outputs than this model; {remedy}")
    return config


def replace_backend(rule: Any) -> Any:
    """A rule as it is without a choice of backend, which does not belong to a model."""
    return replace(rule, backend="auto") if hasattr(rule, "backend") else rule


def _read(path: Path) -> CoarseConfig:
    with path.open("rb") as file:
        return _parsed(file.read(MOST_BYTES + 1), path.name)


def _parsed(content: bytes, name: str) -> CoarseConfig:
    if len(content) > MOST_BYTES:
        raise ValueError(f"a config has at most {MOST_BYTES} bytes, {name} has {len(content)}; save the model again")
    try:
        return CoarseConfig.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(
            f"expected a coarsened model of pixtree, got {first_fault(error)} in {name}; save the model again"
        ) from None


def _built(config: CoarseConfig, weights: dict[str, tuple[int, ...]]) -> Any:
    """The timm model of a config with fresh weights; compared with the shapes of a file before it takes memory."""
    with torch.device("meta"):
        checked_shapes(_created(config), weights, SPARE)
    return _created(config)


def _created(config: CoarseConfig) -> Any:
    name = checked_architecture({"architecture": config.architecture, "model_args": config.model_args})
    vit = timm.create_model(name, pretrained=False, **config.model_args)
    if (vit.num_classes, vit.global_pool) != (config.num_classes, config.global_pool):
        vit.reset_classifier(config.num_classes, config.global_pool if vit.global_pool != config.global_pool else None)
    if tuple(vit.patch_embed.img_size) != tuple(config.image_size):
        vit.set_input_size(img_size=tuple(config.image_size))
    vit.pretrained_cfg = {**dict(vit.pretrained_cfg), **config.pretrained_cfg.model_dump(exclude_none=True)}
    return vit


def _around(vit: Any, config: CoarseConfig) -> CoarseViT:
    check_blocks(vit)
    if len(config.shares) != len(vit.blocks):
        raise ValueError(f"expected a share per block, {len(vit.blocks)}, got {len(config.shares)}; save the model again")
    size = None if config.input_size is None else (config.input_size[0], config.input_size[1])
    model = CoarseViT(vit, Schedule(tuple(config.shares)), rule_of(config.rule), size)
    model.model_args = dict(config.model_args)
    return model


@torch.no_grad()
def _probe(vit: Any) -> Tensor:
    """Logits of a synthetic image."""
    like, was = next(vit.parameters()), vit.training
    height, width = vit.patch_embed.img_size
    channels = vit.patch_embed.proj.in_channels
    image = torch.linspace(-1.0, 1.0, channels * height * width, device=like.device).view(1, channels, height, width)
    logits: Tensor = vit.eval()(image.to(like))
    vit.train(was)
    return logits
