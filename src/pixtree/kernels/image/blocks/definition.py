"""Block moves, sequential by nature and written once in plain loops: Python interprets them here, `compiled` compiles them.

A block is a connected piece of a region, such as a region of a finer nested cut. A region of n pixels with variances σ_c² has the
energy n Σ_c (log(1 + σ_c²/φ) + ATTRACTION σ_c²/φ): the energy that cuts minimise, and a share of the plain squared error.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.image.polish.definition import logarithm

ATTRACTION = 0.1  # weight of the squared error next to the likelihood, in units of 1/φ
LEAST_GAIN = 0.02  # of energy per pixel of a block that moves; smaller gains say little about where it belongs

NO_ZONES = np.empty((0, 0), np.int32)

Labels = NDArray[np.int32]
Numbers = NDArray[np.int64]
Values = NDArray[np.float64]


def move_blocks(
    labels: Tensor, blocks: Tensor, features: Tensor, sweeps: int, floor: float, zones: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Labels (H, W) int32 after blocks have moved between regions: see `move_in_place`; features are planes (C, H, W) float32.

    blocks: (L, H, W) int32, coarse to fine. Labels and blocks count from 0 and are −1 outside. Regions and blocks are 4-connected,
    and a block lies in one region and in one block of every coarser level.
    zones: (H, W) int32, the flat zone of every pixel, −1 where it has none.
    """
    moved = labels.cpu().numpy().copy()
    flat = NO_ZONES if zones is None else zones.cpu().numpy()
    counts = (int(labels.max()) + 1, int(blocks[-1].max()) + 1)
    move_in_place((), moved, blocks.cpu().numpy(), features.cpu().numpy(), flat, *counts, sweeps, floor)
    return torch.from_numpy(moved).to(labels.device)


def move_in_place(
    known: tuple[int, ...],
    labels: Labels,
    blocks: Labels,
    features: NDArray[np.float32],
    zones: Labels,
    regions: int,
    count: int,
    sweeps: int,
    floor: float,
) -> None:
    """Move each block, level by level, to the neighbouring region where the energy of the two regions falls the most; in place.

    It moves only if that gains more than LEAST_GAIN per pixel and its old region stays connected, so the energy falls with every
    move, and the count of regions and their connectivity hold. A block that has a part of a flat zone never moves. O(pixels), and
    per sweep O(blocks) plus the searches for connections, which end as soon as the neighbours of a block are found.

    known: one entry per channel, or none: loops of a length that is known to the compiler are twice as fast. count: blocks of the
    finest level.
    """
    levels, height, width = blocks.shape
    sums, owner, group = (
        np.zeros((count, 1 + 2 * features.shape[0])),
        np.zeros(count, np.int64),
        np.zeros((levels, count), np.int64),
    )
    sides = np.empty((2 * labels.size, 3), np.int32)
    sum_blocks(known, labels, blocks, features, owner, group, sums)
    found = find_sides(blocks[levels - 1], zones, sides, np.full((2, count), -1, np.int32))
    for level in range(levels):
        move_level(known, owner, group[level], sums, sides, found, regions, sweeps, 1.0 / floor)
    for y in range(height):
        for x in range(width):
            block = blocks[levels - 1, y, x]
            if block >= 0:
                labels[y, x] = owner[block]


def sum_blocks(
    known: tuple[int, ...],
    labels: Labels,
    blocks: Labels,
    features: NDArray[np.float32],
    owner: Numbers,
    group: Numbers,
    sums: Values,
) -> None:
    """The region of every finest block, its block in every level, and its row of sums: pixels, channels, then their squares."""
    levels, height, width = blocks.shape
    channels = len(known) if len(known) > 0 else features.shape[0]
    for y in range(height):
        for x in range(width):
            block = blocks[levels - 1, y, x]
            if block >= 0:
                if sums[block, 0] == 0.0:
                    owner[block] = labels[y, x]
                    for level in range(levels):
                        group[level, block] = blocks[level, y, x]
                sums[block, 0] += 1.0
                for c in range(channels):
                    value = np.float64(features[c, y, x])
                    sums[block, 1 + c] += value
                    sums[block, 1 + channels + c] += value * value


def find_sides(blocks: Labels, zones: Labels, sides: Labels, partner: Labels) -> int:
    """Write which blocks touch, as pairs that may repeat, and whether they touch inside a zone; returns the number of pairs.

    partner: (2, blocks), −1 on entry, the last one that was written to the right of a block and below it: most sides repeat it.
    """
    height, width = blocks.shape
    found = 0
    for y in range(height):
        for x in range(width):
            a = blocks[y, x]
            if a < 0:
                continue
            for below in range(2):
                v, u = y + below, x + 1 - below
                if v == height or u == width:
                    continue
                b = blocks[v, u]
                if a == b or b < 0:
                    continue
                inside = zones.size > 0 and zones[y, x] >= 0 and zones[y, x] == zones[v, u]
                if not inside and partner[below, a] == b:
                    continue
                partner[below, a] = b
                sides[found, 0] = a
                sides[found, 1] = b
                sides[found, 2] = 1 if inside else 0
                found += 1
    return found


def move_level(
    known: tuple[int, ...],
    owner: Numbers,
    group: Numbers,
    sums: Values,
    sides: Labels,
    found: int,
    regions: int,
    sweeps: int,
    inverse_floor: float,
) -> None:
    """Move the blocks of one level, groups of the finest ones, in sweeps by first pixel and back in turns.

    The first two sweeps look at every block, later ones at those next to a block that has moved.
    owner: the regions of the finest blocks, in place; sums: their rows.
    """
    count = 0
    for block in range(owner.size):
        count = max(count, group[block] + 1)
    rows, totals = np.zeros((count, sums.shape[1])), np.zeros((regions, sums.shape[1]))
    home, fixed = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    begin, neighbour, search = np.zeros(count + 1, np.int64), np.empty(2 * found, np.int64), np.zeros((2, count), np.int64)
    energies, tried = np.zeros(regions), np.zeros(regions, np.int64)
    changed, looked = np.ones(count, np.int64), np.zeros(count, np.int64)  # stamps of the last times
    for block in range(owner.size):
        home[group[block]] = owner[block]
        add_row(rows, group[block], sums, block, 1.0)
        add_row(totals, owner[block], sums, block, 1.0)
    link_blocks(sides, found, group, begin, neighbour, fixed, search[0])
    for region in range(regions):
        energies[region] = energy_with(known, totals, region, rows, 0, 0.0, inverse_floor)
    stamp = 0
    for sweep in range(sweeps):
        moved = False
        for i in range(count):
            block = i if sweep % 2 == 0 else count - 1 - i
            old = home[block]
            if fixed[block] or totals[old, 0] == rows[block, 0]:
                continue
            if sweep > 1 and not has_news(block, begin, neighbour, changed, looked[block]):
                continue
            stamp += 1
            looked[block] = stamp
            new = best_region(known, block, home, begin, neighbour, rows, totals, energies, tried, stamp, inverse_floor)
            if new == old or not stays_connected(block, home, begin, neighbour, search, stamp):
                continue
            home[block] = new
            changed[block] = stamp
            moved = True
            for region, sign in ((old, -1.0), (new, 1.0)):
                add_row(totals, region, rows, block, sign)
                energies[region] = energy_with(known, totals, region, rows, block, 0.0, inverse_floor)
        if not moved:
            break
    for block in range(owner.size):
        owner[block] = home[group[block]]


def link_blocks(
    sides: Labels, found: int, group: Numbers, begin: Numbers, neighbour: Numbers, fixed: NDArray[np.bool_], end: Numbers
) -> None:
    """The neighbours of each block, a group of finest ones, once each: neighbour[begin[block]:begin[block + 1]].

    fixed: whether a block has a part of a zone whose other pixels are in other blocks. begin, fixed and the scratch `end`, one per
    block, are zeros on entry, and end is zeros again at the end.
    """
    count = end.size
    for i in range(found):
        a, b = group[sides[i, 0]], group[sides[i, 1]]
        if a != b:
            begin[a + 1] += 1
            begin[b + 1] += 1
            if sides[i, 2] > 0:
                fixed[a] = True
                fixed[b] = True
    for block in range(count):
        begin[block + 1] += begin[block]
        end[block] = begin[block]
    for i in range(found):
        a, b = group[sides[i, 0]], group[sides[i, 1]]
        if a != b:
            neighbour[end[a]] = b
            neighbour[end[b]] = a
            end[a] += 1
            end[b] += 1
    for block in range(count):
        end[block] = -1  # from here on the last block that has it as its neighbour
    kept, first = 0, 0
    for block in range(count):
        last = begin[block + 1]
        for side in range(first, last):
            other = neighbour[side]
            if end[other] != block:
                end[other] = block
                neighbour[kept] = other
                kept += 1
        first = last
        begin[block + 1] = kept
    for block in range(count):
        end[block] = 0


def add_row(totals: Values, region: int, sums: Values, block: int, sign: float) -> None:
    """Add a block to the sums of a region, or take it away."""
    for column in range(sums.shape[1]):
        totals[region, column] += sign * sums[block, column]


def energy_with(
    known: tuple[int, ...], totals: Values, region: int, sums: Values, block: int, sign: float, inverse_floor: float
) -> float:  # fmt: skip
    """The energy of a region with a block added (sign 1), taken away (−1) or neither (0)."""
    channels = len(known) if len(known) > 0 else (sums.shape[1] - 1) // 2
    size = totals[region, 0] + sign * sums[block, 0]
    share = 1.0 / size
    product, logarithms, spread = 1.0, 0.0, 0.0
    for c in range(channels):
        mean = (totals[region, 1 + c] + sign * sums[block, 1 + c]) * share
        square = (totals[region, 1 + channels + c] + sign * sums[block, 1 + channels + c]) * share
        variance = max(square - mean * mean, 0.0) * inverse_floor
        product *= 1.0 + variance
        spread += variance
        if c % CHANNELS_PER_LOG == CHANNELS_PER_LOG - 1 or c == channels - 1:
            logarithms += logarithm(product)
            product = 1.0
    return float(size * (logarithms + ATTRACTION * spread))


def has_news(block: int, begin: Numbers, neighbour: Numbers, changed: Numbers, looked: int) -> bool:
    """Whether a block next to this one has moved since this one was looked at and stayed.

    Moves further away change the sums of its regions as well, but too little to be worth another look.
    """
    for side in range(begin[block], begin[block + 1]):  # noqa: SIM110 (numba compiles no generators)
        if changed[neighbour[side]] >= looked:
            return True
    return False


def best_region(
    known: tuple[int, ...],
    block: int,
    owner: Numbers,
    begin: Numbers,
    neighbour: Numbers,
    sums: Values,
    totals: Values,
    energies: Values,
    tried: Numbers,
    stamp: int,
    inverse_floor: float,
) -> int:
    """The neighbouring region that a block should move to, or its own; tried[region] = `stamp` marks those that were looked at."""
    old = owner[block]
    best, least = old, -LEAST_GAIN * sums[block, 0]
    tried[old] = stamp
    leaving = 0.0
    for side in range(begin[block], begin[block + 1]):
        region = owner[neighbour[side]]
        if tried[region] == stamp:
            continue
        tried[region] = stamp
        if leaving == 0.0:
            leaving = energy_with(known, totals, old, sums, block, -1.0, inverse_floor) - energies[old]
        change = leaving + energy_with(known, totals, region, sums, block, 1.0, inverse_floor) - energies[region]
        if change < least:
            best, least = region, change
    return int(best)


def stays_connected(block: int, owner: Numbers, begin: Numbers, neighbour: Numbers, search: Numbers, stamp: int) -> bool:
    """Whether the region of a block stays connected without it: from one of its neighbours there, the search finds all others.

    search: (2, blocks), marks of the blocks and the queue; marks are unique to `stamp`.
    """
    mark, queue = search[0], search[1]
    wanted, reached = 2 * stamp, 2 * stamp + 1
    region = owner[block]
    left = 0
    for side in range(begin[block], begin[block + 1]):
        other = neighbour[side]
        if owner[other] == region:
            mark[other] = wanted
            queue[0] = other
            left += 1
    if left < 2:
        return left == 1
    mark[block], mark[queue[0]] = reached, reached
    left -= 1
    head, last = 0, 1
    while head < last:
        here = queue[head]
        head += 1
        for side in range(begin[here], begin[here + 1]):
            other = neighbour[side]
            if owner[other] != region or mark[other] == reached:
                continue
            if mark[other] == wanted:
                left -= 1
                if left == 0:
                    return True
            mark[other] = reached
            queue[last] = other
            last += 1
    return False
