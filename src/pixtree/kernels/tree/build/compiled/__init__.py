"""The tree, round by round, in numba: equal to the definition bit for bit.

It is fast because the first round works on the pixel grid without an edge list; later rounds work on a symmetric adjacency in
rows (planar graphs have few edges); ordering, merging, adjacency and picking are separate passes over arrays; the likelihood is
computed in blocks, so that its logarithm vectorises; and all of it happens in one reused slab of memory, since fresh pages cost
more than the arithmetic.

Kernels that loop over channels have a parameter `known`: a tuple whose length is their number where that is known when compiling
(3, or one of the widths of `lanes`; then those loops unroll), else empty.
Indices are unsigned, because signed ones pay for negative wrap-around.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numba.extending import register_jitable
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.arithmetic.compiled import from_bits, log_at_least_one
from pixtree.kernels.tree import Cost, Energy, MergeRule, Place, Tree
from pixtree.kernels.tree.build import definition
from pixtree.kernels.tree.build.compiled.adjacency import (
    adjacency_of_grid,
    adjacency_of_mask,
    adjacency_of_regions,
    image_sides,
    vertex_numbers,
)
from pixtree.kernels.tree.build.compiled.grouping import components_of_picks, gather_members, order_members
from pixtree.kernels.tree.build.compiled.lanes import LARGEST_LOGS, in_lanes, multiply_groups, row_factors
from pixtree.kernels.tree.build.compiled.picking import pick_on_grid, pick_regions
from pixtree.runtime.jit import inlined, kernel
from pixtree.runtime.threads import scratch

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_GROUP = CHANNELS_PER_LOG
_BLOCK = 256  # regions whose energies are computed together
LARGEST_IMAGE = 2**30  # nodes are int32
_GAUSSIAN, _WARD, _LIKELIHOOD = int(Cost.GAUSSIAN), int(Cost.WARD), int(Cost.LIKELIHOOD)


# A region is one row of float32: means (C), size and, where variances count, squared deviations (C), energy.
@kernel
def merge(known, single, source, groups, start, ordered, node, key, pick, target, new_node, tree, next_node, leaves, rule):
    """Join the members of every component one after another: rows of the new regions, and a tree node per join.

    source: planes (C, N) of pixels in the first round (`single` is a tuple of length one), else rows of regions. Where the energy
    needs logarithms, the node's factors wait in `factors` and its size in `energy` until `finish_gains`, where the logarithm
    vectorises.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    parent, left, right, altitude, gain, picked, energy, factors = tree
    leaf = len(single) > 0
    for group in range(groups):
        begin, end = _i8(start[group]), _i8(start[group + 1])
        first = _u8(ordered[begin])
        cluster = _i4(first) if leaf else node[first]
        if leaf:
            for c in range(channels):
                target[group, c] = source[c, first]
                if rule.variances:
                    target[group, channels + 1 + c] = _ZERO
            size = _ONE
        else:
            for c in range(channels):
                target[group, c] = source[first, c]
                if rule.variances:
                    target[group, channels + 1 + c] = source[first, channels + 1 + c]
            size = source[first, channels]
        for i in range(begin + 1, end):
            member = _u8(ordered[i])
            other = _ONE if leaf else source[member, channels]
            both = size + other
            spread, share = size * other / both, other / both
            scale = rule.inverse_floor / both
            k = next_node - leaves
            squares, product = _ZERO, _ONE
            for c in range(channels):
                step = (source[c, member] if leaf else source[member, c]) - target[group, c]
                target[group, c] += share * step
                squares += step * step
                if rule.variances:
                    deviation = target[group, channels + 1 + c]
                    if not leaf:
                        deviation += source[member, channels + 1 + c]
                    deviation += spread * step * step
                    target[group, channels + 1 + c] = deviation
                    product *= _ONE + deviation * scale
                    if rule.logarithmic and (c % _GROUP == _GROUP - 1 or c == channels - 1):
                        factors[c // _GROUP, k] = product
                        product = _ONE
            size = both
            absorbed = _i4(member) if leaf else node[member]
            left[k], right[k] = cluster, absorbed
            if picked.size > 0:
                picked[k] = _i4(pick[member]) if leaf else node[pick[member]]
            parent[cluster] = parent[absorbed] = _i4(next_node)
            altitude[next_node] = from_bits(_i4(key[member] >> 32))
            if rule.logarithmic:
                energy[next_node] = both
            else:
                gain[k] = squares * spread
            cluster = _i4(next_node)
            next_node += 1
        target[group, channels] = size
        new_node[group] = cluster
    return next_node


@kernel
def region_energies(known, groups, rows, rule):
    """Fill the energy of every row, n Σ_c log(1 + deviation_c / (n φ)), in blocks, so that the logarithm vectorises."""
    channels = len(known) if len(known) > 0 else rule.channels
    logs = (rule.channels + _GROUP - 1) // _GROUP
    factors, energy = np.empty((logs, _BLOCK), np.float32), np.empty(_BLOCK, np.float32)
    terms = np.ones((_BLOCK if in_lanes(known) else 1, LARGEST_LOGS * _GROUP), np.float32)
    for begin in range(0, groups, _BLOCK):
        count = min(groups - begin, _BLOCK)
        part = rows[begin : begin + count]
        for i in range(_u8(count)):
            scale = rule.inverse_floor / part[i, channels]
            if in_lanes(known):
                row_factors(known, part, i, scale, terms, i)
                continue
            product = _ONE
            for c in range(channels):
                product *= _ONE + part[i, channels + 1 + c] * scale
                if c % _GROUP == _GROUP - 1 or c == channels - 1:
                    factors[c // _GROUP, i] = product
                    product = _ONE
        if in_lanes(known):
            multiply_groups(count, terms, logs, factors)
        energy[:] = _ZERO
        for group in range(logs):
            for i in range(count):
                energy[i] += log_at_least_one(factors[group, i])
        for i in range(count):
            part[i, 2 * channels + 1] = part[i, channels] * energy[i]


@kernel
def finish_gains(inner, leaves, left, right, gain, energy, factors):
    """gain = energy of the node minus those of its children, never negative."""
    energy[:leaves] = _ZERO
    for k in range(inner):
        gain[k] = log_at_least_one(factors[0, k])
    for group in range(1, factors.shape[0]):
        for k in range(inner):
            gain[k] += log_at_least_one(factors[group, k])
    for k in range(inner):
        energy[leaves + k] *= gain[k]
    for k in range(_u8(inner)):
        gain[k] = max(energy[_u8(leaves) + k] - (energy[_u4(left[k])] + energy[_u4(right[k])]), _ZERO)


@register_jitable
def capacities(leaves: int, on_grid: bool) -> tuple[int, int, int, int]:
    """Most regions and adjacency slots, of the first level that has rows and of the level after it.

    Every component has two members or more, so each level has at most half the regions; planar graphs have fewer than 3n edges,
    which are in both rows.
    """
    if not on_grid:  # then the first level is the pixels themselves, and some may be alone
        return leaves + 1, 4 * leaves + 2, leaves + 1, 4 * leaves + 2
    half = leaves // 2 + 1
    quarter = half // 2 + 2
    return half, 6 * half + 2, quarter, 6 * quarter + 2


@inlined
def carve(slab, used, count):
    """The next `count` words of the slab, and where it is free from then on; even words only, so that they may be int64."""
    return slab[used : used + count], used + count + count % 2


@kernel
def grow(known, features, number, shape, on_grid, place, rule, slab, tree, level):
    """All rounds from pixels to one region per piece; fills `tree` and `level`.

    features: planes (C, M). number: (H, W) int32 vertices inside a mask, read unless `on_grid`. place: (first, stride, whether
    regions have names), see `Place`. Returns the number of rounds, the next free node, the number of pieces, and their nodes.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    leaves = features.shape[1]
    height, width = shape
    wide = 2 * channels + 2 if rule.variances else channels + 1
    half, edges, quarter, new_edges = capacities(leaves, on_grid)
    used = 0
    key_words, used = carve(slab, used, 2 * leaves)
    key = key_words.view(np.int64)
    pick, used = carve(slab, used, leaves)
    component, used = carve(slab, used, leaves)
    members, used = carve(slab, used, leaves)
    ordered, used = carve(slab, used, leaves)
    start, used = carve(slab, used, half + 1)
    best_words, used = carve(slab, used, half)
    best = best_words.view(np.int32)
    slot, used = carve(slab, used, half)
    row, used = carve(slab, used, half + 1)
    neighbour, used = carve(slab, used, edges)
    length, used = carve(slab, used, edges)
    rows_words, used = carve(slab, used, half * wide)
    rows = rows_words.view(np.float32).reshape(half, wide)
    node_words, used = carve(slab, used, half)
    node = node_words.view(np.int32)
    new_row, used = carve(slab, used, quarter + 1)
    new_neighbour, used = carve(slab, used, new_edges)
    new_length, used = carve(slab, used, new_edges)
    new_rows_words, used = carve(slab, used, quarter * wide)
    new_rows = new_rows_words.view(np.float32).reshape(quarter, wide)
    new_node_words, used = carve(slab, used, quarter)
    new_node = new_node_words.view(np.int32)
    side_words, used = carve(slab, used, leaves // 4 + 1)
    sides = side_words.view(np.uint8)
    first, stride, named = place
    names, used = carve(slab, used, half if named else 0)
    next_node, rounds = leaves, 0
    if on_grid:
        rounds = 1
        pick_on_grid(features, height, width, (first, stride), rule.cost != _GAUSSIAN, key, pick)
        count = components_of_picks(leaves, pick, component, start, neighbour, length)
        gather_members(leaves, count, component, start, members)
        order_members(count, start, members, key, pick, ordered)
        next_node = merge(known, (0,), features, count, start, ordered, node, key, pick, rows, node, tree, next_node, leaves, rule)
        image_sides(height, width, sides)
        adjacency_of_grid(width, count, start, members, component, sides, row, neighbour, length, slot)
        level[leaves:next_node] = 1
        for group in range(names.size and count):
            pixel = _i8(members[start[group]])
            names[group] = _u4(first + pixel // width * stride + pixel % width)
    else:
        count = leaves
        for i in range(leaves):
            node[i] = i
            for c in range(channels):
                rows[i, c] = features[c, i]
                if rule.variances:
                    rows[i, channels + 1 + c] = _ZERO
            rows[i, channels] = _ONE
        adjacency_of_mask(number, row, neighbour, length)
    while row[count] > row[0]:
        cost = _WARD if rule.cost == _LIKELIHOOD and rounds < rule.ward_rounds else rule.cost
        if cost == _LIKELIHOOD:
            region_energies(known, count, rows, rule)
        pick_regions(known, cost, count, row, neighbour, length, rows, rule, names, best, key, pick)
        rounds += 1
        groups = components_of_picks(count, pick, component, start, ordered, new_neighbour)
        gather_members(count, groups, component, start, members)
        order_members(groups, start, members, key, pick, ordered)
        before = next_node
        next_node = merge(
            known, (), rows, groups, start, ordered, node, key, pick, new_rows, new_node, tree, next_node, leaves, rule
        )
        level[before:next_node] = rounds
        for group in range(names.size and groups):
            names[group] = names[members[start[group]]]  # the first member is never before its group
        adjacency_of_regions(groups, start, members, component, row, neighbour, length, new_row, new_neighbour, new_length, slot)
        row, new_row = new_row, row
        neighbour, new_neighbour = new_neighbour, neighbour
        length, new_length = new_length, length
        rows, new_rows = new_rows, rows
        node, new_node = new_node, node
        count = groups
    return rounds, next_node, count, node


def slab_words(leaves: int, channels: int, on_grid: bool) -> int:
    """Words of 4 bytes that `grow` needs, and a little more."""
    half, edges, quarter, new_edges = capacities(leaves, on_grid)
    rows = (half + quarter) * (2 * channels + 3) + half
    return 7 * leaves + 5 * half + quarter + 2 * edges + 2 * new_edges + rows + 64


class _KernelRule(NamedTuple):
    """MergeRule in the types that the kernels are compiled for."""

    cost: int
    logarithmic: bool  # whether nodes are priced by logarithms of their variances
    variances: bool  # whether anything needs variances at all
    inverse_floor: Any
    length_quarters: int
    ward_rounds: int
    channels: int


def check_size(leaves: int) -> None:
    """Refuse images whose nodes int32 cannot number."""
    if leaves > LARGEST_IMAGE:
        raise ValueError(f"a tree has at most 2³⁰ pixels, got {leaves}; cut the image into tiles")


def kernel_rule(rule: MergeRule, channels: int) -> _KernelRule:
    """The rule as the kernels take it."""
    logarithmic = rule.energy == Energy.LOG_VARIANCE
    variances = logarithmic or rule.cost == Cost.LIKELIHOOD
    inverse_floor = _ONE / _f4(rule.floor)
    return _KernelRule(int(rule.cost), logarithmic, variances, inverse_floor, rule.length_quarters, rule.ward_rounds, channels)


def build(features: Tensor, inside: Tensor, rule: MergeRule, picks: bool = False, place: Place | None = None) -> Tree:
    """The tree of the pixels inside a mask (H, W); features are planes (C, M) float32 of its M pixels in raster order.

    picks: also keep which region every absorbed member had picked. place: where the pixels lie, see `Place`. Linear time in
    practice. Sizes in costs are float32: exact up to 2²⁴ pixels per region.
    """
    channels, leaves = features.shape
    check_size(leaves)
    whole = bool(inside.all())
    on_grid = whole and leaves > 1 and rule.cost not in (Cost.COSINE, Cost.TANIMOTO)
    if place is not None and not on_grid:
        return definition.build(features, inside, rule, picks, place)
    compiled_rule = kernel_rule(rule, channels)
    logarithmic = compiled_rule.logarithmic
    parent = np.empty(2 * leaves - 1, np.int32)
    parent[-1] = -1
    left, right = np.empty(leaves - 1, np.int32), np.empty(leaves - 1, np.int32)
    level, altitude = np.zeros(2 * leaves - 1, np.int16), np.zeros(2 * leaves - 1, np.float32)
    gain = np.empty(leaves - 1, np.float32)
    words = slab_words(leaves, channels, on_grid)
    logs = -(-channels // _GROUP) if logarithmic else 1
    slab = scratch("tree", words + (2 + logs) * leaves)
    energy = slab[words : words + 2 * leaves].view(np.float32)
    factors = slab[words + 2 * leaves : words + 2 * leaves + logs * (leaves - 1)].view(np.float32).reshape(logs, leaves - 1)
    picked = np.empty(leaves - 1 if picks else 0, np.int32)
    tree = (parent, left, right, altitude, gain, picked, energy, factors)
    known = (0, 0, 0) if channels == 3 else ()
    planes = features.contiguous().numpy()
    number = np.zeros((1, 1), np.int32) if on_grid else vertex_numbers(inside)
    shape = (int(inside.shape[0]), int(inside.shape[1]))
    names = (0, shape[1], False) if place is None else (int(place.first), int(place.width), True)
    rounds, next_node, pieces, node = grow(known, planes, number, shape, on_grid, names, compiled_rule, slab, tree, level)
    if logarithmic:
        finish_gains(next_node - leaves, leaves, left, right, gain, energy, factors)
    join_pieces(pieces, node, next_node, leaves, rounds + 1, parent, left, right, level, altitude, gain, picked)
    return Tree(*(torch.from_numpy(field) for field in (parent, left, right, level, altitude, gain, picked)))


@kernel
def join_pieces(pieces, node, next_node, leaves, level_above, parent, left, right, level, altitude, gain, picked):
    """Join the pieces that do not touch, so that the tree has one root."""
    cluster = node[0]
    for piece in range(1, pieces):
        k = next_node - leaves
        left[k], right[k] = cluster, node[piece]
        parent[cluster] = parent[node[piece]] = _i4(next_node)
        level[next_node] = level_above
        altitude[next_node] = gain[k] = _f4(np.inf)
        if picked.size > 0:
            picked[k] = cluster
        cluster = _i4(next_node)
        next_node += 1
