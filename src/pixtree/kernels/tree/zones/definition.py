"""Flat zones in plain torch."""

import torch
from torch import Tensor

from pixtree.kernels.arithmetic.definition import order_key, summed_product
from pixtree.kernels.image.pieces.definition import components
from pixtree.kernels.tree.zones import LARGE, Zones, fewest_in_zones

NONE = torch.iinfo(torch.int64).max
NEIGHBOURS = ((-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))  # (down, right); the first four share a side


def flat_zones(features: Tensor, inside: Tensor) -> Zones | None:
    """The zones of the pixels inside a mask (H, W), None where large ones cover too little of it; features are planes (C, M)."""
    pixels = features.shape[1]
    number = (inside.flatten().cumsum(0) - 1).view(inside.shape).masked_fill(~inside, -1)
    near = torch.stack([_moved(number, down, right)[inside] for down, right in NEIGHBOURS])
    values = features.T
    root = _roots(values, near)
    size = torch.bincount(root, minlength=pixels)
    if int((size[root] >= LARGE).sum()) < fewest_in_zones(pixels):
        return None
    solid = _solid(root, number)[root]
    joins = _joined(values, root, solid, near)
    blended = joins >= 0
    # A thin zone that loses a pixel to another may fall apart.
    whole = torch.ones(pixels, dtype=torch.bool, device=root.device).index_fill_(0, root[blended], False)[root]
    belongs = solid | (whole & (size[root] > 1))
    return Zones(torch.where(belongs, root, -1).to(torch.int32), joins.to(torch.int32), solid)


def _moved(number: Tensor, down: int, right: int) -> Tensor:
    """number[y + down, x + right] at every pixel (y, x), −1 beyond the sides."""
    height, width = number.shape
    framed = torch.nn.functional.pad(number, (1, 1, 1, 1), value=-1)
    return framed[1 + down : 1 + down + height, 1 + right : 1 + right + width]


def _roots(values: Tensor, near: Tensor) -> Tensor:
    """The first pixel of the zone of every pixel, (M,) int64; values are rows (M, C)."""
    pixel = torch.arange(values.shape[0], device=values.device)
    ends = [
        torch.stack((pixel[there], other[there]))
        for other in near[2:4]  # right and below, so that each edge comes once
        for there in [(other >= 0) & (values == values[other.clamp_min(0)]).all(1)]
    ]
    first, second = torch.cat(ends, dim=1)
    return components(first, second, values.shape[0])


def _solid(root: Tensor, number: Tensor) -> Tensor:
    """Whether the zone that begins at a pixel contains a block of 2 × 2 pixels, (M,) bool."""
    zone = torch.where(number >= 0, root[number.clamp_min(0)], -1)
    first = zone[:-1, :-1]
    block = (first >= 0) & (zone[:-1, 1:] == first) & (zone[1:, :-1] == first) & (zone[1:, 1:] == first)
    return torch.zeros_like(root, dtype=torch.bool).index_fill_(0, first[block], True)


def _joined(values: Tensor, root: Tensor, solid: Tensor, near: Tensor) -> Tensor:
    """The pixel of a solid zone that a blended pixel joins, (M,) int64, −1 where none.

    A pixel p outside solid zones is blended if it lies between two of them, in place and in colour: the nearest a by colour that
    it shares a side with, and any b of another zone in the ring of eight, where |p − a|² + |p − b|² < |a − b|².
    """
    pixel = torch.arange(root.numel(), device=root.device)
    there = (near >= 0) & solid[near.clamp_min(0)] & ~solid
    near = torch.where(there, near, 0)
    distance = torch.stack([_squared(values, values[other]) for other in near])
    nearest, to_nearest = near[0], distance[0]
    least = torch.full_like(pixel, NONE)
    for k in range(4):
        other, to_other = near[k], distance[k]
        key = order_key(to_other, torch.minimum(pixel, other), torch.maximum(pixel, other))
        nearer = there[k] & (key < least)
        nearest, to_nearest, least = (
            torch.where(nearer, *pair) for pair in ((other, nearest), (to_other, to_nearest), (key, least))
        )
    between = torch.zeros_like(solid)
    for k in range(8):
        apart = _squared(values[nearest], values[near[k]])
        between |= there[k] & (root[near[k]] != root[nearest]) & (to_nearest + distance[k] < apart)
    return torch.where(between & (least < NONE), nearest, -1)


def _squared(a: Tensor, b: Tensor) -> Tensor:
    """Squared distance of rows (M, C), added in the order of the channels."""
    return summed_product(b - a, b - a)
