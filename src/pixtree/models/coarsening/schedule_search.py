"""The search for the schedule that changes a model's logits least."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pixtree.models.coarsening.coarsen import coarsen
from pixtree.models.coarsening.rules import Rule
from pixtree.models.coarsening.schedules import (
    ConstantNumber,
    ConstantShare,
    DecreasingNumber,
    EarlyShare,
    EverySecond,
    Schedule,
    Shape,
)

SHAPES: tuple[Shape, ...] = (
    *(ConstantShare(first) for first in (0, 1, 2, 3)),
    *(EarlyShare(first) for first in (1, 2, 3)),
    *(EverySecond(first) for first in (1, 2, 3)),
    *(ConstantNumber(first) for first in (0, 2)),
    *(DecreasingNumber(first) for first in (0, 2)),
)


@dataclass(frozen=True)
class Found:
    """A shape that was tried: its schedule, and the mean divergence (KL, nats) of its logits from the untouched model's."""

    shape: Shape
    schedule: Schedule
    divergence: float


@torch.inference_mode()
def best_schedule(
    model: Any,
    images: Iterable[Tensor],
    compute: float = 0.5,
    *,
    rule: str | Rule = "tree",
    shapes: Sequence[Shape] = SHAPES,
    input_size: int | tuple[int, int] | None = None,
) -> list[Found]:
    """All shapes that reach `compute`, the best first; give `[0].schedule` to `coarsen`, with the same `input_size`.

    images: batches (B, C, H, W) as the model takes them; a few hundred images distinguish shapes. No labels are needed.
    """
    batches = list(images)
    expected = [model(batch).to(torch.float64).log_softmax(dim=1) for batch in batches]
    tried = []
    for shape in shapes:
        try:
            coarse = coarsen(model, compute, schedule=shape, rule=rule, input_size=input_size)
        except ValueError:  # this shape starts too late for this little compute
            continue
        total = sum(_divergence(log_chances, coarse(batch)) for log_chances, batch in zip(expected, batches, strict=True))
        tried.append(Found(shape, coarse.schedule, total / sum(len(batch) for batch in batches)))
    if not tried:
        raise ValueError(f"no shape reaches {compute} of the model's compute; ask for more, or give shapes that merge earlier")
    return sorted(tried, key=lambda found: found.divergence)


def _divergence(expected: Tensor, logits: Tensor) -> float:
    return float((expected.exp() * (expected - logits.to(torch.float64).log_softmax(dim=1))).sum())
