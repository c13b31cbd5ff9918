"""Flat zones in numba: union–find over equal neighbours, then a look at the ring of every pixel outside solid zones."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels.arithmetic.compiled import bits_of, order_key
from pixtree.kernels.image.pieces.compiled import find
from pixtree.kernels.tree import Place
from pixtree.kernels.tree.zones import LARGE, Zones, fewest_in_zones
from pixtree.runtime.jit import inlined, kernel

_f4, _i4, _i8 = np.float32, np.int32, np.int64
_NONE = _i8(2**63 - 1)
DOWN, RIGHT = (-1, 0, 0, 1, -1, -1, 1, 1), (0, -1, 1, 0, -1, 1, -1, 1)  # the ring; its first four share a side with the middle


class ZoneArrays(NamedTuple):
    """The fields of `Zones`, and the pixels of a zone by its first pixel; all are empty where an image has no zones."""

    root: NDArray[np.int32]
    joins: NDArray[np.int32]
    solid: NDArray[np.bool_]
    size: NDArray[np.int32]
    number: NDArray[np.int32]  # (H, W): the pixels' numbers, −1 outside the mask


_NOTHING = np.empty(0, np.int32)
NO_ZONES = ZoneArrays(_NOTHING, _NOTHING, np.empty(0, np.bool_), _NOTHING, _NOTHING)


def flat_zones(features: Tensor, inside: Tensor) -> Zones | None:
    """The zones of the pixels inside a mask (H, W), None where large ones cover too little of it; features are planes (C, M)."""
    planes = features.contiguous().numpy()
    fewest = fewest_in_zones(planes.shape[1]) * (LARGE - 1) // LARGE  # edges, since a zone of n pixels has n − 1 or more
    if bool(inside.all()) and equal_edges(planes, inside.shape[1]) < fewest:
        return None
    found = zones_of(planes, vertex_numbers(inside))
    return Zones(*(torch.from_numpy(field) for field in found[:3])) if found.root.size else None


def equal_components(features: Tensor, inside: Tensor) -> Tensor:
    """The first pixel of the 4-connected pixels of one colour that each pixel is among, (M,) int32; features are planes (C, M)."""
    root, size = (np.zeros(features.shape[1], np.int32) for _ in range(2))
    connect_equals(features.contiguous().numpy(), vertex_numbers(inside), root, size)
    return torch.from_numpy(root)


def blends(features: Tensor, inside: Tensor, solid: Tensor, place: Place) -> Tensor:
    """The pixel of a solid zone that a blended pixel joins, (M,) int32, −1 where none; see the definition."""
    joins = np.full(features.shape[1], -1, np.int32)
    where = (int(place.first), int(place.width))
    blend(features.contiguous().numpy(), vertex_numbers(inside), solid.numpy(), where, joins)
    return torch.from_numpy(joins)


def vertex_numbers(inside: Tensor) -> NDArray[np.int32]:
    """The numbers (H, W) of the pixels inside a mask, −1 outside."""
    number = (inside.flatten().cumsum(0) - 1).view(inside.shape).masked_fill(~inside, -1)
    return number.to(torch.int32).numpy()


def arrays_of(zones: Zones, shape: tuple[int, int]) -> ZoneArrays:
    """Zones that are known already, of a whole image or window."""
    root, joins, solid = (field.numpy() for field in zones)
    size = np.bincount(root[root >= 0], minlength=root.size).astype(np.int32)
    return ZoneArrays(root, joins, solid, size, np.arange(root.size, dtype=np.int32).reshape(shape))


def zones_of(planes: Any, number: NDArray[np.int32]) -> ZoneArrays:
    """The zones of pixels (C, M) whose places are those of their numbers (H, W), −1 where none is."""
    pixels = planes.shape[1]
    root, size = np.empty(pixels, np.int32), np.zeros(pixels, np.int32)
    if connect_equals(planes, number, root, size) < fewest_in_zones(pixels):
        return NO_ZONES
    joins, solid = np.full(pixels, -1, np.int32), np.zeros(pixels, np.bool_)
    mark_solid(number, root, solid)
    blend(planes, number, solid, (0, number.shape[1]), joins)
    settle(root, joins, solid, size)
    return ZoneArrays(root, joins, solid, size, number)


def zones_on_grid(planes: Any, shape: tuple[int, int], key: NDArray[np.int64]) -> ZoneArrays:
    """The zones of a whole image, from its planes and the keys of its pixels' picks: where few are 0, as in photographs, none."""
    fewest = fewest_in_zones(planes.shape[1])
    if count_equals(key, planes.shape[1]) < fewest or count_beyond_pairs(planes[0].reshape(shape)) < fewest:
        return NO_ZONES
    return zones_of(planes, np.arange(planes.shape[1], dtype=np.int32).reshape(shape))


@kernel
def count_equals(key, pixels):
    """How many pixels have a neighbour at no cost; keys have the bits of costs in their upper half."""
    count = 0
    for i in range(pixels):
        count += int(key[i] < _i8(2**32))
    return count


def count_beyond_pairs(values: NDArray[np.float32]) -> int:
    """How many pixels are in zones of three pixels or more, by one plane (H, W): a bound from above on those in large zones.

    Photographs that were enlarged have many pairs of equal pixels, and this takes a fifth of the time that all zones take.
    """
    right, below = values[:, 1:] == values[:, :-1], values[1:] == values[:-1]
    equals = np.zeros(values.shape, np.uint8)  # of every pixel, among its neighbours
    for touched, same in ((equals[:, 1:], right), (equals[:, :-1], right), (equals[1:], below), (equals[:-1], below)):
        touched += same
    single = equals == 1
    pairs = np.count_nonzero(right & single[:, 1:] & single[:, :-1]) + np.count_nonzero(below & single[1:] & single[:-1])
    return int(np.count_nonzero(equals) - 2 * pairs)


@kernel
def equal_edges(planes, width):
    """How many 4-neighbours have the same first value, ends of rows included: a bound from above on the edges inside zones."""
    values, right, below = planes[0, :-1], planes[0, 1:], planes[0, width:]
    count = 0
    for i in range(right.size):
        count += int(values[i] == right[i])
    for i in range(below.size):
        count += int(planes[0, i] == below[i])
    return count


@inlined
def are_equal(planes, a, b):
    """Whether two pixels have the same values."""
    same = True
    for c in range(planes.shape[0]):
        same &= planes[c, a] == planes[c, b]
    return same


@kernel
def connect_equals(planes, number, root, size):
    """root = the first pixel of each pixel's zone, size[root] = its pixels; returns how many pixels are in large zones."""
    height, width = number.shape
    for y in range(height):
        for x in range(width):
            i = number[y, x]
            if i < 0:
                continue
            root[i] = i
            if x > 0 and number[y, x - 1] >= 0 and are_equal(planes, i, number[y, x - 1]):
                root[i] = find(root, number[y, x - 1])
            if y > 0 and number[y - 1, x] >= 0 and are_equal(planes, i, number[y - 1, x]):
                a, b = find(root, number[y - 1, x]), root[i]
                root[max(a, b)] = min(a, b)
    for i in range(root.size):
        root[i] = root[root[i]]  # what comes before i is settled
        size[root[i]] += _i4(1)
    large = 0
    for i in range(root.size):
        large += int(size[root[i]] >= LARGE)
    return large


@kernel
def mark_solid(number, root, solid):
    """solid = whether a pixel's zone contains a block of 2 × 2 pixels."""
    height, width = number.shape
    for y in range(height - 1):
        for x in range(width - 1):
            a, b, c, d = number[y, x], number[y, x + 1], number[y + 1, x], number[y + 1, x + 1]
            if min(min(a, b), min(c, d)) >= 0 and root[a] == root[b] and root[a] == root[c] and root[a] == root[d]:
                solid[root[a]] = True
    for i in range(root.size):
        solid[i] = solid[root[i]]


@inlined
def squared_distance(planes, a, b):
    """Σ_c (planes[c, b] − planes[c, a])²."""
    total = _f4(0.0)
    for c in range(planes.shape[0]):
        step = planes[c, b] - planes[c, a]
        total += step * step
    return total


@kernel
def blend(planes, number, solid, place, joins):
    """joins = the pixel of a solid zone that a blended pixel joins; place is (first, stride), see `Place`."""
    height, width = number.shape
    ring = np.empty(8, np.int32)
    for y in range(height):
        for x in range(width):
            i = number[y, x]
            if i < 0 or solid[i]:
                continue
            nearest, least, to_nearest = _i4(-1), _NONE, _f4(0.0)
            for k in range(8):
                v, u = y + DOWN[k], x + RIGHT[k]
                ring[k] = number[v, u] if v >= 0 and u >= 0 and v < height and u < width else _i4(-1)
                if ring[k] >= 0 and not solid[ring[k]]:
                    ring[k] = _i4(-1)
                if k < 4 and ring[k] >= 0:
                    distance = squared_distance(planes, i, ring[k])
                    here, there = place[0] + y * place[1] + x, place[0] + v * place[1] + u
                    key = order_key(bits_of(distance), min(here, there), max(here, there))
                    if key < least:
                        nearest, least, to_nearest = ring[k], key, distance
            if nearest < 0:
                continue
            for k in range(8):
                other = ring[k]
                if other >= 0:
                    if to_nearest + squared_distance(planes, i, other) < squared_distance(planes, nearest, other):
                        joins[i] = nearest


@kernel
def settle(root, joins, solid, size):
    """root = −1 outside zones: pixels alone, blended ones, and thin zones that lose one of these, which may fall apart."""
    for i in range(root.size):
        if joins[i] >= 0:
            size[root[i]] = 0
    for i in range(root.size):
        if size[root[i]] < 2:
            root[i] = -1
