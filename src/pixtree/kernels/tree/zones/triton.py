"""Flat zones in Triton: which pixels are connected at no difference, and which images of a batch are drawn."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.tree.build.triton.grouping import settled
from pixtree.kernels.tree.build.triton.leaves import Leaves, leaves_of
from pixtree.kernels.tree.build.triton.picking import neighbour
from pixtree.kernels.tree.zones import LARGE, fewest_in_zones
from pixtree.runtime.launch import filled, launch

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


def drawn(planes: Tensor, leaves: Leaves) -> Tensor:
    """Which images of a batch have flat zones that count, (B,) bool, from planes (B, C, M)."""
    images, _, pixels = planes.shape
    root, lanes = roots(planes, leaves).flatten(), images * pixels
    more, large = filled(lanes, 0, torch.int32, planes), torch.empty((images, pixels), dtype=torch.bool, device=planes.device)
    launch(count_pixels, lanes, root, more, lanes, pixels)
    launch(mark_large, lanes, root, more, large.view(torch.uint8), lanes, pixels)
    return large.sum(1) >= fewest_in_zones(pixels)


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
