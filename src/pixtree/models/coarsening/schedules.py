"""Schedules: how many tokens are left after each block, fitted to a share of the model's compute."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

STEPS = 40  # of bisection: far below one token


@dataclass(frozen=True)
class Schedule:
    """Which share of its tokens a model has left after each block, from 1 down; a block keeps at least half of what it gets."""

    shares: tuple[float, ...]

    @classmethod
    def of_counts(cls, counts: Sequence[int], tokens: int) -> "Schedule":
        """The schedule that leaves these counts of `tokens` after each block."""
        before = tokens
        for number, count in enumerate(counts):
            if not halved(before) <= count <= before:
                raise ValueError(
                    f"a block keeps between half and all of its tokens, got {before} before block {number} and {count} after it; "
                    f"choose {halved(before)} to {before}"
                )
            before = count
        return cls(tuple(count / tokens for count in counts))

    def counts(self, tokens: int) -> tuple[int, ...]:
        """Tokens after each block, for images with `tokens` tokens."""
        found, before = [], tokens
        for share in self.shares:
            before = min(before, max(halved(before), round(share * tokens)))
            found.append(before)
        return tuple(found)


class Shape(Protocol):
    """A family of schedules: `strength` 0 merges nothing, 1 as much as can be."""

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""
        ...


@dataclass(frozen=True)
class ConstantShare:
    """Every block from `first` on keeps the same share of its tokens."""

    first: int = 2

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""
        kept = 1.0 - 0.5 * strength
        return _counts([tokens * kept ** max(0, number - self.first + 1) for number in range(depth)], tokens)


@dataclass(frozen=True)
class ConstantNumber:
    """Every block from `first` on merges the same number of tokens: ToMe's constant r."""

    first: int = 0

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""
        merged = 0.5 * strength * tokens
        return _counts([tokens - merged * max(0, number - self.first + 1) for number in range(depth)], tokens)


@dataclass(frozen=True)
class DecreasingNumber:
    """The number of merged tokens falls linearly from block `first` to 0 after the last: ToMe's decreasing schedule."""

    first: int = 0

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""
        left, found = float(tokens), []
        for number in range(depth):
            if number >= self.first:
                left -= 0.5 * strength * tokens * (depth - number) / (depth - self.first)
            found.append(left)
        return _counts(found, tokens)


def default_shape(compute: float, depth: int) -> ConstantShare:
    """What `coarsen` takes: merging starts after a quarter of the blocks, earlier where less compute is left.

    Chosen on photos of imagenet_sample, see docs/results.md; `best_schedule` looks for a model's own.
    """
    start = 1 / 4 if compute >= 0.6 else 1 / 6 if compute >= 0.45 else 1 / 12 if compute >= 0.38 else 0.0
    return ConstantShare(round(start * depth))


def fitted(shape: Shape, tokens: int, depth: int, cost: Callable[[Sequence[int]], float], goal: float) -> Schedule:
    """The schedule of a shape with the highest cost up to `goal`; `cost` gives a share of the untouched model's."""
    least, most = 0.0, 1.0
    if cost(shape(least, tokens, depth)) <= goal:
        return Schedule.of_counts(shape(least, tokens, depth), tokens)
    lowest = cost(shape(most, tokens, depth))
    if lowest > goal:
        raise ValueError(f"{shape} needs at least {lowest:.3f} of the model's compute, got {goal}; ask for more or merge earlier")
    for _ in range(STEPS):
        middle = 0.5 * (least + most)
        least, most = (middle, most) if cost(shape(middle, tokens, depth)) > goal else (least, middle)
    return Schedule.of_counts(shape(most, tokens, depth), tokens)


def halved(tokens: int) -> int:
    """The fewest tokens that one block leaves."""
    return math.ceil(tokens / 2)


def _counts(wanted: Sequence[float], tokens: int) -> tuple[int, ...]:
    """Whole counts, falling, and never below half of the count before."""
    return Schedule(tuple(max(0.0, value) / tokens for value in wanted)).counts(tokens)
