"""The batches of training runs: which samples a step takes, and everything random in them, follows from seed and step alone.

So runs can be resumed and shared among processes. Damaged images are skipped and counted.
"""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pixtree.images import checked
from pixtree.runtime.processes import Share as Share

DECODED = 256  # images kept in memory by `colour_image`
MOST_DAMAGED = 50  # images in a row, after which the data and not an image is at fault
T = TypeVar("T")
log = logging.getLogger("pixtree")


class Batches(Protocol):
    """The data of a training run, by step."""

    def starting(self, step: int, share: Share) -> Iterator[list[Any]]:
        """From a step on, the micro-batches of each step of one process; their gradients are averaged over samples."""
        ...


class Sample(NamedTuple):
    """A place in the data, and how many epochs came before."""

    epoch: int
    place: int


def seed_of(*numbers: int) -> int:
    """A seed of 63 bits from a few numbers, which changes with every one of them."""
    found = 0
    for number in numbers:
        found = (found ^ (number & 0xFFFFFFFFFFFFFFFF)) * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF
        found ^= found >> 31
    return found >> 1


@dataclass(frozen=True)
class SampleOrder:
    """Batches of `batch` samples out of `count`, every epoch in another order; epochs follow one another without a gap."""

    count: int
    batch: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or self.batch < 1:
            raise ValueError(f"expected at least one sample and one per batch, got {self.count} and {self.batch}; add images")

    def steps(self, epochs: float) -> int:
        """The number of steps of this many epochs."""
        return max(1, round(epochs * self.count / self.batch))

    def samples(self, step: int, share: Share = Share()) -> list[Sample]:
        """The samples of one process at a step."""
        own = share.of(self.batch)
        first = step * self.batch + share.rank * own
        return [Sample(number // self.count, self._place(number)) for number in range(first, first + own)]

    def _place(self, number: int) -> int:
        return int(_permutation(self.count, self.seed, number // self.count)[number % self.count])


@lru_cache(4)
def _permutation(count: int, seed: int, epoch: int) -> Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed_of(seed, epoch)))


def micro_batches(samples: list[Sample], size: int | None) -> Iterator[list[Sample]]:
    """The samples of a step in micro-batches of at most `size`, whose gradients add up."""
    step = size or len(samples)
    for first in range(0, len(samples), step):
        yield samples[first : first + step]


class Item(NamedTuple):
    """A batch, or one image.

    images: (B, 3, H, W). classes: (B,), or shares of classes (B, K) of mixed images. damaged: how many images were skipped before
    each, (B,). keys: seeds of everything random in each, (B,). labels: regions (B, H, W) int32, if they were cut already.
    """

    images: Tensor
    classes: Tensor
    damaged: Tensor
    keys: Tensor
    labels: Tensor | None = None


def together(items: list[Item]) -> Item:
    """Images as a batch."""
    return Item(*(torch.stack(values) for values in zip(*(item[:4] for item in items), strict=True)))


def seed_all(seed: int) -> None:
    """Seed all generators that transforms draw from."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002, since timm's transforms draw from it
    torch.manual_seed(seed)


def first_readable(place: int, count: int, read: Callable[[int], T], name: Callable[[int], str]) -> tuple[T, int, int]:
    """What `read` finds at a place, or at the next one that can be read; that place, and how many were skipped."""
    for skipped in range(MOST_DAMAGED):
        own = (place + skipped) % count
        try:
            return read(own), own, skipped
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
            log.warning("skipped a damaged image, %s: %s", name(own), error)
    raise ValueError(f"expected images, could not read {MOST_DAMAGED} in a row from place {place}; check the data")


class Images(Dataset[Item]):
    """The images of a reader by sample; the transform's random numbers follow from seed, epoch and place."""

    def __init__(self, reader: Any, transform: Callable[[Image.Image], Tensor], seed: int = 0) -> None:
        self.reader, self.transform, self.seed = reader, transform, seed

    def __len__(self) -> int:
        return len(self.reader)

    def __getitem__(self, sample: Sample) -> Item:
        """The image of a sample, or the next one that can be read."""
        found, place, skipped = first_readable(sample.place, len(self), self._read, self.reader.filename)
        image, target = found
        key = seed_of(self.seed, sample.epoch, place)
        seed_all(key)
        numbers = (-1 if target is None else target, skipped, key)
        return Item(self.transform(image), *(torch.tensor(number) for number in numbers))

    def _read(self, place: int) -> tuple[Image.Image, int | None]:
        source, target = self.reader[place]
        return Image.open(source).convert("RGB"), target


class SampleBatches:
    """Batches of a data set that is indexed by `Sample`: processes read their own share of each without replacement.

    workers: processes that read for one process. micro_batch: the most samples at a time. collate: makes a batch of samples.
    """

    def __init__(
        self,
        samples: Dataset[Any],
        order: SampleOrder,
        *,
        micro_batch: int | None = None,
        workers: int = 0,
        collate: Callable[[list[Any]], Any] = together,
    ) -> None:
        self.samples, self.order, self.micro_batch, self.workers, self.collate = samples, order, micro_batch, workers, collate

    def starting(self, step: int, share: Share) -> Iterator[list[Any]]:
        """The micro-batches of one process from a step on."""
        own = share.of(self.order.batch)
        each = -(-own // (self.micro_batch or own))  # micro-batches per step
        loader = DataLoader(
            self.samples,
            batch_sampler=_MicroBatches(self.order, step, share, self.micro_batch),
            num_workers=self.workers,
            collate_fn=self.collate,
            pin_memory=torch.cuda.is_available(),
        )
        with reading_workers():
            batches = iter(loader)
            while True:
                yield [next(batches) for _ in range(each)]


@contextmanager
def reading_workers() -> Iterator[None]:
    """In this block, the death of a data worker raises one sentence."""
    try:
        yield
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        words = str(error).partition(". ")[0]
        raise OSError(f"expected data workers to live, one ended ({words}); use fewer workers, or look at its message") from error


class _MicroBatches:
    """The samples of all micro-batches from a step on, for a data loader."""

    def __init__(self, order: SampleOrder, step: int, share: Share, size: int | None) -> None:
        self.order, self.step, self.share, self.size = order, step, share, size

    def __iter__(self) -> Iterator[list[Sample]]:
        step = self.step
        while True:
            yield from micro_batches(self.order.samples(step, self.share), self.size)
            step += 1


class ByTokens:
    """The same batches in micro-batches of at most `most` tokens, padding included; an image with more is alone in its own.

    Images of similar counts go together. The samples of a step stay the same, so that the order of a run, its processes and its
    gradients do not depend on how they are divided. counts: the tokens (B,) of the images of a batch.
    """

    def __init__(self, batches: Batches, most: int, counts: Callable[[Item], Tensor]) -> None:
        self.batches, self.most, self.counts = batches, most, counts

    def starting(self, step: int, share: Share) -> Iterator[list[Item]]:
        """The micro-batches of one process from a step on."""
        for given in self.batches.starting(step, share):
            yield [piece for batch in given for piece in self._divided(batch)]

    def _divided(self, batch: Item) -> Iterator[Item]:
        counts = self.counts(batch).cpu()
        order = torch.sort(counts, descending=True, stable=True).indices
        first = 0
        while first < len(order):
            size = max(1, self.most // int(counts[order[first]]))
            chosen = order[first : first + size]
            yield Item._make(None if values is None else values[chosen] for values in batch)
            first += size


@lru_cache(DECODED)
def colour_image(path: Path) -> Tensor:
    """One image (3, H, W) uint8; grey ones get three equal channels."""
    image = checked(path)
    image = image if image.dtype == torch.uint8 else (image * 255.0).round().to(torch.uint8)
    return image.expand(3, -1, -1) if image.shape[0] == 1 else image[:3]


class Crops(Dataset[Tensor]):
    """A crop (3, size, size) uint8 per sample, as `cropped` makes it; its random numbers follow from seed, epoch and place."""

    def __init__(self, files: tuple[Path, ...], size: int, seed: int = 0) -> None:
        if size < 8:
            raise ValueError(f"expected crops of at least 8 pixels, got {size}; try 160")
        self.files, self.size, self.seed = files, size, seed

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, sample: Sample) -> Tensor:
        image, place, _ = first_readable(
            sample.place, len(self), lambda place: colour_image(self.files[place]), lambda place: self.files[place].name
        )
        return cropped(image, self.size, torch.Generator().manual_seed(seed_of(self.seed, sample.epoch, place)))


def cropped(image: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """A crop (3, size, size) uint8, zoomed out by up to 2 and flipped; images smaller than a crop are enlarged."""
    zoom, across, down, flip = torch.rand(4, generator=generator).tolist()
    height, width = image.shape[1:]
    side = min(round(size * (1.0 + zoom)), height, width)
    top, left = round(down * (height - side)), round(across * (width - side))
    piece = image[None, :, top : top + side, left : left + side].to(torch.float32)
    if side != size:
        piece = torch.nn.functional.interpolate(piece, (size, size), mode="bilinear", antialias=side > size)
    piece = piece[0].round().clamp(0, 255).to(torch.uint8)
    return piece.flip(2) if flip < 0.5 else piece


class RandomCrops:
    """Batches (B, 3, size, size) uint8 of crops of images that are drawn with replacement, as version 0.2 drew them."""

    def __init__(self, files: tuple[Path, ...], batch: int, size: int, seed: int = 0) -> None:
        if batch < 1 or size < 8:
            raise ValueError(
                f"expected a batch of at least 1 and crops of at least 8 pixels, got {batch} and {size}; try 4 and 160"
            )
        self.files, self.batch, self.size, self.seed = files, batch, size, seed

    def __getitem__(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        chosen = torch.randint(len(self.files), (self.batch,), generator=generator).tolist()
        return torch.stack([cropped(colour_image(self.files[number]), self.size, generator) for number in chosen])

    def starting(self, step: int, share: Share) -> Iterator[list[Tensor]]:
        """The batches of one process from a step on; processes take equal shares of each."""
        own = share.of(self.batch)
        while True:
            yield [self[step][share.rank * own :][:own]]
            step += 1
