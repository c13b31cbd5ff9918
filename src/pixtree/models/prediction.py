"""From any image to classes: paths, PIL images, arrays and tensors through a model's own preprocessing, and its best classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pixtree.images import Image, checked
from pixtree.models.timm_import import timm

SHOWN = 8  # images in a printed result


@dataclass(frozen=True, eq=False)
class Predictions:
    """The best classes of every image, best first.

    classes: (B, k) int64. probabilities: (B, k) float32. names: per image k names; None where the model does not know them.
    """

    classes: Tensor
    probabilities: Tensor
    names: list[list[str]] | None = None

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        lines = []
        for index in range(min(len(self), SHOWN)):
            words = self.names[index] if self.names is not None else [f"class {number}" for number in self.classes[index].tolist()]
            shares = self.probabilities[index].tolist()
            lines.append(", ".join(f"{word} {share:.1%}" for word, share in zip(words, shares, strict=True)))
        more = len(self) - len(lines)
        return "\n".join([*lines, f"and {more} more"] if more else lines)


@torch.no_grad()
def predict(model: Any, images: Image | Sequence[Image], top: int = 5, **reading: Any) -> Predictions:
    """The `top` classes of one image or several, each in any form; `reading` are options of `pixtree.images.checked`."""
    if model.num_classes < 1:
        raise ValueError("predict needs a classifier, this model has none; call reset_classifier first, or use forward_features")
    if not 1 <= top <= model.num_classes:
        raise ValueError(f"this model has {model.num_classes} classes, got top={top}; ask for 1 to {model.num_classes}")
    batch = prepared(model, images, **reading)
    was = model.training
    try:
        logits = model.eval()(batch.to(next(model.parameters())))
    finally:
        model.train(was)
    best = logits.to(torch.float32).softmax(dim=1).topk(top, dim=1)
    known = class_names(model)
    names = None if known is None else [[known[number] for number in row] for row in best.indices.tolist()]
    return Predictions(best.indices.cpu(), best.values.cpu(), names)


def prepared(model: Any, images: Image | Sequence[Image], **reading: Any) -> Tensor:
    """Images in any form as the timm model wants them: resized, cropped and normalised, (B, C, H, W)."""
    transform, channels = evaluation_transform(model), int(model.in_channels)
    return torch.stack([transform(_for_timm(image, channels)) for image in _checked(images, reading)])


def evaluation_transform(model: Any) -> Any:
    """timm's own preprocessing of the model at evaluation, at the size that `set_input_size` chose."""
    config = timm.data.resolve_data_config(
        {"input_size": (model.in_channels, *model.image_size)}, pretrained_cfg=model.pretrained_cfg
    )
    return timm.data.create_transform(**config, is_training=False)


def class_names(model: Any) -> list[str] | None:
    """The names of a model's classes: those of its config, or ImageNet's where its classifier is that of the pretrained model."""
    config = model.pretrained_cfg or {}
    if config.get("label_names"):
        names = list(config["label_names"])
        return names if len(names) == model.num_classes else None
    if config.get("num_classes") != model.num_classes:
        return None
    subset = timm.data.infer_imagenet_subset(config)
    if subset is None:
        return None
    info = timm.data.ImageNetInfo(subset)
    return [info.index_to_description(number).partition(",")[0] for number in range(model.num_classes)]


def _checked(images: Any, reading: dict[str, Any]) -> list[Tensor]:
    """Every image (C, H, W), checked."""
    if isinstance(images, list | tuple):
        if not images:
            raise ValueError("predict needs at least 1 image, got an empty list; pass some")
        return [one for image in images for one in _checked(image, reading)]
    read = checked(images, **reading)
    return list(read) if read.ndim == 4 else [read]


def _for_timm(image: Tensor, channels: int) -> Any:
    """An image (C, H, W) as timm's transform takes it: with three channels a PIL image, as in training, else a float tensor."""
    if image.shape[0] == 1:
        image = image.expand(channels, -1, -1)
    if image.shape[0] != channels:
        raise ValueError(f"this model takes images of {channels} channels, got {image.shape[0]}; choose as many")
    if channels != 3:
        return image.to(torch.float32) / (255.0 if image.dtype == torch.uint8 else 1.0)
    import PIL.Image

    pixels = image if image.dtype == torch.uint8 else (image * 255.0).round().to(torch.uint8)
    return PIL.Image.fromarray(pixels.permute(1, 2, 0).cpu().numpy())  # CHW -> HWC
