"""The pixels that trees grow from."""

from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.image.pieces.definition import connected_pieces


class Leaves(NamedTuple):
    """The pixels that trees grow from, alike in all images of a batch."""

    shape: tuple[int, int]
    pixels: int  # M, inside the mask
    near: Tensor | None = None  # (4, M) int32: the pixels above, left, right and below inside the mask, −1 where none is
    pieces: int = 1  # 4-connected pieces of the mask


def whole(shape: tuple[int, int]) -> Leaves:
    """The pixels of an image without a mask."""
    return Leaves(shape, shape[0] * shape[1])


def leaves_of(inside: Tensor) -> Leaves:
    """The pixels inside a mask (H, W), whose number the host reads."""
    shape = (int(inside.shape[0]), int(inside.shape[1]))
    if bool(inside.all()):
        return whole(shape)
    number = (inside.flatten().cumsum(0, dtype=torch.int32) - 1).view(shape).masked_fill(~inside, -1)
    framed = torch.nn.functional.pad(number, (1, 1, 1, 1), value=-1)
    moved = [framed[y : y + shape[0], x : x + shape[1]][inside] for y, x in ((0, 1), (1, 0), (1, 2), (2, 1))]
    pieces = int(connected_pieces(torch.where(inside, 0, -1).to(torch.int32)).max()) + 1
    return Leaves(shape, int(moved[0].numel()), torch.stack(moved), pieces)
