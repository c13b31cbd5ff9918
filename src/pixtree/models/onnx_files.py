"""ONNX files of coarsened and of retrofitted models: plain operators of ONNX, so that no other runtime needs pixtree."""

from copy import deepcopy
from dataclasses import is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.files import replacing
from pixtree.models.coarsening.coarse_vit import CoarseViT
from pixtree.models.entry import token_count
from pixtree.models.huggingface.coarse_tower import CoarseTower
from pixtree.models.huggingface.wrappers import tower_of, with_tower
from pixtree.models.region_input import RegionInput
from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.tokenizer import check_aggregation
from pixtree.trees.partition import Partition

INPUT, LABELS, OUTPUT = "images", "labels", "outputs"


def export_onnx(model: nn.Module, path: str | Path) -> None:
    """Write a coarsened model or a retrofit of a timm model as an ONNX file, whole or not at all.

    The input is images (B, C, H, W) with any B and the model's H and W, normalised as for the model. A retrofit has a second one,
    labels (B, H, W) int32: the regions of its images, as `model.partition(images).labels` gives them; trees stay outside the file.
    The output is the logits of a model with a classifier, else `last_hidden_state`. Merging is exported as it is defined in plain
    torch, which gives the labels of the compiled kernels. A block that merges takes about 20 seconds of processor time.
    """
    check_exportable(model)
    try:
        import_module("onnx")
        import_module("onnxscript")
    except ImportError as error:
        raise ImportError(f"ONNX files need onnx and onnxscript ({error}); run pip install 'pixtree[onnx]'") from None
    images = torch.zeros(2, *_shape(model), dtype=next(model.parameters()).dtype)
    inputs: dict[str, Tensor] = {INPUT: images}
    if isinstance(model, PixtreeViT):
        plain: nn.Module = _OfRegions(model)
        inputs[LABELS] = torch.zeros(2, *images.shape[2:], dtype=torch.int32)
    else:
        plain = _Tensors(_in_plain_torch(model))
    batch = torch.export.Dim("batch")
    with torch.no_grad():
        program: Any = torch.onnx.export(
            plain.eval(),
            tuple(inputs.values()),
            dynamo=True,
            verbose=False,
            input_names=list(inputs),
            output_names=[OUTPUT],
            dynamic_shapes=tuple({0: batch} for _ in inputs),
        )
    with replacing(path) as temporary:
        program.save(str(temporary))


def check_exportable(model: nn.Module) -> None:
    """Refuse a model that has no ONNX form, with the reason and before any work."""
    name = type(model).__name__
    if isinstance(model, PixtreeViT):
        token_count(model)  # refuses counts that differ between images
        check_aggregation(model.tokenizer.options, "an ONNX file's second input")
        return
    held: Any = (
        model if isinstance(model, CoarseViT) else next((one for one in model.modules() if isinstance(one, CoarseTower)), None)
    )
    if any(isinstance(one, RegionInput) for one in (getattr(held, "model", None), *model.modules())):
        raise ValueError(
            f"{name} cannot be written as ONNX: only retrofits of timm models without merging take regions as a second input; "
            "export one of these, or coarsen the model with its patches"
        )
    if held is None:
        raise ValueError(f"{name} is not coarsened; call pixtree.coarsen first, or torch.onnx.export for the model itself")
    if not is_dataclass(held.rule) or not hasattr(held.rule, "backend"):
        raise ValueError(f"only the rules tree and atc have an ONNX form, got {type(held.rule).__name__}; coarsen with one")
    if isinstance(held, CoarseTower) and held.final is not None:
        raise ValueError("final_tokens= has no ONNX form, got a tower with it; export one that was coarsened with schedule=")


def _shape(model: nn.Module) -> tuple[int, int, int]:
    """C, H and W of the images that a model takes."""
    if isinstance(model, CoarseViT | PixtreeViT):
        return model.in_channels, *model.image_size
    trunk = tower_of(model).vit
    return int(trunk.projection.in_channels), *trunk.image_size


def _in_plain_torch(model: nn.Module) -> Any:
    """The same model, its weights shared, with merges as they are defined: kernels of one processor have no ONNX form."""
    if isinstance(model, CoarseViT):
        return CoarseViT(model.model, model.schedule, _plain(model.rule), model.input_size)
    for path, one in model.named_modules():
        if isinstance(one, CoarseTower):
            tower = CoarseTower(one.model, one.kind, one.schedule, _plain(one.rule), one.readers)
            return with_tower(model, path, tower)
    raise AssertionError("checked above")


def _plain(rule: Any) -> Any:
    return replace(rule, backend="torch")


class _Tensors(nn.Module):
    """A model that returns a tensor: logits, or the last hidden state."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Logits (B, classes), or tokens (B, K + N, D)."""
        found = self.model(images)
        result: Tensor = found if isinstance(found, Tensor) else found["logits" if "logits" in found else "last_hidden_state"]
        return result


class _OfRegions(nn.Module):
    """A retrofit as a function of images and labels, by the definitions of its kernels; its weights are copied."""

    def __init__(self, model: PixtreeViT) -> None:
        super().__init__()
        self.model, self.count = deepcopy(model), token_count(model)
        for module in self.model.modules():
            if isinstance(getattr(module, "backend", None), str):
                setattr(module, "backend", "torch")  # noqa: B010, since modules hold it untyped

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """Logits (B, classes)."""
        logits: Tensor = self.model(images, Partition.known(labels, (self.count, True)))
        return logits
