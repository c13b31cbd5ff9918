"""Checkpoints of a training: written whole or not at all, and read only if they belong to the run."""

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from pixtree.files import replacing


class Progress(NamedTuple):
    """What a training has done: the loss of every step, and the averaged weights if the plan asked for them."""

    losses: list[float]
    averaged: nn.Module | None


def store(
    path: str | Path, learner: nn.Module, optimiser: Any, average: nn.Module | None, about: dict[str, Any], losses: list[float]
) -> None:
    """Write a checkpoint."""
    state = {"about": about, "curve": losses, "module": learner.state_dict(), "optimizer": optimiser.state_dict()}
    if average is not None:
        state["average"] = average.state_dict()
    with replacing(path) as temporary:
        torch.save(state, temporary)


def restored(
    path: str | Path | None, learner: nn.Module, optimiser: Any, average: nn.Module | None, about: dict[str, Any]
) -> list[float]:
    """Fill learner, optimiser and average from a checkpoint; returns the losses so far."""
    if path is None or not Path(path).is_file():
        raise FileNotFoundError(f"expected a checkpoint to go on from, found no file {str(path)!r}; start without resuming")
    try:
        state = torch.load(path, weights_only=True)
        changed = [name for name, value in about.items() if _plain(state["about"].get(name)) != _plain(value)]
    except (RuntimeError, EOFError, KeyError, AttributeError, pickle.UnpicklingError, OSError) as error:
        raise ValueError(
            f"expected a checkpoint of pixtree, {str(path)!r} is damaged or another file; remove it and start again"
        ) from error
    if changed:
        raise ValueError(f"expected the settings of the checkpoint, got others for {', '.join(changed)}; repeat the same command")
    learner.load_state_dict(state["module"])
    optimiser.load_state_dict(state["optimizer"])
    if average is not None:
        average.load_state_dict(state["average"])
    return list(state["curve"])


def _plain(value: Any) -> Any:
    """A setting with lists in place of tuples, as files have them."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return value
