"""What models say of pictures: logits or features of several models, from one pass over the data."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pixtree.evaluation.labelled_pictures import LabelledPicture, LabelledPictures
from pixtree.models.coarsening import CoarseViT
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT

BATCH = 50
Say = Callable[[Any, Tensor], Tensor]  # a model and its images (B, C, H, W) -> (B, numbers)


class Reading(NamedTuple):
    """How pictures are read: how many at a time, by how many processes, and the device that models run on."""

    batch: int = BATCH
    workers: int = 0
    device: str = "cpu"


class Pictures(Dataset[Tensor]):
    """Pictures as a model takes them."""

    def __init__(self, pictures: Sequence[LabelledPicture], transform: Callable[[Image.Image], Tensor]) -> None:
        self.pictures, self.transform = pictures, transform

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, place: int) -> Tensor:
        path = self.pictures[place].path
        try:
            picture = Image.open(path).convert("RGB")
        except (OSError, ValueError, SyntaxError) as error:
            raise ValueError(f"expected a picture, could not read {path.name!r} ({error}); remove or replace it") from None
        return self.transform(picture)


def image_side(model: Any) -> int:
    """The side in pixels that a model's images have."""
    if isinstance(model, PixtreeViT | CoarseViT):
        return int(model.image_size[0])
    return int(model.patch_embed.img_size[0])


def transform_for(model: Any, side: int | None = None) -> Callable[[Image.Image], Tensor]:
    """timm's own preprocessing of a model at evaluation, at its own size or another: resize, centre crop, normalise."""
    size = (3, side or image_side(model), side or image_side(model))
    config = timm.data.resolve_data_config({"input_size": size}, pretrained_cfg=model.pretrained_cfg)
    transform: Callable[[Image.Image], Tensor] = timm.data.create_transform(**config, is_training=False)
    return transform


@torch.no_grad()
def logits(model: Any, images: Tensor) -> Tensor:
    """Logits (B, classes)."""
    found: Tensor = model(images)
    return found


@torch.no_grad()
def features(model: Any, images: Tensor) -> Tensor:
    """What the classifier reads, (B, D)."""
    found: Tensor
    if isinstance(model, PixtreeViT):
        tokens = model.tokens(images)
        found = model.forward_head(model.backbone.features(model.sequence(tokens)), pre_logits=True, seen=tokens.sequence_mask())
    else:
        found = model.forward_head(model.forward_features(images), pre_logits=True)
    return found


def said(
    models: Sequence[Any],
    data: LabelledPictures,
    say: Say = logits,
    *,
    reading: Reading = Reading(),
    side: int | None = None,
    report: Callable[[int], None] = lambda count: None,
) -> list[Tensor]:
    """Per model what it says of all pictures, (N, numbers) float32; the pictures are prepared once, for the first model.

    report: called with the number of pictures of every batch, once all models have seen it.
    """
    found: list[list[Tensor]] = [[] for _ in models]
    ready = [model.eval().to(reading.device) for model in models]
    for images in _batches(data, transform_for(models[0], side), reading):
        for model, parts in zip(ready, found, strict=True):
            parts.append(say(model, images).to("cpu", torch.float32))
        report(len(images))
    return [torch.cat(parts) for parts in found]


def _batches(data: LabelledPictures, transform: Callable[[Image.Image], Tensor], reading: Reading) -> Iterator[Tensor]:
    loader = DataLoader(Pictures(data.pictures, transform), batch_size=reading.batch, num_workers=reading.workers)
    for images in loader:
        yield images.to(reading.device, non_blocking=True)
