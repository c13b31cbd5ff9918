"""The tree, round by round, in numba: equal to the definition bit for bit.

It is fast because the first round works on the pixel grid without an edge list; later rounds work on a symmetric adjacency in
rows (planar graphs have few edges); ordering, merging, adjacency and picking are separate passes over arrays; the likelihood is
computed in blocks, so that its logarithm vectorises; and all of it happens in one reused slab of memory, since fresh pages cost
more than the arithmetic.

Kernels that loop over channels have a parameter `known`: a tuple whose length is their number where that is known when compiling
(3, or one of the widths of `lanes`; then those loops unroll), else empty.
Indices are unsigned, because signed ones pay for negative wrap-around.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numba.extending import register_jitable
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.tree import Cost, Edges, Energy, MergeRule, Place, Tree
from pixtree.kernels.tree.build import definition
from pixtree.kernels.tree.build.compiled.adjacency import (
    adjacency_of_grid,
    adjacency_of_mask,
    adjacency_of_regions,
    image_sides,
)
from pixtree.kernels.tree.build.compiled.grouping import components_of_picks, gather_members, order_members
from pixtree.kernels.tree.build.compiled.joining import finish_gains, join_pieces, merge, pick_firsts, region_energies
from pixtree.kernels.tree.build.compiled.picking import TreeZones, pick_on_grid, pick_regions, pick_zones
from pixtree.kernels.tree.zones import Zones
from pixtree.kernels.tree.zones.compiled import NO_ZONES, ZoneArrays, arrays_of, vertex_numbers, zones_of, zones_on_grid
from pixtree.runtime.jit import kernel
from pixtree.runtime.threads import scratch

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_GROUP = CHANNELS_PER_LOG
LARGEST_IMAGE = 2**30  # nodes are int32
_GAUSSIAN, _WARD, _LIKELIHOOD = int(Cost.GAUSSIAN), int(Cost.WARD), int(Cost.LIKELIHOOD)
NO_TREE_ZONES = TreeZones(*(np.empty(0, np.int32) for _ in range(4)))


@register_jitable
def capacities(leaves: int, on_grid: bool, slots: int = 4) -> tuple[int, int, int, int]:
    """Most regions and adjacency slots, of the first level that has rows and of the level after it.

    Every component has two members or more, so each level has at most half the regions; planar graphs have fewer than 3n edges,
    which are in both rows. slots: per pixel or region, where these are the first level.
    """
    if not on_grid:  # then the first level is the pixels themselves, and some may be alone
        return leaves + 1, slots * leaves + 2, leaves + 1, slots * leaves + 2
    half = leaves // 2 + 1
    quarter = half // 2 + 2
    return half, 6 * half + 2, quarter, 6 * quarter + 2


class Work(NamedTuple):
    """The arrays in which a tree grows, all in one slab; those of the next level exchange their parts with those of this one."""

    key: Any
    pick: Any
    component: Any
    members: Any
    ordered: Any
    start: Any
    best: Any
    slot: Any
    row: Any
    neighbour: Any
    length: Any
    rows: Any
    node: Any
    new_row: Any
    new_neighbour: Any
    new_length: Any
    new_rows: Any
    new_node: Any
    names: Any  # empty unless regions have names, see `Place`
    sides: Any  # of the image, see `image_sides`


def carved(slab: Any, counts: Sequence[int]) -> Iterator[Any]:
    """Consecutive parts of a slab with these numbers of words; they begin at even words, so that they may be int64."""
    used = 0
    for count in counts:
        yield slab[used : used + count]
        used += count + count % 2


def work_counts(leaves: int, wide: int, on_grid: bool, named: bool, slots: int = 4) -> tuple[int, ...]:
    """Words of the arrays for a tree of `leaves` pixels, whose regions have rows of `wide` numbers."""
    half, edges, quarter, new_edges = capacities(leaves, on_grid, slots)
    here = (half + 1, half, half, half + 1, edges, edges, half * wide, half)
    above = (quarter + 1, new_edges, new_edges, quarter * wide, quarter)
    return (2 * leaves, leaves, leaves, leaves, leaves, *here, *above, half if named else 0, leaves // 4 + 1)


def work_in(slab: Any, counts: Sequence[int], wide: int) -> Work:
    """The arrays of `work_counts` in a slab, each in its type."""
    found = Work(*carved(slab, counts))
    return found._replace(
        key=found.key.view(np.int64),
        best=found.best.view(np.int32),
        rows=found.rows.view(np.float32).reshape(-1, wide),
        node=found.node.view(np.int32),
        new_rows=found.new_rows.view(np.float32).reshape(-1, wide),
        new_node=found.new_node.view(np.int32),
        sides=found.sides.view(np.uint8),
    )


@kernel
def begin_grid(known, features, shape, place, rule, work, tree, next_node, zones):
    """The first round on the pixel grid, after its picks; fills the rows, nodes and adjacency of the regions that it makes.

    features: planes (C, M). place: (first, stride), see `Place`. Returns the number of regions and the next free node.
    """
    leaves = features.shape[1]
    height, width = shape
    key, pick, component, start, members = work.key, work.pick, work.component, work.start, work.members
    count = components_of_picks(leaves, pick, component, start, work.neighbour, work.length)
    gather_members(leaves, count, component, start, members)
    order_members(count, start, members, key, pick, work.ordered)
    rows, node, ordered, names = work.rows, work.node, work.ordered, work.names
    next_node = merge(
        known, (0,), features, count, start, ordered, node, key, pick, rows, node, tree, next_node, leaves, rule, zones
    )
    image_sides(height, width, work.sides)
    adjacency_of_grid(width, count, start, members, component, work.sides, work.row, work.neighbour, work.length, work.slot)
    for group in range(names.size and count):
        pixel = _i8(members[start[group]])
        names[group] = _u4(place[0] + pixel // width * place[1] + pixel % width)
    return count, next_node


@kernel
def begin_rows(features, node, rule, rows):
    """Rows of single pixels: those that nodes (R,) name in planes (C, M)."""
    channels = features.shape[0]
    for i in range(node.size):
        for c in range(channels):
            rows[i, c] = features[c, node[i]]
            if rule.variances:
                rows[i, channels + 1 + c] = _ZERO
        rows[i, channels] = _ONE


@kernel
def climb(known, features, count, rounds, next_node, rule, work, tree, level, zones):
    """All rounds after round `rounds`, until nothing touches; fills `tree` and `level`.

    Returns the number of rounds, the next free node, the number of pieces, and their nodes.
    """
    leaves = features.shape[1]
    key, pick, component, members, ordered, start, best, slot = work[:8]
    row, neighbour, length, rows, node = work[8:13]
    new_row, new_neighbour, new_length, new_rows, new_node, names = work[13:19]
    while row[count] > row[0]:
        cost = _WARD if rule.cost == _LIKELIHOOD and rounds < rule.ward_rounds else rule.cost
        if cost == _LIKELIHOOD:
            region_energies(known, count, rows, rule)
        pick_regions(known, cost, count, row, neighbour, length, rows, rule, names, best, key, pick)
        if rounds == 0 and zones.top.size > 0:
            pick_zones(features, rule.cost, zones, (0, leaves), leaves, key, pick)
        rounds += 1
        groups = components_of_picks(count, pick, component, start, ordered, new_neighbour)
        gather_members(count, groups, component, start, members)
        order_members(groups, start, members, key, pick, ordered)
        before = next_node
        next_node = merge(
            known, (), rows, groups, start, ordered, node, key, pick, new_rows, new_node, tree, next_node, leaves, rule, zones
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


def build(
    features: Tensor,
    inside: Tensor,
    rule: MergeRule,
    picks: bool = False,
    place: Place | None = None,
    zones: Zones | None = None,
) -> Tree:
    """The tree of the pixels inside a mask (H, W); features are planes (C, M) float32 of its M pixels in raster order.

    picks: also keep which region every absorbed member had picked. place: where the pixels of a window lie, see `Place`; its
    flat zones depend on the whole image, so they are given, or there are none. Linear time in practice. Sizes in costs are
    float32: exact up to 2²⁴ pixels per region.
    """
    channels, leaves = features.shape
    check_size(leaves)
    whole = bool(inside.all())
    on_grid = whole and leaves > 1 and rule.cost not in (Cost.COSINE, Cost.TANIMOTO)
    if place is not None and not on_grid:
        return definition.build(features, inside, rule, picks, place, zones)
    compiled_rule = kernel_rule(rule, channels)
    wide = 2 * channels + 2 if compiled_rule.variances else channels + 1
    tree, level, work = begin_tree(leaves, work_counts(leaves, wide, on_grid, place is not None), wide, compiled_rule, picks)
    known = (0, 0, 0) if channels == 3 else ()
    planes, shape = features.contiguous().numpy(), (int(inside.shape[0]), int(inside.shape[1]))
    if on_grid:
        origin = (0, shape[1]) if place is None else (int(place.first), int(place.width))
        pick_on_grid(planes, *shape, origin, rule.cost != Cost.GAUSSIAN, work.key, work.pick)
        found = NO_ZONES if zones is None else arrays_of(zones, shape)
        found = zones_on_grid(planes, shape, work.key) if place is None else found
        flat, next_node = grow_zones(known, planes, found, compiled_rule, tree, level)
        if flat.top.size:
            pick_zones(planes, rule.cost, flat, origin, shape[1], work.key, work.pick)
        count, next_node = begin_grid(known, planes, shape, origin, compiled_rule, work, tree, next_node, flat)
        level[leaves:next_node] = rounds = 1
    else:
        number = vertex_numbers(inside)
        flat, next_node = grow_zones(known, planes, zones_of(planes, number), compiled_rule, tree, level)
        count, rounds = leaves, 0
        work.node[:leaves] = np.arange(leaves, dtype=np.int32)
        begin_rows(planes, work.node[:leaves], compiled_rule, work.rows)
        adjacency_of_mask(number, NO_TREE_ZONES.root, work.row, work.neighbour, work.length)
    ended = climb(known, planes, count, rounds, next_node, compiled_rule, work, tree, level, flat)
    tree[6][:leaves] = _ZERO  # the energy of pixels
    return finished(tree, level, compiled_rule, ended)


def begin_tree(leaves: int, counts: Sequence[int], wide: int, rule: Any, picks: bool) -> tuple[Any, Any, Work]:
    """An empty tree as `merge` fills it, its levels, and the arrays in which it grows."""
    parent = np.empty(2 * leaves - 1, np.int32)
    parent[-1] = -1
    left, right = np.empty(leaves - 1, np.int32), np.empty(leaves - 1, np.int32)
    level, altitude = np.zeros(2 * leaves - 1, np.int16), np.zeros(2 * leaves - 1, np.float32)
    gain = np.empty(leaves - 1, np.float32)
    words = sum(counts) + len(counts)
    logs = -(-rule.channels // _GROUP) if rule.logarithmic else 1
    slab = scratch("tree", words + (2 + logs) * leaves)
    energy = slab[words : words + 2 * leaves].view(np.float32)
    factors = slab[words + 2 * leaves : words + 2 * leaves + logs * (leaves - 1)].view(np.float32).reshape(logs, leaves - 1)
    picked = np.empty(leaves - 1 if picks else 0, np.int32)
    return (parent, left, right, altitude, gain, picked, energy, factors), level, work_in(slab, counts, wide)


def finished(tree: Any, level: Any, rule: Any, ended: tuple[int, int, int, Any]) -> Tree:
    """The tree after its last round, from what `climb` returned; the energies of its leaves are known."""
    rounds, next_node, pieces, node = ended
    parent, left, right, altitude, gain, picked, energy, factors = tree
    leaves = left.size + 1
    if rule.logarithmic:
        finish_gains(next_node - leaves, leaves, left, right, gain, energy, factors)
    join_pieces(pieces, node, next_node, leaves, rounds + 1, parent, left, right, level, altitude, gain, picked)
    return Tree(*(torch.from_numpy(field) for field in (parent, left, right, level, altitude, gain, picked)))


def build_on_regions(size: Tensor, mean: Tensor, deviation: Tensor, edges: Edges, rule: MergeRule, level: int) -> Tree:
    """The tree above R regions that round `level` has made; see the definition. Linear time in practice."""
    leaves, channels = mean.shape
    check_size(leaves)
    compiled_rule = kernel_rule(rule, channels)
    wide = 2 * channels + 2 if compiled_rule.variances else channels + 1
    counts = work_counts(leaves, wide, False, False, 6)
    tree, levels, work = begin_tree(leaves, counts, wide, compiled_rule, False)
    known = (0, 0, 0) if channels == 3 else ()
    work.node[:leaves] = np.arange(leaves, dtype=np.int32)
    rows, values = work.rows[:leaves], mean.contiguous().numpy()
    rows[:, :channels], rows[:, channels] = values, size.numpy()
    if compiled_rule.variances:
        rows[:, channels + 1 : 2 * channels + 1] = deviation.numpy()
        region_energies(known, leaves, work.rows, compiled_rule)
        tree[6][:leaves] = rows[:, 2 * channels + 1]
    ends = np.concatenate((edges.first.numpy(), edges.second.numpy()))
    others = np.concatenate((edges.second.numpy(), edges.first.numpy()))
    order = np.lexsort((others, ends))
    work.row[: leaves + 1] = np.append(1, 1 + np.cumsum(np.bincount(ends, minlength=leaves)))
    work.neighbour[1 : ends.size + 1] = others[order]
    work.length[1 : ends.size + 1] = np.tile(edges.length.numpy(), 2)[order]
    planes = np.ascontiguousarray(values.T)  # of no pixels: only their number counts
    ended = climb(known, planes, leaves, level, leaves, compiled_rule, work, tree, levels, NO_TREE_ZONES)
    return finished(tree, levels, compiled_rule, ended)


def grow_zones(known: Any, planes: Any, found: ZoneArrays, rule: Any, tree: Any, level: Any) -> tuple[TreeZones, int]:
    """The subtrees of flat zones, and the next free node: all rounds of an image in which only pixels of one zone touch."""
    leaves = planes.shape[1]
    if not found.root.size:
        return NO_TREE_ZONES, leaves
    pixels = np.flatnonzero(found.root >= 0).astype(np.int32)
    vertex = np.full(leaves + 1, -1, np.int32)
    vertex[pixels] = np.arange(pixels.size, dtype=np.int32)
    wide = 2 * planes.shape[0] + 2 if rule.variances else planes.shape[0] + 1
    counts = work_counts(pixels.size, wide, False, False)
    work = work_in(scratch("zones", sum(counts) + len(counts)), counts, wide)
    work.node[: pixels.size] = pixels
    begin_rows(planes, pixels, rule, work.rows)
    adjacency_of_mask(vertex[found.number], found.root[pixels], work.row, work.neighbour, work.length)
    gaussian = rule._replace(cost=_GAUSSIAN)  # the cost of equal pixels is 0, so that the hash of an edge decides
    _, next_node, count, node = climb(known, planes, pixels.size, 0, leaves, gaussian, work, tree, level, NO_TREE_ZONES)
    level[leaves:next_node] = 1
    left, picked = tree[1], tree[5]
    if picked.size:
        pick_firsts(next_node - leaves, left, found.root, picked)
    top = np.full(leaves, -1, np.int32)
    top[pixels[found.root[pixels] == pixels]] = node[:count]  # both are in the order of first pixels
    return TreeZones(found.root, found.joins, found.size, top), next_node
