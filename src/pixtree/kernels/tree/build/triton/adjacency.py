"""Which regions touch, in a table per image: ordered hashing, so that its layout does not depend on who comes first.

A slot keeps the least pair that was ever offered to it, and whoever displaces a pair carries that one on to the next slot. So one
`atomic_min` per step is enough, the table is the same for every order of insertion, and a pair is found where the first pair not
below it stands on its path. Lengths are added in a second pass, when the table stands.
"""

import triton
import triton.language as tl

from pixtree.kernels.arithmetic.triton import FAR, edge_hash, pair_of
from pixtree.kernels.tree.build.triton.picking import edges_of, neighbour


@triton.jit
def slot_of(pair, last):
    """Where the path of a pair begins in a table whose slots are 0 to `last`, one less than a power of two."""
    return (edge_hash((pair >> 32).to(tl.uint32), pair.to(tl.uint32)) & last.to(tl.uint32)).to(tl.int32)


@triton.jit
def insert(table, at, pair, last, going):
    """Offer pairs to the tables that begin at `at`; equal ones are kept once."""
    slot = slot_of(pair, last + tl.zeros(going.shape, tl.int32))
    while tl.max(going.to(tl.int32), 0) > 0:
        seen = tl.load(table + at + slot, mask=going, other=FAR)
        take = going & (seen > pair)
        old = tl.where(take, tl.atomic_min(table + at + slot, pair, mask=take, sem="relaxed"), seen)
        going = going & (old != pair) & ((take & (old == FAR)) == 0)
        pair = tl.where(take & (old > pair), old, pair)
        slot = tl.where(going, (slot + 1) & last, slot)


@triton.jit
def lengthen(table, lengths, at, pair, length, last, there):
    """Add to the lengths of pairs that are in the tables."""
    slot = slot_of(pair, last + tl.zeros(there.shape, tl.int32))
    going = there & (tl.load(table + at + slot, mask=there, other=FAR) != pair)
    while tl.max(going.to(tl.int32), 0) > 0:
        slot = tl.where(going, (slot + 1) & last, slot)
        going = going & (tl.load(table + at + slot, mask=going, other=FAR) != pair)
    tl.atomic_add(lengths + at + slot, length, mask=there, sem="relaxed")


@triton.jit
def clear_tables(table, lengths, groups, lanes, shift, BLOCK: tl.constexpr):
    """Empty tables for the images that are still growing; the others need none."""
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    growing = (e < lanes) & (tl.load(groups + (e >> shift), mask=e < lanes, other=0) > 1)
    tl.store(table + e, tl.full([BLOCK], FAR, tl.int64), mask=growing)
    tl.store(lengths + e, tl.zeros([BLOCK], tl.int32), mask=growing)


@triton.jit
def touch_leaves(
    component, near, table, lengths, lanes, M, H, W, last, shift,
    MASKED: tl.constexpr, LENGTHS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Insert the components that pixels and those right of and below them belong to, or add up the lengths."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = lane // M
    p = lane - image * M
    base, at = image.to(tl.int64) * M, image.to(tl.int64) << shift
    a = tl.load(component + lane, mask=there, other=0)
    for k in tl.static_range(2, 4):
        q = neighbour(near, p, there, M, H, W, k, MASKED)
        b = tl.load(component + base + q, mask=q >= 0, other=0)
        apart = (q >= 0) & (a != b)
        if LENGTHS:
            lengthen(table, lengths, at, pair_of(a, b), tl.full([BLOCK], 1, tl.int32), last, apart)
        else:
            insert(table, at, pair_of(a, b), last, apart)


@triton.jit
def touch_regions(
    pairs, old_lengths, count, component, table, lengths, lanes, old_shift, N, last, shift,
    LENGTHS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The same for the edges of regions, which are in the tables of the level below."""
    e, pair, there = edges_of(pairs, count, lanes, old_shift, BLOCK)
    image = (e >> old_shift).to(tl.int64)
    a = tl.load(component + image * N + tl.where(there, pair >> 32, 0), mask=there, other=0)
    b = tl.load(component + image * N + tl.where(there, pair & 0xFFFFFFFF, 0), mask=there, other=0)
    apart = there & (a != b)
    if LENGTHS:
        length = tl.load(old_lengths + e, mask=apart, other=0)
        lengthen(table, lengths, image << shift, pair_of(a, b), length, last, apart)
    else:
        insert(table, image << shift, pair_of(a, b), last, apart)
