"""Models by name: timm's with given weights, and ours to train from scratch, which timm knows after `import pixtree.models`.

`timm.create_model("pixtree_vit_small")` makes one of ours. Its tokens carry gradient histograms, which give texture to regions
larger than a patch [`alg:features`], and a position table of 16×16; the rest is timm's Vision Transformer of the same size. Names
with `paper` have the paper's tokenizer and budget (`Tokenizer.paper`).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from pixtree.models.downloads import check_download
from pixtree.models.retrofit import retrofit
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, paper_changes

GRADIENT_BINS, POSITION_BINS = 16, 16
SIZES = ("tiny", "small", "base")
NAMES = tuple(f"{system}_vit_{size}" for system in ("pixtree", "pixtree_paper") for size in SIZES)

# timm's registry looks here for what describes a model.
default_cfgs = timm.models.generate_default_cfgs(
    {name: {"input_size": (3, 224, 224), "num_classes": 1000, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5)} for name in NAMES}
)


def from_scratch(
    base: str,
    pretrained: bool = False,
    tokenizer: Any = None,
    position_resolution: int | None = POSITION_BINS,
    **options: Any,
) -> PixtreeViT:
    """A fresh model of timm's size `base`; arguments as in `retrofit`, others go to timm."""
    if pretrained:
        raise ValueError("models from scratch have no pretrained weights, got pretrained=True; retrofit a timm model instead")
    for key in ("pretrained_cfg", "pretrained_cfg_overlay", "cache_dir"):
        options.pop(key, None)
    if tokenizer is None or isinstance(tokenizer, Mapping):
        tokenizer = {"gradients": GRADIENT_BINS, **(tokenizer or {})}
    return retrofit(base, tokenizer=tokenizer, position_resolution=position_resolution, **options)


def paper_from_scratch(base: str, pretrained: bool = False, tokenizer: Any = None, **options: Any) -> PixtreeViT:
    """`from_scratch` with the paper's tokenizer; `tokenizer` may change its options by name. [`tab:config_imagelevel_pretrain`]"""
    if tokenizer is None or isinstance(tokenizer, Mapping):
        tokenizer = paper_changes(**(tokenizer or {}))
    if all(options.get(name) is None for name in ("tokens", "budget", "partitioner")):
        options["budget"] = PAPER_BUDGET
    return from_scratch(base, pretrained, tokenizer, **options)


def _registered(name: str, base: str) -> None:
    """Make `timm.create_model(name)` give a model from scratch of timm's size `base`."""
    make = paper_from_scratch if name.startswith("pixtree_paper") else from_scratch

    def create(pretrained: bool = False, **options: Any) -> PixtreeViT:
        return make(base, pretrained, **options)

    create.__name__ = name
    timm.models.register_model(create)


for _name in NAMES:
    _registered(_name, f"vit_{_name.rpartition('_')[2]}_patch16_224")


def named_model(name: str, weights: str | Path | None = None) -> Any:
    """A timm model by name, in `eval()`: with the weights of a .safetensors file, or with timm's, which are downloaded."""
    if weights is not None and not Path(weights).is_file():
        raise FileNotFoundError(f"expected a .safetensors file of weights, found none at {str(weights)!r}; check the path")
    if not timm.list_models(name.partition(".")[0]):
        raise ValueError(f"expected the name of a timm model, got {name!r}; timm.list_models lists them")
    if weights is None:
        check_download(name)
    model = timm.create_model(name, pretrained=weights is None).eval()
    if weights is not None:
        load_weights(model, name, Path(weights))
    return model


def load_weights(model: nn.Module, name: str, weights: Path) -> None:
    """Fill a model from a .safetensors file of any precision, or raise if the file belongs to another model."""
    from safetensors.torch import load_file

    try:
        model.load_state_dict({key: value.float() for key, value in load_file(weights).items()})
    except Exception as error:
        raise ValueError(f"expected the weights of {name} in {str(weights)!r}, got others; give the file of this model") from error
