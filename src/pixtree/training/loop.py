"""The training loop: one visible loop over steps; resuming from a checkpoint gives exactly the uninterrupted run."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.files import checked_target, replacing


@dataclass(frozen=True)
class Plan:
    """Length and learning rate of a training: `rate` rises linearly over `warmup` steps and then falls to zero along a cosine."""

    steps: int = 400
    rate: float = 2e-3
    warmup: int = 20
    decay: float = 0.0
    clip: float = 1.0
    seed: int = 0
    every: int = 100  # steps between checkpoints

    def __post_init__(self) -> None:
        if self.steps < 1 or self.every < 1 or not self.rate > 0:
            raise ValueError(
                f"expected steps, rate and every above 0, got {self.steps}, {self.rate} and {self.every}; try 400, 2e-3, 100"
            )

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        rising = min(1.0, (step + 1) / max(1, self.warmup))
        return self.rate * rising * 0.5 * (1.0 + math.cos(math.pi * step / self.steps))


def train(
    module: nn.Module,
    loss_at: Callable[[int], Tensor],
    plan: Plan,
    *,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    settings: dict[str, Any] | None = None,
    report: Callable[[int, float], None] = lambda step, loss: None,
) -> list[float]:
    """Minimise `loss_at(step)` over the module's parameters with AdamW; returns the loss of every step.

    loss_at must depend on the step and the weights alone. checkpoint: a file that is replaced every `plan.every` steps and at the
    end. resume: continue from it; `settings` and the plan must be those that it was written with. report: called after every step.
    """
    if checkpoint is not None:
        checked_target(checkpoint)
    torch.manual_seed(plan.seed)
    optimizer = torch.optim.AdamW(module.parameters(), plan.rate, weight_decay=plan.decay)
    about = {"plan": asdict(plan), **(settings or {})}
    curve = _restored(checkpoint, module, optimizer, about) if resume else []
    for step in range(len(curve), plan.steps):
        for group in optimizer.param_groups:
            group["lr"] = plan.rate_at(step)
        loss = loss_at(step)
        if not bool(loss.isfinite()):
            raise ValueError(f"the loss must stay finite, got {float(loss.detach())} at step {step}; lower the learning rate")
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(module.parameters(), plan.clip)
        optimizer.step()
        curve.append(float(loss.detach()))
        report(step, curve[-1])
        if checkpoint is not None and (len(curve) % plan.every == 0 or len(curve) == plan.steps):
            _store(checkpoint, module, optimizer, about, curve)
    return curve


def _store(
    path: str | Path, module: nn.Module, optimizer: torch.optim.Optimizer, about: dict[str, Any], curve: list[float]
) -> None:
    state = {"about": about, "curve": curve, "module": module.state_dict(), "optimizer": optimizer.state_dict()}
    with replacing(path) as temporary:
        torch.save(state, temporary)


def _restored(path: str | Path | None, module: nn.Module, optimizer: torch.optim.Optimizer, about: dict[str, Any]) -> list[float]:
    """Fill module and optimizer from a checkpoint; returns the losses so far."""
    if path is None or not Path(path).is_file():
        raise FileNotFoundError(f"expected a checkpoint to go on from, found no file {str(path)!r}; start without resuming")
    state = torch.load(path, weights_only=True)
    changed = [name for name, value in about.items() if state["about"].get(name) != value]
    if changed:
        raise ValueError(f"expected the settings of the checkpoint, got others for {', '.join(changed)}; repeat the same command")
    module.load_state_dict(state["module"])
    optimizer.load_state_dict(state["optimizer"])
    return list(state["curve"])
