"""Flat zones in plain torch."""

import torch
from torch import Tensor

from pixtree.kernels.arithmetic import WORD
from pixtree.kernels.arithmetic.definition import order_key, summed_product
from pixtree.kernels.image.pieces.definition import components
from pixtree.kernels.tree import Place
from pixtree.kernels.tree.zones import LARGE, Zones, fewest_in_zones

NONE = torch.iinfo(torch.int64).max
NEIGHBOURS = ((-1, 0), (0, -1), (0, 1), (1, 0), (-1, -1), (-1, 1), (1, -1), (1, 1))  # (down, right); the first four share a side


def flat_zones(features: Tensor, inside: Tensor) -> Zones | None:
    """The zones of the pixels inside a mask (H, W), None where large ones cover too little of it; features are planes (C, M)."""
    pixels = features.shape[1]
    root = equal_components(features, inside).to(torch.int64)
    size = torch.bincount(root, minlength=pixels)
    if int((size[root] >= LARGE).sum()) < fewest_in_zones(pixels):
        return None
    solid = _solid(root, _numbers(inside))[root]
    joins = blends(features, inside, solid, Place(0, inside.shape[1]))
    # A thin zone that loses a pixel to another may fall apart.
    whole = torch.ones(pixels, dtype=torch.bool, device=root.device).index_fill_(0, root[joins >= 0], False)[root]
    belongs = solid | (whole & (size[root] > 1))
    return Zones(torch.where(belongs, root, -1).to(torch.int32), joins, solid)


def pixel_names(inside: Tensor, place: Place) -> Tensor:
    """The numbers (M,) in the whole image, modulo 2³², of the pixels inside a mask of a window."""
    row, column = torch.nonzero(inside, as_tuple=True)
    return (place.first + row * place.width + column) & WORD


def _numbers(inside: Tensor) -> Tensor:
    """The numbers (H, W) of the pixels inside a mask, −1 outside."""
    return (inside.flatten().cumsum(0) - 1).view(inside.shape).masked_fill(~inside, -1)


def _near(inside: Tensor) -> Tensor:
    """The numbers of the eight neighbours of every pixel inside a mask, (8, M), −1 where none is."""
    number = _numbers(inside)
    return torch.stack([_moved(number, down, right)[inside] for down, right in NEIGHBOURS])


def _moved(number: Tensor, down: int, right: int) -> Tensor:
    """number[y + down, x + right] at every pixel (y, x), −1 beyond the sides."""
    height, width = number.shape
    framed = torch.nn.functional.pad(number, (1, 1, 1, 1), value=-1)
    return framed[1 + down : 1 + down + height, 1 + right : 1 + right + width]


def equal_components(features: Tensor, inside: Tensor) -> Tensor:
    """The first pixel of the 4-connected pixels of one colour that each pixel is among, (M,) int32; features are planes (C, M)."""
    values = features.T
    pixel = torch.arange(values.shape[0], device=values.device)
    ends = [
        torch.stack((pixel[there], other[there]))
        for other in _near(inside)[2:4]  # right and below, so that each edge comes once
        for there in [(other >= 0) & (values == values[other.clamp_min(0)]).all(1)]
    ]
    first, second = torch.cat(ends, dim=1)
    return components(first, second, values.shape[0]).to(torch.int32)


def _solid(root: Tensor, number: Tensor) -> Tensor:
    """Whether the zone that begins at a pixel contains a block of 2 × 2 pixels, (M,) bool."""
    zone = torch.where(number >= 0, root[number.clamp_min(0)], -1)
    first = zone[:-1, :-1]
    block = (first >= 0) & (zone[:-1, 1:] == first) & (zone[1:, :-1] == first) & (zone[1:, 1:] == first)
    return torch.zeros_like(root, dtype=torch.bool).index_fill_(0, first[block], True)


def blends(features: Tensor, inside: Tensor, solid: Tensor, place: Place) -> Tensor:
    """The pixel of a solid zone that a blended pixel joins, (M,) int32, −1 where none.

    A pixel p outside solid zones is blended if it lies between two of them, in place and in colour: the nearest a by colour that
    it shares a side with, and any b in the ring of eight where |p − a|² + |p − b|² < |a − b|². That is never so for an a and b of
    one zone, whose distance is 0. features: planes (C, M) of the pixels inside a mask (H, W). solid: (M,) bool.
    """
    values, near, names = features.T, _near(inside), pixel_names(inside, place)
    there = (near >= 0) & solid[near.clamp_min(0)] & ~solid
    near = torch.where(there, near, 0)
    distance = torch.stack([_squared(values, values[other]) for other in near])
    nearest, to_nearest = near[0], distance[0]
    least = torch.full_like(nearest, NONE)
    for k in range(4):
        other, to_other = near[k], distance[k]
        ends = (names[other], names) if k < 2 else (names, names[other])  # those above and to the left come first
        key = order_key(to_other, *ends)
        nearer = there[k] & (key < least)
        nearest, to_nearest, least = (
            torch.where(nearer, *pair) for pair in ((other, nearest), (to_other, to_nearest), (key, least))
        )
    between = torch.zeros_like(solid)
    for k in range(8):
        apart = _squared(values[nearest], values[near[k]])
        between |= there[k] & (to_nearest + distance[k] < apart)
    return torch.where(between & (least < NONE), nearest, -1).to(torch.int32)


def _squared(a: Tensor, b: Tensor) -> Tensor:
    """Squared distance of rows (M, C), added in the order of the channels."""
    return summed_product(b - a, b - a)
