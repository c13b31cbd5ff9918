"""Schedules by measured time: how long the blocks of a model take here for fewer tokens, measured in seconds, and what follows.

Operations are not time: weights are read from memory however few tokens there are, merging has a cost of its own, and a second
thread helps long products only. So `coarsen(model, speed=1.8)` runs the blocks at a few lengths and fits the schedule to that.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.models.coarsening.blocks import attend, key_bias, norm_of_mlp, think
from pixtree.models.coarsening.rules import Rule, Seen
from pixtree.models.coarsening.schedules import ends_with_prefix, halved
from pixtree.runtime.backend import wait_for

LENGTHS = (1.0, 0.75, 0.5, 0.25, 0.1)  # shares of the tokens at which blocks are timed
ROUNDS = 5
KEPT = 0.8  # the share of its tokens that a merge keeps while it is timed


@dataclass(frozen=True)
class Speed:
    """A multiple of the untouched model's images per second, on this machine, with torch's threads and this batch."""

    times: float
    batch: int = 1

    def __post_init__(self) -> None:
        if not math.isfinite(self.times) or self.times < 1.0:
            raise ValueError(f"speed is a factor of at least 1, got {self.times}; ask for example for 1.8")
        if self.batch < 1:
            raise ValueError(f"speed is measured on at least 1 image, got batch={self.batch}; give the batch that you will use")


@dataclass(frozen=True)
class Clock:
    """Seconds of a block's attention, MLP and merge at some numbers of tokens, which rise.

    whole: of the untouched model. rest: of all in it that is not a block.
    """

    lengths: tuple[int, ...]
    attention: tuple[float, ...]
    mlp: tuple[float, ...]
    merge: tuple[float, ...]
    whole: float
    rest: float
    closes: bool  # the last block computes prefix tokens only

    def of(self, counts: Sequence[int], tokens: int) -> float:
        """Seconds of a forward pass that leaves these counts of `tokens` after its blocks."""
        total, left = self.rest, tokens
        for number, count in enumerate(counts):
            last = self.closes and number == len(counts) - 1
            total += self._at(self.attention, left) + self._at(self.mlp, 1 if last else count)
            total += self._at(self.merge, left) if count < left and not last else 0.0
            left = count
        return total

    def _at(self, seconds: tuple[float, ...], length: int) -> float:
        """Between two lengths, in proportion; below the least, as there: weights are read all the same."""
        points = list(zip(self.lengths, seconds, strict=True))
        if length <= points[0][0]:
            return points[0][1]
        for (shorter, least), (longer, most) in pairwise(points):
            if length <= longer:
                return least + (most - least) * (length - shorter) / (longer - shorter)
        return points[-1][1] * length / points[-1][0]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A model without dropout for a while; afterwards every module is in the mode that it was in."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@torch.inference_mode()
def clock_of(vit: Any, rule: Rule, readers: int, tokens: int, batch: int, whole: Callable[[], object]) -> Clock:
    """Time the blocks of a model at `LENGTHS` of `tokens`, on values drawn with a fixed seed; `whole` runs the untouched model.

    The least of a few rounds counts: whatever else the machine does only adds to it.
    """
    lengths = sorted({max(2, round(share * tokens)) for share in LENGTHS})
    weight = next(iter(vit.blocks[0].mlp.parameters()))
    random = torch.Generator().manual_seed(0)
    prefix = vit.num_prefix_tokens
    rows = torch.randn(batch, prefix + tokens, int(vit.embed_dim), generator=random).to(weight)
    found: dict[int, list[tuple[float, float, float]]] = {length: [] for length in lengths}
    wholes: list[float] = []
    blocks: list[float] = []
    for turn in range(ROUNDS + 1):  # the first warms up
        start = _now(rows)
        whole()
        middle = _now(rows)
        run_blocks(vit, rows)
        wholes += [middle - start] if turn else []
        blocks += [_now(rows) - middle] if turn else []
        for length in lengths:
            seconds = _timed(vit, rule, readers, rows[:, : prefix + length])
            found[length] += [seconds] if turn else []
    columns = [[min(part) / len(vit.blocks) for part in zip(*found[length], strict=True)] for length in lengths]
    attention, mlp, merge = (tuple(column) for column in zip(*columns, strict=True))
    rest = max(0.0, min(wholes) - min(blocks))
    return Clock(tuple(lengths), attention, mlp, merge, min(wholes), rest, ends_with_prefix(vit))


def run_blocks(vit: Any, rows: Tensor) -> None:
    """All blocks as the untouched model runs them; those that need positions in two halves without."""
    is_whole = getattr(vit, "rope", None) is None
    for block in vit.blocks:
        rows = block(rows) if is_whole else think(block, attend(block, rows, None, None, False)[0])


def _timed(vit: Any, rule: Rule, readers: int, rows: Tensor) -> tuple[float, float, float]:
    """Seconds of attention, MLP and merge in all blocks, one after another as in the model, so that caches are as full."""
    spent = [0.0, 0.0, 0.0]
    prefix = vit.num_prefix_tokens
    sizes = torch.ones(rows.shape[0], rows.shape[1] - prefix, device=rows.device)
    count = max(halved(sizes.shape[1]), round(KEPT * sizes.shape[1]))
    bias = key_bias(sizes, rows)
    kernels = kernels_for(getattr(rule, "backend", "auto"), rows.device)
    depth = len(vit.blocks)
    for block in vit.blocks:
        times = [_now(rows)]
        after, made, attention = attend(block, rows, bias, None, rule.asks_for_attention(readers))
        times.append(_now(rows))
        think(block, after)
        times.append(_now(rows))
        seen = Seen(after, sizes, prefix, readers, depth - 1, depth, made, attention, norm_of_mlp(block))
        kernels.merge_tokens(after, sizes, rule(seen, count), count)
        times.append(_now(rows))
        for part, (start, end) in enumerate(pairwise(times)):
            spent[part] += end - start
    return spent[0], spent[1], spent[2]


def _now(values: Tensor) -> float:
    """Seconds, once the device of these values has finished what it was given."""
    wait_for(values.device)
    return time.perf_counter()
