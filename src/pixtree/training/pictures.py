"""Pictures for training: timm's readers and transforms, seeded by sample, with damaged pictures passed over and counted."""

import logging
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pixtree.training.order import Order, Sample, Share, parts, seed_of

MOST_DAMAGED = 50  # pictures in a row, after which the data and not a picture is wrong
log = logging.getLogger("pixtree")


class Item(NamedTuple):
    """A batch, or one picture.

    images: (B, 3, H, W). classes: (B,), or shares of classes (B, K) of mixed pictures. damaged: how many pictures were passed over
    for each, (B,). keys: seeds of all that was random in each, (B,). labels: regions (B, H, W) int32, if they were cut already.
    """

    images: Tensor
    classes: Tensor
    damaged: Tensor
    keys: Tensor
    labels: Tensor | None = None


class Pictures(Dataset[Item]):
    """Pictures of a reader by sample; the transform's random numbers follow from seed, epoch and place."""

    def __init__(self, reader: Any, transform: Callable[[Image.Image], Tensor], seed: int = 0) -> None:
        self.reader, self.transform, self.seed = reader, transform, seed

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, sample: Sample) -> Item:
        """The picture of a sample, or the next one that can be read."""
        for passed in range(MOST_DAMAGED):
            place = (sample.place + passed) % len(self)
            try:
                source, target = self.reader[place]
                picture = Image.open(source).convert("RGB")
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
                log.warning("passed over a damaged picture, %s: %s", self.reader.filename(place), error)
                continue
            key = seed_of(self.seed, sample.epoch, place)
            seed_all(key)
            numbers = (-1 if target is None else target, passed, key)
            return Item(self.transform(picture), *(torch.tensor(number) for number in numbers))
        raise ValueError(f"expected pictures, could not read {MOST_DAMAGED} in a row from place {sample.place}; check the data")


class PictureBatches:
    """Batches of a training, read by `workers` processes; those of a step in parts of at most `part`, which `collate` makes."""

    def __init__(
        self,
        pictures: Pictures,
        order: Order,
        *,
        part: int | None = None,
        workers: int = 0,
        collate: Callable[[list[Item]], Item] | None = None,
    ) -> None:
        self.pictures, self.order, self.part, self.workers = pictures, order, part, workers
        self.collate = collate or together

    def starting(self, step: int, share: Share) -> Iterator[list[Item]]:
        """The batches of one process from a step on."""
        own = share.of(self.order.batch)
        each = -(-own // (self.part or own))  # parts per step
        loader = DataLoader(
            self.pictures,
            batch_sampler=_Parts(self.order, step, share, self.part),
            num_workers=self.workers,
            collate_fn=self.collate,
            pin_memory=torch.cuda.is_available(),
        )
        batches = iter(loader)
        while True:
            yield [next(batches) for _ in range(each)]


class _Parts:
    """The samples of all parts from a step on, for a data loader."""

    def __init__(self, order: Order, step: int, share: Share, part: int | None) -> None:
        self.order, self.step, self.share, self.part = order, step, share, part

    def __iter__(self) -> Iterator[list[Sample]]:
        step = self.step
        while True:
            yield from parts(self.order.samples(step, self.share), self.part)
            step += 1


def folder_reader(folder: str) -> Any:
    """timm's reader of a folder of pictures; folders inside it are classes."""
    from importlib import import_module
    from pathlib import Path

    from pixtree.models.timm_import import timm

    if not Path(folder).is_dir():
        raise FileNotFoundError(f"expected a folder of images, found none at {folder!r}; check the path")
    try:
        return import_module(f"{timm.__name__}.data.readers").create_reader("", folder)
    except RuntimeError:
        raise FileNotFoundError(f"expected images in {folder!r}, found none; check the folder") from None


def together(items: list[Item]) -> Item:
    """Pictures as a batch."""
    return Item(*(torch.stack(values) for values in zip(*(item[:4] for item in items), strict=True)))


def seed_all(seed: int) -> None:
    """Seed all generators that transforms draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002, since timm's transforms draw from it
    torch.manual_seed(seed)
