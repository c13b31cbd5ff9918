"""Schedules: how many tokens are left after each block, fitted to a share of the model's compute; and how compute is counted."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import nn

from pixtree.models.adapters import pools_prefix
from pixtree.models.coarsening.rules import Rule

HALF = 0.5  # of the model's compute, unless asked otherwise
STEPS = 40  # of bisection: far below one token
ENOUGH_BLOCKS, LEAST_SKIPPING = 9, 0.45  # blocks of a model and share of its compute, for merging in every second block


@dataclass(frozen=True)
class Schedule:
    """The share of its tokens that a model has left after each block, from 1 down; a block keeps at least half of its input."""

    shares: tuple[float, ...]

    @classmethod
    def of_counts(cls, counts: Sequence[int], tokens: int) -> "Schedule":
        """The schedule that leaves these counts of `tokens` after each block."""
        before = tokens
        for number, count in enumerate(counts):
            if not halved(before) <= count <= before:
                raise ValueError(
                    f"block {number} keeps between half and all of {before} tokens, got {count}; "
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
    """A family of schedules: `strength` 0 merges nothing, 1 as much as possible."""

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""


@dataclass(frozen=True)
class ConstantShare:
    """Every block from `first` on, or every so manieth, keeps the same share of its tokens."""

    first: int = 2
    every: int = 1

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""
        kept = 1.0 - 0.5 * strength
        merges = [max(0, (number - self.first) // self.every + 1) for number in range(depth)]
        return _counts([tokens * kept**number for number in merges], tokens)

    def __repr__(self) -> str:
        return f"ConstantShare(first={self.first}{'' if self.every == 1 else f', every={self.every}'})"


@dataclass(frozen=True)
class EarlyShare:
    """Every block from `first` on keeps a share of its tokens; the three blocks after the first merge more than the others."""

    first: int = 2

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""
        kept, total, wanted = 1.0 - 0.5 * strength, 0.0, []
        for number in range(depth):
            since = number - self.first
            total += 0.0 if since < 0 else (0.8, 1.4, 1.3, 1.2)[since] if since < 4 else 1.0
            wanted.append(tokens * kept**total)
        return _counts(wanted, tokens)


@dataclass(frozen=True)
class EverySecond:
    """Blocks `first` and the one after it merge a little and twice as much, then every second block the same, larger share.

    Half as many merges take half the time of merging. What they cost in accuracy they cost early, hence the gentle start.
    """

    first: int = 2

    def __call__(self, strength: float, tokens: int, depth: int) -> tuple[int, ...]:
        """Tokens after each block."""
        kept, total, wanted = 1.0 - 0.5 * strength, 0.0, []
        for number in range(depth):
            since = number - self.first
            total += (0.4, 0.8)[since] if since in (0, 1) else float(since > 1 and since % 2 == 1)
            wanted.append(tokens * kept**total)
        return _counts(wanted, tokens)


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


class Timed(Protocol):
    """The seconds that schedules take on this machine, see `coarsening.clock`."""

    @property
    def whole(self) -> float:
        """Seconds of the untouched model."""

    def of(self, counts: Sequence[int], tokens: int) -> float:
        """Seconds with these counts of `tokens` after the blocks."""


@dataclass(frozen=True)
class Wanted:
    """The compute, the speed or the counts that a user asks for, see `coarsen`."""

    compute: float | None = None
    tokens: int | None = None
    schedule: Sequence[int] | Schedule | Shape | None = None
    speed: float | None = None

    def __post_init__(self) -> None:
        fixed = None if callable(self.schedule) else self.schedule
        named = (("compute", self.compute), ("tokens", self.tokens), ("speed", self.speed), ("schedule", fixed))
        given = [name for name, value in named if value is not None]
        if len(given) > 1:
            raise ValueError(f"a model takes compute=, tokens=, speed= or counts as schedule=, got {' and '.join(given)}; give one")
        if self.compute is not None and not 0.0 < self.compute <= 1.0:
            raise ValueError(
                f"compute is a share of the model's own, above 0 and up to 1, got {self.compute}; ask for example for 0.5"
            )

    def fitted(self, vit: Any, stem: int, own: int, count: int, rule: Rule) -> Schedule:
        """The schedule for `count` tokens; shares are of the compute with `own` tokens, those at the model's own image size."""
        depth = len(vit.blocks)
        if self.schedule is not None and not callable(self.schedule):
            return self._fixed(self.schedule, depth, count)
        whole = total_flops(vit, stem, own, (own,) * depth)
        goal = HALF if self.compute is None else self.compute
        if self.tokens is not None:
            if not 1 <= self.tokens <= count:
                raise ValueError(f"this model has {count} tokens, got tokens={self.tokens}; ask for 1 to {count}")
            goal = total_flops(vit, stem, self.tokens, (self.tokens,) * depth) / whole
        shape = self.schedule or default_shape(goal * whole / total_flops(vit, stem, count, (count,) * depth), depth)
        return fitted(shape, count, depth, lambda counts: total_flops(vit, stem, count, counts, rule) / whole, goal)

    def timed(self, clock: Timed, depth: int, count: int) -> Schedule:
        """The schedule whose forward pass takes `1 / speed` of the untouched model's time."""
        assert self.speed is not None
        if self.speed == 1.0:
            return Schedule((1.0,) * depth)
        goal = 1.0 / self.speed
        shape = self.schedule if callable(self.schedule) else default_shape(goal, depth, skips=goal >= LEAST_SKIPPING)
        try:
            return fitted(shape, count, depth, lambda counts: clock.of(counts, count) / clock.whole, goal)
        except ValueError:
            most = clock.whole / clock.of(shape(1.0, count, depth), count)
            raise ValueError(
                f"{shape} reaches {most:.2f} times the speed here, got speed={self.speed}; ask for less, or give larger batches"
            ) from None

    def _fixed(self, schedule: Sequence[int] | Schedule, depth: int, count: int) -> Schedule:
        shares = schedule.shares if isinstance(schedule, Schedule) else schedule
        if len(shares) != depth:
            raise ValueError(f"a schedule has one count per block, {depth} here, got {len(shares)}; give as many")
        return schedule if isinstance(schedule, Schedule) else Schedule.of_counts(schedule, count)


def default_shape(compute: float, depth: int, skips: bool | None = None) -> Shape:
    """The default of `coarsen`: merging starts after a quarter of the blocks, earlier where less compute is left.

    Chosen on photos of imagenet_sample, see docs/results.md; `best_schedule` looks for a model's own. Near half the compute every
    second block merges, which changes answers hardly more than merging in every block and takes half the time.
    skips: whether to do so, where it does not follow from the compute.
    """
    start = 1 / 4 if compute >= 0.6 else 1 / 6 if compute >= 0.45 else 1 / 12 if compute >= 0.38 else 0.0
    skips = LEAST_SKIPPING <= compute < 0.6 if skips is None else skips
    return EverySecond(round(start * depth)) if skips and depth >= ENOUGH_BLOCKS else ConstantShare(round(start * depth))


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


def linear_weights(module: nn.Module) -> int:
    """Weights of all matrices that every token is multiplied by."""
    return sum(layer.in_features * layer.out_features for layer in module.modules() if isinstance(layer, nn.Linear))


def total_flops(vit: Any, stem: int, tokens: int, counts: Sequence[int], rule: Rule | None = None) -> int:
    """Floating-point operations of the matrix products for one image, two per multiply-add, from patches to logits.

    counts: tokens after each block. stem: the cost of one token before the blocks. Merging counts too, and the last block of a
    coarsened model leaves out what no head reads; without a rule it is the untouched model. Softmax, norms and comparisons are left
    out, as usual.
    """
    prefix, total, left = vit.num_prefix_tokens, stem * tokens, tokens
    for number, (block, count) in enumerate(zip(vit.blocks, counts, strict=True)):
        attention, length = block.attn, prefix + left
        width = attention.num_heads * attention.head_dim
        closes = rule is not None and ends_with_prefix(vit) and number == len(counts) - 1
        after, queries = (prefix, prefix) if closes else (prefix + count, length)
        total += 2 * linear_weights(attention) * length - 2 * linear_weights(attention.proj) * (length - queries)
        total += 4 * length * queries * width + 2 * linear_weights(block.mlp) * after
        if rule is not None and count < left and not closes:
            total += rule.flops(left, count, int(vit.embed_dim), attention.head_dim)
        left = count
    return total + _head_flops(vit, prefix + tokens)


def ends_with_prefix(vit: Any) -> bool:
    """Whether only prefix tokens are read after the last block of a model that gives logits: it then computes no others."""
    return not hasattr(vit, "head_flops") and pools_prefix(vit) and vit.global_pool != ""


def _head_flops(vit: Any, length: int) -> int:
    if hasattr(vit, "head_flops"):
        return int(vit.head_flops(length))
    heads = [vit.head, vit.head_dist] if hasattr(vit, "head_dist") else [vit.head]
    total = sum(2 * linear_weights(head) for head in heads)
    pool = getattr(vit, "attn_pool", None)
    if pool is not None and not pools_prefix(vit):  # keys and values of all tokens, one query
        total += 2 * linear_weights(pool.kv) * length + 4 * length * pool.kv.in_features
        total += 2 * (linear_weights(pool) - linear_weights(pool.kv))
    return total
