"""The rounds of one tree, decoded from its levels by plain slices: what the batched decoder of the library must agree with."""

from typing import NamedTuple

import torch
from torch import Tensor


class Round(NamedTuple):
    """The component and the pick of every region of one level, and the number of components."""

    component: Tensor
    pick: Tensor
    groups: int


def rounds_of(levels: Tensor, pixels: int) -> list[Round]:
    """The rounds of one image's tree, first to last, from its levels (4, L), see `ExactCut`."""
    pick, member, start, offsets = levels.to(torch.int64).unbind()
    offset, found = offsets[: levels.shape[1] - 2 * pixels].tolist(), []
    for level in range(len(offset) - 2):
        here, up = offset[level], offset[level + 1]
        if up - here <= 1:
            break
        groups = offset[level + 2] - up
        begins = start[up - pixels + level : up - pixels + level + groups + 1]
        number = torch.arange(groups).repeat_interleave(begins.diff())
        found.append(Round(torch.empty_like(number).scatter_(0, member[here:up], number), pick[here:up], groups))
    return found
