"""The training loop: one visible loop over steps, on one process or many; resuming gives exactly the uninterrupted run."""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pixtree.files import checked_target
from pixtree.training.checkpoints import Progress, restored, store
from pixtree.training.optimisers import SCALE, optimiser_of
from pixtree.training.order import Share, seed_of
from pixtree.training.plan import Plan

Figures = dict[str, float]


class Objective(nn.Module):
    """What a training minimises: forward takes a batch and gives "loss" and further figures; `learner` is trained and kept."""

    learner: nn.Module


class Batches(Protocol):
    """The data of a training, by step."""

    def starting(self, step: int, share: Share) -> Iterator[list[Any]]:
        """From a step on, the batches of each step of one process; their gradients are averaged over samples."""
        ...


def train(
    objective: Objective,
    batches: Batches,
    plan: Plan,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    settings: dict[str, Any] | None = None,
    report: Callable[[int, Figures], None] = lambda step, figures: None,
) -> Progress:
    """Minimise an objective; the learner holds the last weights, and the result the loss of every step and averaged weights.

    The batch of a step, and all that is random in it, follows from the seed and the step. checkpoint: a file that is replaced
    every `plan.every` steps and at the end. resume: continue from it; `settings` and the plan must be those that it was written
    with. report: called after every step, in the first process. Started by `torchrun` or `accelerate launch`, processes share
    every batch.
    """
    if checkpoint is not None:
        checked_target(checkpoint)
    accelerator = _accelerator(plan)
    share = Share(accelerator.process_index, accelerator.num_processes)
    torch.manual_seed(plan.seed)
    learner, about = objective.learner, {"plan": asdict(plan), **(settings or {})}
    wrapped, optimiser = accelerator.prepare(objective, optimiser_of(learner, plan))
    average = AveragedModel(learner, multi_avg_fn=_moving(plan.average)) if plan.average else None
    losses = restored(checkpoint, learner, optimiser, average, about) if resume else []
    source = batches.starting(len(losses), share)
    for step in range(len(losses), plan.steps):
        for group in optimiser.param_groups:
            group["lr"] = plan.rate_at(step) * group.get(SCALE, 1.0)
        given = next(source)
        torch.manual_seed(seed_of(plan.seed, step, share.rank))  # of dropped paths: the same after an interruption
        figures = _step(accelerator, wrapped, optimiser, given, plan)
        if not math.isfinite(figures["loss"]):
            raise ValueError(f"the loss must stay finite, got {figures['loss']} at step {step}; lower the learning rate")
        if average is not None:
            average.update_parameters(learner)
        losses.append(figures["loss"])
        if share.rank == 0:
            report(step, {**figures, "rate": plan.rate_at(step)})
            if checkpoint is not None and (len(losses) % plan.every == 0 or len(losses) == plan.steps):
                store(checkpoint, learner, optimiser, average, about, losses)
    return Progress(losses, None if average is None else average.module)


def _moving(decay: float) -> Any:
    """How an average of weights takes in new ones."""
    return get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]


def _accelerator(plan: Plan) -> Any:
    """The processes, devices and precision of a run."""
    try:
        from accelerate import Accelerator, DistributedDataParallelKwargs
    except ImportError:
        raise ImportError("training needs accelerate; run pip install 'pixtree[train]'") from None
    # Some parameters have no gradient in some objectives, and the processes would wait for it otherwise.
    handlers = [DistributedDataParallelKwargs(find_unused_parameters=True)]
    return Accelerator(mixed_precision="bf16" if plan.precision == "bfloat16" else "no", kwargs_handlers=handlers)


def _step(accelerator: Any, wrapped: nn.Module, optimiser: Any, given: list[Any], plan: Plan) -> Figures:
    """One step over the batches of a process; the mean figures over all processes."""
    from accelerate.utils import find_batch_size, send_to_device

    sizes = [find_batch_size(batch) for batch in given]
    totals: dict[str, Tensor] = {}
    optimiser.zero_grad()
    for number, batch in enumerate(given):
        last, share = number == len(given) - 1, sizes[number] / sum(sizes)
        with nullcontext() if last else accelerator.no_sync(wrapped):
            found = wrapped(send_to_device(batch, accelerator.device, non_blocking=True))
            accelerator.backward(found["loss"] * share)
        for name, value in found.items():
            totals[name] = totals.get(name, torch.zeros((), device=value.device)) + value.detach().float() * share
    accelerator.clip_grad_norm_(wrapped.parameters(), plan.clip)
    optimiser.step()
    names = sorted(totals)
    means = accelerator.reduce(torch.stack([totals[name] for name in names]), "mean").tolist()
    return dict(zip(names, means, strict=True))
