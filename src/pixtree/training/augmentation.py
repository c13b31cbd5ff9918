"""Augmentation: timm's policies and crops for one image, mixtures for a batch."""

import copy
import random
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from pixtree.evaluation.label_maps import IGNORED
from pixtree.models.overlap import cutter
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.training.batches import Item, seed_all, together
from pixtree.training.recipe import Augment

Transform = Callable[[Image.Image], Tensor]
MOVING = ("Rotate", "Shear", "Translate")  # beginnings of the names of timm's operations that move pixels
_data = import_module(f"{timm.__name__}.data")


class OneOf:
    """A transform that draws one of several for every image."""

    def __init__(self, transforms: list[Transform]) -> None:
        self.transforms = transforms

    def __call__(self, image: Image.Image) -> Tensor:
        """The image, changed by one of them."""
        return random.choice(self.transforms)(image)


def training_transform(augment: Augment, size: int, config: Mapping[str, Any]) -> Transform:
    """Crops, flips and policies of a recipe, for the model with timm's `config`."""
    made = _made(augment, size, config)
    return made[0] if len(made) == 1 else OneOf(made)


def _made(augment: Augment, size: int, config: Mapping[str, Any], **more: Any) -> list[Any]:
    """timm's transform for each of the policies."""
    return [
        _data.create_transform(
            size,
            is_training=True,
            scale=augment.scale,
            ratio=augment.ratio,
            color_jitter=augment.color_jitter or None,
            auto_augment=policy,
            **_reading(config),
            **more,
        )
        for policy in augment.policies or (None,)
    ]


class LabelledChanges:
    """Policies and colour jitter of a recipe for a crop and its label map: both are moved alike.

    The label map goes through the policy of its image again, from the same random numbers, with nearest neighbours and IGNORED
    where no pixel is left; changes of colour leave it alone.
    """

    def __init__(self, augment: Augment, size: int, config: Mapping[str, Any]) -> None:
        self.images = [stages[1] for stages in _made(augment, size, config, separate=True)]
        self.maps = [_for_labels(one) for one in self.images]

    def __call__(self, image: Tensor, truth: Tensor, key: int) -> tuple[Tensor, Tensor]:
        """An image (3, H, W) in 0..1 and its classes (H, W), both changed; the key is the seed."""
        pixels = Image.fromarray((image * 255).round().to(torch.uint8).permute(1, 2, 0).numpy())
        labels = Image.fromarray(truth.to(torch.uint8).numpy())
        found = []
        for given, transforms in ((pixels, self.images), (labels, self.maps)):
            seed_all(key)
            found.append(torch.from_numpy(np.array(random.choice(transforms)(given))))
        return found[0].permute(2, 0, 1).float() / 255, found[1].to(torch.int64)


def _for_labels(transform: Any) -> Any:
    """The transform of a label map that follows an image's."""
    policies = [copy.deepcopy(one) for one in transform.transforms if hasattr(one, "ops") or hasattr(one, "policy")]
    for policy in policies:
        for operation in policy.ops if hasattr(policy, "ops") else [one for some in policy.policy for one in some]:
            if operation.name.startswith(MOVING):
                operation.kwargs = {"resample": Image.Resampling.NEAREST, "fillcolor": IGNORED}
            else:
                operation.aug_fn = lambda image, *levels, **more: image
    return type(transform)(policies)


def plain_transform(size: int, config: Mapping[str, Any]) -> Transform:
    """The middle of an image, as timm evaluates the model."""
    made: Transform = _data.create_transform(size, crop_pct=config.get("crop_pct", 0.9), **_reading(config))
    return made


def _reading(config: Mapping[str, Any]) -> dict[str, Any]:
    return {"mean": config["mean"], "std": config["std"], "interpolation": config.get("interpolation", "bicubic")}


def mixture_of(augment: Augment, classes: int, smoothing: float) -> Any:
    """timm's mixup and cutmix, which also smooth the labels; None if the recipe has neither."""
    if not augment.mixup and not augment.cutmix:
        return None
    return _data.Mixup(augment.mixup, augment.cutmix, label_smoothing=smoothing, num_classes=classes)


class Mixed:
    """Images of a data loader as a batch: mixed, and cut if the encoder is frozen; the samples are the seed."""

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
