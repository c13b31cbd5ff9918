"""Processes that `torchrun` or `accelerate launch` started together: which one this is, and values that all of them know."""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import distributed

ADDRESS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")  # how launchers tell a process where the others are
PATIENCE = timedelta(minutes=10)  # for one that hangs; one that has ended is noticed at once, on GPUs after this time as well


class Share(NamedTuple):
    """The number of a process among all of them; each takes an equal share of every batch."""

    rank: int = 0
    ranks: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that prints and writes."""
        return self.rank == 0

    def of(self, batch: int) -> int:
        """Samples of a batch that one process takes."""
        if batch % self.ranks:
            raise ValueError(
                f"expected a batch that {self.ranks} processes can share equally, got {batch}; take a multiple of {self.ranks}"
            )
        return batch // self.ranks

    def places(self, count: int) -> range:
        """Which of `count` items are measured by this process; `interleaved` puts the results of all processes in order again."""
        return range(self.rank, count, self.ranks)


class LostProcessError(ConnectionError):
    """Another process of a run has ended, or does not answer."""


def launched() -> bool:
    """Whether a launcher started other processes together with this one."""
    return all(name in os.environ for name in ADDRESS) and int(os.environ["WORLD_SIZE"]) > 1


def joined() -> Share:
    """This process among those of its launcher, connected with them: by gloo on the CPU, and by NCCL on GPUs."""
    if launched() and not distributed.is_initialized():
        with noticing_loss():
            distributed.init_process_group(timeout=PATIENCE)
        atexit.register(_leave)
    if distributed.is_available() and distributed.is_initialized():
        return Share(distributed.get_rank(), distributed.get_world_size())
    return Share()


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()


def own_device(device: str) -> str:
    """The device of this process: of several on one machine, each takes a GPU of its own."""
    if launched() and device != "cpu" and ":" not in device:
        return f"{device}:{os.environ.get('LOCAL_RANK', '0')}"
    return device


def needs_cpu() -> bool:
    """Whether processes of a launcher compute on the CPU: without an accelerator, or with one that lacks collectives."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return launched() and (found is None or found.type == "mps")


def gathered(value: Any) -> list[Any]:
    """The values of all processes, by rank."""
    share = joined()
    if share.ranks == 1:
        return [value]
    found: list[Any] = [None] * share.ranks
    with noticing_loss():
        distributed.all_gather_object(found, value)
    return found


def interleaved(parts: list[list[Any]]) -> list[Any]:
    """Results by rank of the items that `Share.places` dealt out, in the order of the items."""
    found: list[Any] = [None] * sum(len(part) for part in parts)
    for rank, part in enumerate(parts):
        found[rank :: len(parts)] = part
    return found


@contextmanager
def noticing_loss() -> Iterator[None]:
    """Where another process has ended, or hangs, the next exchange in this block raises one sentence."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
            raise
        raise LostProcessError(
            f"expected all {os.environ.get('WORLD_SIZE', '')} processes of this run, another one has ended or does not answer; "
            "read its own message, and start all of them again (a training with --resume)"
        ) from error
