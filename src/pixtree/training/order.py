"""The order of samples: which of them a step takes follows from seed and step alone, so that runs can be resumed and shared."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch


class Share(NamedTuple):
    """Which of how many processes this is; every one takes an equal part of each batch."""

    rank: int = 0
    ranks: int = 1

    def of(self, batch: int) -> int:
        """Samples of a batch that one process takes."""
        if batch % self.ranks:
            raise ValueError(
                f"expected a batch that {self.ranks} processes can share equally, got {batch}; take a multiple of {self.ranks}"
            )
        return batch // self.ranks


class Sample(NamedTuple):
    """A place in the data, and how often all of it was seen before."""

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
class Order:
    """Batches of `batch` samples out of `count`, every epoch in another order; epochs follow one another without a gap."""

    count: int
    batch: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or self.batch < 1:
            raise ValueError(f"expected at least one sample and one per batch, got {self.count} and {self.batch}; add images")

    def steps(self, epochs: float) -> int:
        """Steps that show every sample so many times."""
        return max(1, round(epochs * self.count / self.batch))

    def samples(self, step: int, share: Share = Share()) -> list[Sample]:
        """The samples of one process at a step."""
        own = share.of(self.batch)
        first = step * self.batch + share.rank * own
        return [Sample(number // self.count, self._place(number)) for number in range(first, first + own)]

    def _place(self, number: int) -> int:
        return int(_permutation(self.count, self.seed, number // self.count)[number % self.count])


@lru_cache(4)
def _permutation(count: int, seed: int, epoch: int) -> torch.Tensor:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed_of(seed, epoch)))


def parts(samples: list[Sample], size: int | None) -> Iterator[list[Sample]]:
    """Samples of a step in parts of at most `size`, whose gradients add up."""
    step = size or len(samples)
    for first in range(0, len(samples), step):
        yield samples[first : first + step]
