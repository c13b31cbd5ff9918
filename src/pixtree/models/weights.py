"""The weights of a timm model: timm's own, or those of a file."""

from pathlib import Path
from typing import Any

from torch import nn

from pixtree.models.timm_import import timm


def named_model(name: str, weights: str | Path | None = None) -> Any:
    """A model of timm by name, in `eval()`: with the weights of a .safetensors file, or with timm's, which are downloaded."""
    if weights is not None and not Path(weights).is_file():
        raise FileNotFoundError(f"expected a .safetensors file of weights, found none at {str(weights)!r}; check the path")
    if not timm.list_models(name.partition(".")[0]):
        raise ValueError(f"expected the name of a model of timm, got {name!r}; timm.list_models lists them")
    model = timm.create_model(name, pretrained=weights is None).eval()
    if weights is not None:
        load_weights(model, name, Path(weights))
    return model


def load_weights(model: nn.Module, name: str, weights: Path) -> None:
    """Fill a model from a .safetensors file of any precision, or say that the file is another model's."""
    from safetensors.torch import load_file

    try:
        model.load_state_dict({key: value.float() for key, value in load_file(weights).items()})
    except Exception as error:
        raise ValueError(f"expected the weights of {name} in {str(weights)!r}, got others; give the file of this model") from error
