"""Weights of region encoders: saved as safetensors, shipped with the package, or converted from the authors' release."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import torch
from torch import Tensor

from pixtree.files import write_tensors
from pixtree.tokenizer.region_encoder import RegionEncoder
from pixtree.tokenizer.tokenizer import Options, region_encoder

SHIPPED = "pretrained.safetensors"
COMPARED = "compared"  # how many features the distance compares; absent in files of version 0.1
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RELEASE_OPTIONS = Options().changed(
    decision="features",
    similarity="gaussian",
    aggregation="mean",
    kernel="gaussian",
    compactness=0.0,
    activation=True,
    corners=True,
)


@dataclass(frozen=True)
class Weights:
    """Tensors of a region encoder by name, and metadata about them."""

    tensors: Mapping[str, Tensor]
    about: Mapping[str, str]

    def into(self, regions: RegionEncoder) -> None:
        """Copy the tensors into an encoder with the same options; those of version 0.1 are turned first, see `turned`."""
        own, compared, lift = regions.state_dict(), regions.decision.compared, self.tensors.get("encoder.residual.weight")
        kept = self.about.get(COMPARED)
        if kept is not None and kept != str(compared):
            raise ValueError(f"these weights compare {kept} features and the encoder {compared}; create it with compared={kept}")
        if kept is None and lift is not None and compared is not None and compared < len(lift):
            turned(self, compared).into(regions)
            return
        wrong = [
            f"{name} {tuple(own[name].shape) if name in own else 'missing'} against {tuple(tensor.shape)}"
            for name, tensor in self.tensors.items()
            if name not in own or own[name].shape != tensor.shape
        ]
        missing = [name for name in own if name not in self.tensors]
        if wrong or missing:
            raise ValueError(
                f"weights must fit the encoder, got {', '.join([*wrong, *(f'no {name}' for name in missing)])}; "
                "keep the options that these weights were trained with"
            )
        regions.load_state_dict(dict(self.tensors))


def turned(weights: Weights, compared: int) -> Weights:
    """Weights whose distance compares `compared` of the d features, from weights of version 0.1, which compared all of them.

    A turn of the features: W f*, and distances over all of them, stay the same. The span of A's columns comes first, nearest to
    the axes of colour; there features start, and training with means leaves them next to nothing outside. The likelihood counts a
    channel as often as there are such, so w grows by d / compared.
    """
    tensors, lift = dict(weights.tensors), weights.tensors["encoder.residual.weight"].flatten(1).to(torch.float64)
    left, _, right = torch.linalg.svd(lift)
    channels = lift.shape[1]
    turn = torch.cat((right.T @ left[:, :channels].T, left[:, channels:].T)).to(torch.float32)
    for layer in ("residual", "second"):
        for part in ("weight", "bias"):
            name = f"encoder.{layer}.{part}"
            if name in tensors:
                tensors[name] = torch.tensordot(turn, tensors[name], dims=1)
    tensors["colour.weight"] = tensors["colour.weight"] @ turn.T
    if "decision.value" in tensors:
        growth = len(lift) / compared
        tensors["decision.value"] = torch.log(torch.expm1(growth * torch.nn.functional.softplus(tensors["decision.value"])))
    return Weights(tensors, {**weights.about, COMPARED: str(compared)})


def save_weights(regions: RegionEncoder, path: str | Path, about: Mapping[str, str] | None = None) -> None:
    """Write an encoder's tensors as safetensors, whole or not at all."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in regions.state_dict().items()}
    write_tensors(path, tensors, {**(about or {}), COMPARED: str(regions.decision.compared)})


def load_weights(path: str | Path) -> Weights:
    """Read what `save_weights` wrote."""
    from safetensors import SafetensorError, safe_open

    if not Path(path).is_file():
        raise FileNotFoundError(f"expected weights as .safetensors, found no file {str(path)!r}; check the path")
    try:
        with safe_open(path, framework="pt") as file:
            return Weights({name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {})  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"expected weights as .safetensors, got {str(path)!r} ({error}); save them again") from None


def shipped_weights() -> Weights:
    """The weights inside the package."""
    return load_weights(Path(str(files("pixtree.tokenizer") / SHIPPED)))


def from_release(state: Mapping[str, Tensor], backend: str = "auto") -> RegionEncoder:
    """The authors' released encoder (`r2v.pth`, an ordered dict of tensors) in our engine.

    Batch norms and ImageNet's mean and deviation, which it expects its images normalised by, are folded into the convolutions and
    W, so that it maps values in 0..1 to colours in 0..1. Left out are `varproj` (a region may pick itself there) and the gradient
    operator, which has no trained part.
    """
    needed = [f"conv.{name}.{part}" for name in ("ds.0", "ds.1", "cv.0", "cv.1", "cv.3", "cv.4") for part in ("weight", "bias")]
    missing = [name for name in [*needed, "linear.weight", "linear.bias"] if name not in state]
    if missing:
        raise ValueError(f"expected the tensors of a released tokenizer, got none called {', '.join(missing)}; load r2v.pth")
    lift, first = state["conv.ds.0.weight"], state["conv.cv.0.weight"]
    features, channels = lift.shape[:2]
    options = RELEASE_OPTIONS.changed(channels=channels, features=features, hidden=first.shape[0], kernel_size=first.shape[2])
    regions = region_encoder(options, backend)
    mean, std = torch.tensor(IMAGENET_MEAN), torch.tensor(IMAGENET_STD)
    tensors = {
        "colour.weight": state["linear.weight"] * std[:, None],
        "colour.bias": state["linear.bias"] * std + mean,
        "similarity.log_sigma": torch.tensor(0.5).log() / 2,  # the release's κ is exp(−‖Δ‖²), so σ² = ½
    }
    for ours, convolution, norm in (("residual", "ds.0", "ds.1"), ("first", "cv.0", "cv.1"), ("second", "cv.3", "cv.4")):
        weight, bias = folded(state, f"conv.{convolution}", f"conv.{norm}")
        if ours != "second":
            weight = weight / std[:, None, None]
            bias = bias - (weight * mean[:, None, None]).sum((1, 2, 3))
        tensors[f"encoder.{ours}.weight"], tensors[f"encoder.{ours}.bias"] = weight, bias
    Weights(tensors, {}).into(regions)
    return regions


def folded(state: Mapping[str, Tensor], convolution: str, norm: str, epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution followed by a batch norm in evaluation, as one convolution."""
    scale = state[f"{norm}.weight"] / torch.sqrt(state[f"{norm}.running_var"] + epsilon)
    weight = state[f"{convolution}.weight"] * scale[:, None, None, None]
    bias = (state[f"{convolution}.bias"] - state[f"{norm}.running_mean"]) * scale + state[f"{norm}.bias"]
    return weight, bias
