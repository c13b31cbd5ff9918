"""What a training will cost: a few timed passes over real pictures, and the memory that they keep."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pixtree.training.loop import Batches, Objective
from pixtree.training.order import Share
from pixtree.training.plan import Plan

PASSES = 2  # timed, after one that compiles and fills caches
STATES = {"adamw": 2, "lamb": 2, "sgd": 1}  # numbers that an optimiser keeps per weight


class Estimate(NamedTuple):
    """Seconds to read and to train one picture, its tokens, its bytes, and those of the weights with gradients and moments."""

    reading: float
    training: float
    tokens: float | None
    weights: int
    picture: int

    def memory(self, pictures: int) -> float:
        """Gigabytes while so many pictures are trained at a time."""
        return (self.weights + self.picture * pictures) / 1e9

    def hours(self, pictures: float, workers: int) -> float:
        """Hours for so many pictures; workers read while others are trained."""
        each = self.reading + self.training if workers == 0 else max(self.reading / workers, self.training)
        return pictures * each / 3600


def estimated(objective: Objective, batches: Batches, plan: Plan) -> Estimate:
    """Time the forward and backward pass of small batches; weights stay as they are."""
    source = batches.starting(0, Share())
    reading, training, kept, tokens, count = [], [], 0, None, 1
    objective.train()
    for number in range(PASSES + 1):
        began = time.perf_counter()
        batch = next(source)[0]
        count = len(batch if isinstance(batch, Tensor) else batch[0])
        read = time.perf_counter()
        with _counted(objective) as storages:
            found = objective(batch)
        found["loss"].backward()
        if number > 0:
            reading.append((read - began) / count)
            training.append((time.perf_counter() - read) / count)
        kept = sum(storages.values()) // count
        tokens = float(found["tokens"]) if "tokens" in found else None
    objective.zero_grad()
    return Estimate(min(reading), min(training), tokens, _weights(objective, plan), kept)


def _weights(objective: Objective, plan: Plan) -> int:
    """Bytes of all weights, and of the gradients, moments and averages of those that learn."""
    copies = 1 + STATES[plan.optimiser] + bool(plan.average)
    return sum(one.nbytes * (1 + copies * one.requires_grad) for one in objective.parameters())


@contextmanager
def _counted(objective: Objective) -> Iterator[dict[int, int]]:
    """Count the memory that the backward pass needs beside the weights: bytes by storage, since views share one."""
    found: dict[int, int] = {}
    weights = {one.untyped_storage().data_ptr() for one in objective.parameters()}

    def keep(value: Tensor) -> Any:
        storage = value.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda value: value):
        yield found
