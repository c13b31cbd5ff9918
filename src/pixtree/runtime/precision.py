"""Full precision: partitions and samples are computed in float32 whatever the precision of the model or of autocast."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context without autocast; none at all where autocast is off, so that exported programs do not hold one."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()


class InFullPrecision(nn.Module):
    """A module whose float32 weights stay float32 when the model around it is cast to half precision or bfloat16.

    Rounded weights would give other partitions. Longer types are taken over.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "InFullPrecision":
        def kept(weight: Tensor) -> Tensor:
            moved = fn(weight)
            shortened = weight.dtype == torch.float32 and moved.dtype in (torch.float16, torch.bfloat16)
            return weight.to(moved.device) if shortened else moved

        super()._apply(kept, recurse)  # type: ignore[no-untyped-call]
        return self
