"""Full precision inside autocast: partitions and samples are computed in float32 whatever the caller's precision."""

from contextlib import AbstractContextManager, nullcontext

import torch


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """A context without autocast; none at all where autocast is off, so that exported programs do not hold one."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()
