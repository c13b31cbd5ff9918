"""Flat zones in Triton: which pixels are connected at no difference, which images of a batch are drawn, and their zones."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.arithmetic.triton import FAR, order_key
from pixtree.kernels.tree import Place
from pixtree.kernels.tree.build.triton.grouping import settled
from pixtree.kernels.tree.build.triton.leaves import Leaves, leaves_of, whole
from pixtree.kernels.tree.build.triton.picking import neighbour
from pixtree.kernels.tree.zones import LARGE, Zones, definition, fewest_in_zones
from pixtree.runtime.launch import WARP, filled, launch, unset

_LARGE = tl.constexpr(LARGE)


def equal_components(features: Tensor, inside: Tensor) -> Tensor:
    """The first pixel of the 4-connected pixels of one colour that each pixel is among, (M,) int32; features are planes (C, M)."""
    return roots(features[None].contiguous(), leaves_of(inside))[0]


def roots(planes: Tensor, leaves: Leaves) -> Tensor:
    """The same of a batch: (B, M) int32 from planes (B, C, M)."""
    images, channels, pixels = planes.shape
    root = torch.arange(pixels, dtype=torch.int32, device=planes.device).repeat(images)
    near, masked = (planes, False) if leaves.near is None else (leaves.near, True)
    lanes = images * pixels
    launch(unite_equals, lanes, planes, near, root, lanes, pixels, *leaves.shape, C=channels, MASKED=masked)
    return settled(root, filled(images, pixels, torch.int32, planes), pixels).view(images, pixels)


class ZonesOfBatch(NamedTuple):
    """`Zones` of images without a mask, all (B, M); images that are not drawn have none."""

    drawn: Tensor  # (B,) bool
    root: Tensor
    joins: Tensor
    solid: Tensor


def drawn(planes: Tensor, leaves: Leaves) -> Tensor:
    """Which images of a batch have flat zones that count, (B,) bool, from planes (B, C, M)."""
    return _large_zones(planes, leaves)[2]


def _large_zones(planes: Tensor, leaves: Leaves) -> tuple[Tensor, Tensor, Tensor]:
    """The first pixel of the zone of every pixel, how many others are in the zone of a first pixel, and which images are drawn."""
    images, _, pixels = planes.shape
    root, lanes = roots(planes, leaves).flatten(), images * pixels
    more, large = filled(lanes, 0, torch.int32, planes), torch.empty((images, pixels), dtype=torch.bool, device=planes.device)
    launch(count_pixels, lanes, root, more, lanes, pixels)
    launch(mark_large, lanes, root, more, large.view(torch.uint8), lanes, pixels)
    return root, more, large.sum(1) >= fewest_in_zones(pixels)


def zones_of_batch(planes: Tensor, shape: tuple[int, int]) -> ZonesOfBatch:
    """The flat zones of planes (B, C, H·W) that count, and the blended pixels between them."""
    images, channels, pixels = planes.shape
    root, more, is_drawn = _large_zones(planes, whole(shape))
    lanes, chosen = images * pixels, is_drawn.view(torch.uint8)
    blocks, torn = (filled(lanes, 0, torch.uint8, planes) for _ in range(2))
    joins, zone = (unset(lanes, torch.int32, planes) for _ in range(2))
    solid = unset(lanes, torch.bool, planes)
    launch(mark_blocks, lanes, root, blocks, chosen, lanes, pixels, *shape)
    launch(
        find_blends, lanes, planes, root, blocks, chosen, joins, torn, lanes, pixels, *shape, 0, shape[1],
        C=channels, BY_ZONE=True, block=WARP,
    )  # fmt: skip
    launch(keep_zones, lanes, root, more, blocks, torn, chosen, zone, solid.view(torch.uint8), lanes, pixels)
    return ZonesOfBatch(is_drawn, *(one.view(images, pixels) for one in (zone, joins, solid)))


def flat_zones(features: Tensor, inside: Tensor) -> Zones | None:
    """The zones of the pixels inside a mask (H, W), None where large ones cover too little of it; features are planes (C, M)."""
    leaves = leaves_of(inside)
    if leaves.near is not None:
        return definition.flat_zones(features, inside)
    found = zones_of_batch(features[None].contiguous(), leaves.shape)
    return Zones(*(one[0] for one in found[1:])) if bool(found.drawn[0]) else None


def blends(features: Tensor, inside: Tensor, solid: Tensor, place: Place) -> Tensor:
    """The pixel of a solid zone that a blended pixel joins, (M,) int32, −1 where none; see the definition."""
    leaves = leaves_of(inside)
    if leaves.near is not None:
        return definition.blends(features, inside, solid, place)
    pixels, planes = leaves.pixels, features.contiguous()
    joins, drawn, torn = unset(pixels, torch.int32, planes), filled(1, 1, torch.uint8, planes), unset(0, torch.uint8, planes)
    launch(
        find_blends, pixels, planes, joins, solid.contiguous().view(torch.uint8), drawn, joins, torn, pixels, pixels, *leaves.shape,
        place.first, place.width, C=len(features), BY_ZONE=False, block=WARP,
    )  # fmt: skip
    return joins


@triton.jit
def unite_equals(planes, near, root, lanes, M, H, W, C: tl.constexpr, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    """Hang the larger of two roots under the smaller one, for every pixel and those of its colour right of and below it.

    An atomic minimum that finds another root than it expected goes on with that one. Roots only become smaller, so a lane may read
    an old one: it takes longer, and ends at the same.
    """
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // M).to(tl.int64)
    p = (lane - image * M).to(tl.int32)
    values, base = planes + image * C * M, root + image * M
    for k in tl.static_range(2, 4):
        q = neighbour(near, p, there, M, H, W, k, MASKED)
        going = q >= 0
        for c in range(C):  # not unrolled, which would hold the values of all channels
            mine, theirs = tl.load(values + c * M + p, mask=going, other=0.0), tl.load(values + c * M + q, mask=going, other=0.0)
            going = going & (mine == theirs)
        a, b = p, q
        while tl.max(going.to(tl.int32), 0) > 0:
            low, high = tl.minimum(a, b), tl.maximum(a, b)
            above = tl.load(base + high, mask=going, other=0)
            is_root = going & (above == high)
            old = tl.atomic_min(base + high, low, mask=is_root, sem="relaxed")
            above = tl.where(is_root, old, above)  # another root, or the same: then the two are one
            going = going & (above != low) & ((is_root & (above == high)) == 0)
            a, b = tl.where(going, above, low), low
    # The order of programs decides how long the chains are, not where they end.


@triton.jit
def count_pixels(root, more, lanes, M, BLOCK: tl.constexpr):
    """more[root] = the pixels that hang under it, but for itself: photographs have few, and need few atomics."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // M).to(tl.int64)
    top = image * M + tl.load(root + lane, mask=there, other=0)
    tl.atomic_add(more + top, 1, mask=there & (top != lane), sem="relaxed")


@triton.jit
def mark_large(root, more, large, lanes, M, BLOCK: tl.constexpr):
    """large = whether a pixel is in a zone of `LARGE` pixels or more."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // M).to(tl.int64)
    count = tl.load(more + image * M + tl.load(root + lane, mask=there, other=0), mask=there, other=0) + 1
    tl.store(large + lane, (count >= _LARGE).to(tl.uint8), mask=there)


@triton.jit
def pixel_of(chosen, lanes, M, BLOCK: tl.constexpr):
    """The pixel of every lane, where its image begins, and whether it is there, in an image that is chosen."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = lane // M
    there = (lane < lanes) & (tl.load(chosen + image, mask=lane < lanes, other=0) != 0)
    return lane, (lane - image * M).to(tl.int32), image.to(tl.int64) * M, there


@triton.jit
def mark_blocks(root, blocks, chosen, lanes, M, H, W, BLOCK: tl.constexpr):
    """blocks[root] = 1 for zones with a block of 2 × 2 pixels."""
    lane, p, base, there = pixel_of(chosen, lanes, M, BLOCK)
    corner = there & (p % W < W - 1) & (p < M - W)
    first = tl.load(root + lane, mask=corner, other=-1)
    for k in tl.static_range(1, 4):
        further = k % 2 + k // 2 * W
        corner = corner & (tl.load(root + lane + further, mask=corner, other=-1) == first)
    tl.store(blocks + base + first, tl.full([BLOCK], 1, tl.uint8), mask=corner)


@triton.jit
def around(p, there, H, W, k: tl.constexpr):
    """The k-th of the eight neighbours of a pixel, −1 where none is: above, left, right, below, and then the corners."""
    y = p // W
    x = p - y * W
    down: tl.constexpr = -1 if k == 0 or k == 4 or k == 5 else (1 if k == 3 or k == 6 or k == 7 else 0)
    right: tl.constexpr = -1 if k == 1 or k == 4 or k == 6 else (1 if k == 2 or k == 5 or k == 7 else 0)
    on = there & (y + down >= 0) & (y + down < H) & (x + right >= 0) & (x + right < W)
    return tl.where(on, p + down * W + right, -1)


@triton.jit
def squared(values, p, q, on, M, C: tl.constexpr):
    """The squared distance of two pixels, added in the order of the channels."""
    total = tl.zeros(p.shape, tl.float32)
    for c in range(C):
        step = tl.load(values + c * M + q, mask=on, other=0.0) - tl.load(values + c * M + p, mask=on, other=0.0)
        total += step * step
    return total


@triton.jit
def solid_neighbour(p, base, root, solid, going, H, W, k: tl.constexpr, BY_ZONE: tl.constexpr):
    """The k-th neighbour, and whether it is in a solid zone. solid: of pixels, or BY_ZONE of their zones' first pixels."""
    q = around(p, going, H, W, k)
    at = tl.load(root + base + q, mask=q >= 0, other=0) if BY_ZONE else q
    return q, (q >= 0) & (tl.load(solid + base + at, mask=q >= 0, other=0) != 0)


@triton.jit
def find_blends(
    planes, root, solid, chosen, joins, torn, lanes, M, H, W, first, width, C: tl.constexpr, BY_ZONE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """joins = the pixel that a blended pixel joins, −1 where none; torn[root] = 1 of zones that lose one."""
    lane, p, base, there = pixel_of(chosen, lanes, M, BLOCK)
    values = planes + base * C
    own = tl.load(root + lane, mask=there, other=0) if BY_ZONE else p
    going = there & (tl.load(solid + base + own, mask=there, other=1) == 0)
    key, nearest, to_nearest = tl.full([BLOCK], FAR, tl.int64), p, tl.zeros([BLOCK], tl.float32)
    name = first + p // W * width + p % W
    for k in tl.static_range(4):
        q, on = solid_neighbour(p, base, root, solid, going, H, W, k, BY_ZONE)
        distance = squared(values, p, q, on, M, C)
        other = first + q // W * width + q % W
        one = order_key(distance, other, name) if k < 2 else order_key(distance, name, other)
        nearer = on & (one < key)
        key, nearest = tl.where(nearer, one, key), tl.where(nearer, q, nearest)
        to_nearest = tl.where(nearer, distance, to_nearest)
    going = going & (key < FAR)
    between = going & (p < 0)
    for k in tl.static_range(8):
        q, on = solid_neighbour(p, base, root, solid, going, H, W, k, BY_ZONE)
        apart = squared(values, nearest, q, on, M, C)
        between = between | (on & (to_nearest + squared(values, p, q, on, M, C) < apart))
    tl.store(joins + lane, tl.where(between, nearest, -1), mask=lane < lanes)
    if BY_ZONE:
        tl.store(torn + base + own, tl.full([BLOCK], 1, tl.uint8), mask=between)


@triton.jit
def keep_zones(root, more, blocks, torn, chosen, zone, solid, lanes, M, BLOCK: tl.constexpr):
    """zone = the first pixel of a zone that is solid, or thin and whole, and has several pixels; −1 elsewhere."""
    lane, p, base, there = pixel_of(chosen, lanes, M, BLOCK)
    first = tl.load(root + lane, mask=there, other=0)
    has_block = there & (tl.load(blocks + base + first, mask=there, other=0) != 0)
    thin = (tl.load(torn + base + first, mask=there, other=1) == 0) & (tl.load(more + base + first, mask=there, other=0) > 0)
    tl.store(zone + lane, tl.where(has_block | (there & thin), first, -1), mask=lane < lanes)
    tl.store(solid + lane, has_block.to(tl.uint8), mask=lane < lanes)
