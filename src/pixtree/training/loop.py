"""The training loop: one visible loop over steps, on one process or many; resuming gives exactly the uninterrupted run."""

import math
import pickle
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from pixtree.files import checked_target, replacing
from pixtree.runtime.processes import Share, gathered, joined, needs_cpu, noticing_loss
from pixtree.training.batches import Batches, reading_workers, seed_of
from pixtree.training.schedule import Plan
from pixtree.training.short_forms import upgraded

SCALE = "lr_scale"  # timm's name for the factor of a group's rate
COMPILER = "inductor"  # torch.compile's
HELD, VALIDATION_SECONDS = "val_", "val_seconds"  # how the figures of a validation are named in logs
Figures = dict[str, float]


class Objective(nn.Module):
    """What a training run minimises: forward maps a batch to "loss" and further figures; `learner` is trained and kept."""

    learner: nn.Module


class Progress(NamedTuple):
    """The loss of every step, the averaged weights if the plan asked for them, and what the last validation measured."""

    losses: list[float]
    averaged: nn.Module | None
    measured: Figures | None


def train(
    objective: Objective,
    batches: Batches,
    plan: Plan,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    settings: dict[str, Any] | None = None,
    report: Callable[[int, Figures], None] = lambda step, figures: None,
    validate: Callable[[nn.Module], Figures] | None = None,
    compiled: bool = False,
) -> Progress:
    """Minimise an objective; the learner ends with the last weights.

    The batch of a step, and everything random in it, follows from the seed and the step. checkpoint: a file that is replaced
    every `plan.every` steps and at the end. resume: continue from it; `settings` and the plan must be those that it was written
    with. report: called after every step, in the first process. validate: called in all processes, with the weights that would be
    kept, every `plan.validation_steps` steps and after the last. compiled: run the objective through torch.compile. Started by
    `torchrun` or `accelerate launch`, processes share every batch.
    """
    if checkpoint is not None:
        checked_target(checkpoint)
    with reading_workers(), noticing_loss():
        return _trained(objective, batches, plan, checkpoint, resume, settings or {}, report, validate, compiled)


def _trained(
    objective: Objective,
    batches: Batches,
    plan: Plan,
    checkpoint: str | Path | None,
    resume: bool,
    settings: dict[str, Any],
    report: Callable[[int, Figures], None],
    validate: Callable[[nn.Module], Figures] | None,
    compiled: bool,
) -> Progress:
    accelerator = _accelerator(plan)
    share = _share(accelerator)
    torch.manual_seed(plan.seed)
    learner, about = objective.learner, {"plan": plan.record(), **settings}
    optimiser = optimiser_of(learner.to(accelerator.device), plan)
    average = AveragedModel(learner, multi_avg_fn=_moving(plan.average)) if plan.average else None
    losses = restored(checkpoint, learner, optimiser, average, about) if resume else []
    source = batches.starting(len(losses), share)
    if len(losses) < plan.steps and share.ranks > 1:
        first = next(source)
        source = chain([first], source)
        _expect_idle(accelerator, objective, first)
    if compiled:
        objective.compile(backend=COMPILER)
    wrapped, optimiser = accelerator.prepare(objective, optimiser)
    measured: Figures | None = None
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
        if validate is not None and plan.validates_after(step):
            began = time.monotonic()
            measured = validate(learner if average is None else average.module)
            held = {f"{HELD}{name}": value for name, value in measured.items()}
            figures |= held | {VALIDATION_SECONDS: time.monotonic() - began}
        losses.append(figures["loss"])
        if share.first:
            report(step, {**figures, "rate": plan.rate_at(step)})
            if checkpoint is not None and (len(losses) % plan.every == 0 or len(losses) == plan.steps):
                _store(checkpoint, learner, optimiser, average, about, losses)
    return Progress(losses, None if average is None else average.module, measured)


def _moving(decay: float) -> Any:
    """The update of a moving average of weights."""
    return get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]


def _accelerator(plan: Plan) -> Any:
    """The processes, devices and precision of a run."""
    try:
        from accelerate import Accelerator
    except ImportError:
        raise ImportError("training needs accelerate; run pip install 'pixtree[train]'") from None
    joined()  # before accelerate, which does not connect processes on CPUs unless a variable asks for that
    return Accelerator(cpu=needs_cpu(), mixed_precision="bf16" if plan.precision == "bfloat16" else "no")


def _share(accelerator: Any) -> Share:
    """This process among those of the run, on which accelerate must agree: otherwise, each would train a copy alone."""
    share = joined()
    if accelerator.num_processes != share.ranks:
        raise ValueError(
            f"expected {share.ranks} connected processes, accelerate has {accelerator.num_processes}; start them with torchrun"
        )
    return share


def _expect_idle(accelerator: Any, objective: Objective, given: list[Any]) -> None:
    """Let processes look for parameters without gradients if this objective has some; they would wait for these otherwise.

    That costs a pass over the graph in every step, so one backward pass decides before the first.
    """
    from accelerate import DistributedDataParallelKwargs
    from accelerate.utils import send_to_device

    objective.to(accelerator.device)
    kept = {name: one.clone() for name, one in objective.named_buffers()}
    with accelerator.autocast():
        loss = objective(send_to_device(given[0], accelerator.device))["loss"]
    loss.backward()
    idle = any(one.requires_grad and one.grad is None for one in objective.parameters())
    objective.zero_grad()
    for name, one in objective.named_buffers():
        one.copy_(kept[name])
    accelerator.ddp_handler = DistributedDataParallelKwargs(find_unused_parameters=any(gathered(idle)))


def _step(accelerator: Any, wrapped: nn.Module, optimiser: Any, given: list[Any], plan: Plan) -> Figures:
    """One step over the micro-batches of a process; the mean figures over all processes."""
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
    accelerator.clip_grad_norm_(wrapped.parameters(), math.inf if plan.clip is None else plan.clip)
    optimiser.step()
    names = sorted(totals)
    means = accelerator.reduce(torch.stack([totals[name] for name in names]), "mean").tolist()
    return dict(zip(names, means, strict=True))


def optimiser_of(learner: nn.Module, plan: Plan) -> Optimizer:
    """The optimiser of a plan over the parameters that learn; factors of single rates are kept in its groups."""
    groups = parameter_groups(learner, plan)
    rate, betas = plan.rate.base, (plan.momentum, 0.999)
    if plan.optimiser == "adamw":
        return AdamW(groups, rate, betas, plan.epsilon, plan.weight_decay)
    if plan.optimiser == "sgd":
        return SGD(groups, rate, plan.momentum, weight_decay=plan.weight_decay)
    from pixtree.models.timm_import import timm

    lamb: type[Optimizer] = import_module(f"{timm.__name__}.optim.lamb").Lamb
    return lamb(groups, lr=rate, betas=betas, eps=plan.epsilon, weight_decay=plan.weight_decay)  # type: ignore[call-arg]


def parameter_groups(learner: Any, plan: Plan) -> list[dict[str, Any]]:
    """Groups of equal decay and rate: no decay for vectors, rates that fall towards the first block, and the plan's `scales`."""
    spared = set(learner.no_weight_decay()) if hasattr(learner, "no_weight_decay") else set()
    depth = _layers(learner) if plan.layer_decay < 1 else {}
    deepest, scales = max(depth.values(), default=0), plan.scales
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, parameter in learner.named_parameters():
        if not parameter.requires_grad:
            continue
        decay = 0.0 if name in spared or (parameter.ndim <= 1 and hasattr(learner, "no_weight_decay")) else plan.weight_decay
        scale = next((factor for start, factor in scales.items() if name.startswith(start)), None)
        if scale is None:
            scale = plan.layer_decay ** (deepest - depth[name]) if depth else 1.0
        groups.setdefault((decay, scale), []).append(parameter)
    return [{"params": members, "weight_decay": decay, SCALE: scale} for (decay, scale), members in groups.items()]


def _layers(learner: Any) -> dict[str, int]:
    """The number of the layer that each parameter of a timm model is in, from the stem to the head."""
    if not hasattr(learner, "group_matcher"):
        raise ValueError(f"layer decay needs a model that knows its layers, got {type(learner).__name__}; set layer_decay to 1")
    from pixtree.models.timm_import import timm

    found = timm.models.group_parameters(learner, learner.group_matcher(coarse=False), reverse=True)
    return {name: int(layer) for name, layer in found.items()}


def _store(
    path: str | Path, learner: nn.Module, optimiser: Any, average: nn.Module | None, about: dict[str, Any], losses: list[float]
) -> None:
    """Write a checkpoint, whole or not at all."""
    state = {"about": about, "curve": losses, "module": learner.state_dict(), "optimizer": optimiser.state_dict()}
    if average is not None:
        state["average"] = average.state_dict()
    content = BytesIO()  # torch reports a full disk as a RuntimeError without its reason
    torch.save(state, content)
    with replacing(path) as temporary:
        temporary.write_bytes(content.getbuffer())


def restored(
    path: str | Path | None, learner: nn.Module, optimiser: Any, average: nn.Module | None, about: dict[str, Any]
) -> list[float]:
    """Fill learner, optimiser and average from a checkpoint of the same settings; returns the losses so far."""
    if path is None or not Path(path).is_file():
        raise FileNotFoundError(f"expected a checkpoint to resume from, found no file {str(path)!r}; start without resuming")
    state, stored = _read(path, about)
    changed = [name for name, value in about.items() if _plain(stored.get(name)) != _plain(value)]
    if changed:
        raise ValueError(f"expected the settings of the checkpoint, got others for {', '.join(changed)}; repeat the same command")
    learner.load_state_dict(state["module"])
    optimiser.load_state_dict(state["optimizer"])
    if average is not None:
        average.load_state_dict(state["average"])
    return list(state["curve"])


def settings_of(path: str | Path, about: dict[str, Any]) -> dict[str, Any]:
    """The settings in a checkpoint, as this version writes them; `about`: those of the run that resumes, see `upgraded`."""
    return _read(path, about)[1]


def _read(path: str | Path, about: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A checkpoint and its settings."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        return state, upgraded(state["about"], about)
    except (RuntimeError, EOFError, KeyError, AttributeError, TypeError, pickle.UnpicklingError, OSError) as error:
        raise ValueError(
            f"expected a checkpoint of pixtree, {str(path)!r} is damaged or another file; remove it and start again"
        ) from error


def _plain(value: Any) -> Any:
    """A setting with lists in place of tuples, as files have them."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
