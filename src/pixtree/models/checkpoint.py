"""Checkpoints: config.json and model.safetensors, in a folder or on the Hugging Face Hub; no pickle anywhere."""

import json
import math
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pixtree.files import replacing, write_tensors
from pixtree.models.backbone import TokenSequence
from pixtree.models.checkpoint_config import MOST_BYTES, budget_from, parsed_config, partitioner_from, tokenizer_from
from pixtree.models.patch_grids import rotary_embedding
from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.partitioners import NAMES, Baseline, name_of

CONFIG, WEIGHTS = "config.json", "model.safetensors"
SPARE = 1 << 24  # values that a model may have while it is built, besides twice those of its file
PRECISIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def save_pretrained(model: PixtreeViT, folder: str | Path) -> None:
    """Write the model into a folder, created if needed; each file whole or not at all."""
    config = config_of(model)
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"a checkpoint is a folder, {str(target)!r} is a file; choose another name")
    target.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    write_tensors(target / WEIGHTS, tensors, {"format": "pt"})
    with replacing(target / CONFIG) as temporary:
        temporary.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def from_pretrained(source: str | Path, *, revision: str | None = None, token: str | None = None) -> PixtreeViT:
    """The model in a folder or, if there is no such folder, in a repository "user/name" of the Hugging Face Hub.

    It is in `eval()` and in the precision in which it was saved. Config and weights are compared before the model takes memory.
    """
    config_path, weights_path = local_or_hub(source, revision, token)
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    config = read_config(config_path)
    try:
        with safe_open(weights_path, "pt") as file:
            shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        check_fit(config, shapes)
        tensors = load_file(weights_path)
    except SafetensorError as error:
        raise ValueError(f"expected weights as safetensors, got {weights_path.name} ({error}); save the model again") from None
    model = model_of(config)
    precision = tensors["tokenizer.prefix"].dtype
    if precision not in PRECISIONS:
        raise ValueError(f"expected weights in floating point, got {precision} in {weights_path.name}; save the model again")
    model.to(precision)
    _load(model, tensors)
    return model.eval()


def push_to_hub(model: PixtreeViT, repository: str, *, private: bool = False, token: str | None = None, **options: Any) -> str:
    """Upload what `save_pretrained` writes to the repository "user/name", created if needed; returns its URL."""
    from huggingface_hub import HfApi

    interface = HfApi(token=token)
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(model, folder)
        address = interface.create_repo(repository, private=private, exist_ok=True)
        interface.upload_folder(repo_id=repository, folder_path=folder, **options)
    return str(address)


def config_of(model: PixtreeViT) -> dict[str, Any]:
    """Everything that rebuilds the model except its weights, as plain values."""
    architecture = str(model.pretrained_cfg.get("architecture", model.name.partition(".")[0]))
    vit, tokenizer = model.vit, model.tokenizer
    config = {
        "library": "pixtree",
        "architecture": architecture,
        "model_args": model.model_args or {},
        "num_classes": vit.num_classes,
        "global_pool": vit.global_pool,
        "pretrained_cfg": {key: model.pretrained_cfg[key] for key in ("mean", "std", "input_size") if key in model.pretrained_cfg},
        "budget": {"kind": type(tokenizer.budget).__name__, **asdict(tokenizer.budget)},
        "partitioner": _partitioner_config(model.partitioner),
        "tokenizer": tokenizer.options.flat(),
        "position_resolution": model.position_resolution,
        "image_size": list(model.image_size),
    }
    try:
        text = json.dumps(config)
    except TypeError as error:
        raise ValueError(f"a config holds plain values, got others ({error}); create the model with numbers and names") from None
    parsed_config(text.encode(), CONFIG)  # nothing is written that could not be read
    if model.model_args is None:
        _check_rebuilt(model, config)
    return config


def check_fit(config: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse a config that does not describe weights of these shapes, by a model of it that has shapes but no memory."""
    most = 2 * sum(math.prod(shape) for shape in shapes.values()) + SPARE  # a table of positions may have been larger
    architecture = checked_architecture(config)
    try:
        with torch.device("meta"):
            model = model_of(config, most)
    except Exception as error:  # timm and torch have no common error for arguments that do not go together
        reason = " ".join(f"{error}".split())[:200] or type(error).__name__
        raise ValueError(f"{architecture!r} cannot be built as its config says ({reason}); save the model again") from None
    if model.tokenizer.options != tokenizer_from(config["tokenizer"]):
        raise ValueError(f"the tokenizer of a config must fit its model {architecture!r}, this one does not; save the model again")
    _check_shapes({name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}, shapes)


def model_of(config: Mapping[str, Any], most: int | None = None) -> PixtreeViT:
    """A model with fresh weights from a config; refused if timm's own part of it has more than `most` values."""
    options = tokenizer_from(config["tokenizer"])
    vit = timm.create_model(checked_architecture(config), pretrained=False, **config["model_args"])
    count = sum(tensor.numel() for tensor in (*vit.parameters(), *vit.buffers()))
    if most is not None and count > most:
        raise ValueError(f"it has {count} values before regions replace its patches, its weights allow {most}")
    if (vit.num_classes, vit.global_pool) != (config["num_classes"], config["global_pool"]):
        changed = config["global_pool"] if vit.global_pool != config["global_pool"] else None
        vit.reset_classifier(config["num_classes"], changed)
    vit.pretrained_cfg = {**dict(getattr(vit, "pretrained_cfg", {})), **config["pretrained_cfg"]}
    model = retrofit(
        vit,
        budget=budget_from(config["budget"]),
        tokenizer=options,
        position_resolution=config["position_resolution"],
    )
    size = config.get("image_size")
    model.set_input_size(None if size is None else tuple(size))
    model.partitioner = partitioner_from(config["partitioner"])
    model.name, model.model_args = config["architecture"], dict(config["model_args"])
    return model


def checked_architecture(config: Mapping[str, Any]) -> str:
    """The name of the timm model; a config from elsewhere must not make timm download anything or open other files."""
    name, own = config["architecture"], signature(timm.create_model).parameters
    if not isinstance(name, str) or not timm.is_model(name):
        raise ValueError(f"expected the name of a model that timm has, got {name!r} in the config; save the model again")
    foreign = [word for word in config["model_args"] if word in own]
    if foreign:
        raise ValueError(f"expected arguments of the model alone, got {', '.join(foreign)} in the config; save the model again")
    return name


def _check_rebuilt(model: PixtreeViT, config: Mapping[str, Any]) -> None:
    """A module may have been built with arguments that it does not record; it could not be rebuilt, so it must not be saved."""
    remedy = "retrofit a name with these arguments instead of a module"
    try:
        twin = model_of(config)
        _load(twin, model.state_dict())
    except (RuntimeError, ValueError, TypeError) as error:
        raise ValueError(f"{config['architecture']!r} as timm creates it is not this model ({error}); {remedy}") from None
    if not torch.equal(_probe(model), _probe(twin.to(model.tokenizer.prefix))):
        raise ValueError(f"{config['architecture']!r} as timm creates it gives other outputs than this model; {remedy}")


@torch.no_grad()
def _probe(model: PixtreeViT) -> Tensor:
    """Logits of four synthetic regions in a square."""
    like, width, was = model.tokenizer.prefix, model.num_features, model.training
    tokens = torch.linspace(-1.0, 1.0, (model.num_prefix_tokens + 4) * width).view(1, -1, width).to(like)
    labels = torch.arange(4, dtype=torch.int32, device=like.device).view(1, 2, 2)
    rope = getattr(model.vit, "rope", None)
    turned = None if rope is None else rotary_embedding(rope, labels, 4, 1)
    logits: Tensor = model.eval().backbone(TokenSequence(tokens, None, turned))
    model.train(was)
    return logits


def _load(model: PixtreeViT, tensors: Mapping[str, Tensor]) -> None:
    own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    _check_shapes(own, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    model.load_state_dict(dict(tensors))


def _check_shapes(own: Mapping[str, tuple[int, ...]], given: Mapping[str, tuple[int, ...]]) -> None:
    wrong = [name for name in own if own[name] != given.get(name)] + [name for name in given if name not in own]
    if wrong:
        raise ValueError(f"weights must fit the config, got other {', '.join(wrong[:3])}; save config and weights together")


def checked_shapes(model: Any, given: Mapping[str, tuple[int, ...]], spare: int) -> None:
    """Refuse weights of other names or shapes than a model's, or a model that is far larger than its weights."""
    own = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    count, most = (sum(math.prod(shape) for shape in shapes.values()) for shapes in (own, given))
    if count > 2 * most + spare:
        raise ValueError(f"the model has {count} values, its weights {most}; save the model again")
    _check_shapes(own, given)


def local_or_hub(source: str | Path, revision: str | None, token: str | None) -> tuple[Path, Path]:
    """The files of the config and the weights, in a folder or downloaded from the Hugging Face Hub."""
    folder = Path(source)
    if folder.is_dir():
        missing = [name for name in (CONFIG, WEIGHTS) if not (folder / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"a checkpoint holds {CONFIG} and {WEIGHTS}, {str(folder)!r} lacks {', '.join(missing)}; save the model again"
            )
        return folder / CONFIG, folder / WEIGHTS
    if str(source).count("/") != 1 or str(source).startswith((".", "/", "~")):
        raise FileNotFoundError(f"expected a folder or a repository 'user/name', got {str(source)!r}; check the path")
    from huggingface_hub import hf_hub_download

    found = [hf_hub_download(str(source), name, revision=revision, token=token) for name in (CONFIG, WEIGHTS)]
    return Path(found[0]), Path(found[1])


def read_config(path: Path) -> dict[str, Any]:
    """The config of a checkpoint, or an error with the reason."""
    with path.open("rb") as file:
        return parsed_config(file.read(MOST_BYTES + 1), path.name)


def _partitioner_config(engine: Any) -> dict[str, Any] | None:
    if engine is None:
        return None
    if not isinstance(engine, Baseline):
        raise ValueError(f"a custom partitioner cannot be saved, got {type(engine).__name__}; use one of {', '.join(NAMES)}")
    return {"name": name_of(engine), **{field.name: getattr(engine, field.name) for field in fields(engine)}}
