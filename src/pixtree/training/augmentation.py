"""Random changes of pictures while training: timm's policies and crops for one picture, mixtures for a batch."""

import random
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from pixtree.models.overlap import cutter
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.training.pictures import Item, seed_all, together
from pixtree.training.recipe import Augment

Transform = Callable[[Image.Image], Tensor]
_data = import_module(f"{timm.__name__}.data")


class OneOf:
    """A transform that draws one of several for every picture."""

    def __init__(self, transforms: list[Transform]) -> None:
        self.transforms = transforms

    def __call__(self, picture: Image.Image) -> Tensor:
        """The picture, changed by one of them."""
        return random.choice(self.transforms)(picture)


def training_transform(augment: Augment, size: int, config: Mapping[str, Any]) -> Transform:
    """Crops, flips and policies of a recipe, for pictures as the model with timm's `config` takes them."""
    made = [
        _data.create_transform(
            size,
            is_training=True,
            scale=augment.scale,
            ratio=augment.ratio,
            color_jitter=augment.color_jitter or None,
            auto_augment=policy,
            **_reading(config),
        )
        for policy in augment.policies or (None,)
    ]
    return made[0] if len(made) == 1 else OneOf(made)


def plain_transform(size: int, config: Mapping[str, Any]) -> Transform:
    """The middle of a picture, as timm evaluates the model."""
    made: Transform = _data.create_transform(size, crop_pct=config.get("crop_pct", 0.9), **_reading(config))
    return made


def _reading(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"mean": config["mean"], "std": config["std"], "interpolation": config.get("interpolation", "bicubic")}


def mixture_of(augment: Augment, classes: int, smoothing: float) -> Any:
    """timm's mixup and cutmix, which also smooth the labels; None where the recipe has neither."""
    if not augment.mixup and not augment.cutmix:
        return None
    return _data.Mixup(augment.mixup, augment.cutmix, label_smoothing=smoothing, num_classes=classes)


class Mixed:
    """Pictures of a data loader as a batch: mixed, and cut if the encoder is frozen; what is random follows from the samples."""

    def __init__(self, mixture: Any = None, model: PixtreeViT | None = None) -> None:
        self.mixture, self.cutter = mixture, None if model is None else cutter(model).cpu()

    def __call__(self, items: list[Item]) -> Item:
        """The batch."""
        batch = together(items)
        if self.mixture is not None:
            seed_all(int(batch.keys[0]))
            images, classes = self.mixture(batch.images, batch.classes)
            batch = batch._replace(images=images, classes=classes)
        if self.cutter is not None:
            with torch.no_grad():
                batch = batch._replace(labels=self.cutter.partition(batch.images).labels)
        return batch
