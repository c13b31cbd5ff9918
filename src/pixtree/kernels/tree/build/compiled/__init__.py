"""The tree, round by round, in numba: equal to the definition bit for bit.

It is fast because the first round picks on the pixel grid without an edge list; later rounds have each edge once, in one word
(planar graphs have few edges); ordering, merging, adjacency and picking are separate passes over arrays, most of them without
branches that depend on the image; the likelihood is computed in blocks, so that its logarithm vectorises; and all of it happens in
one reused slab of memory, since fresh pages cost more than the arithmetic.

Kernels that loop over channels have a parameter `known`: a tuple whose length is their number where that is known when compiling
(3, or one of the widths of `lanes`; then those loops unroll), else empty. An `if` tests its length directly: then numba drops
the branch that this length never takes, instead of compiling it.
Indices are unsigned, because signed ones pay for negative wrap-around.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.tree import Cost, Edges, Energy, MergeRule, Place, Tree
from pixtree.kernels.tree.build import definition
from pixtree.kernels.tree.build.compiled.adjacency import (
    edges_of_grid,
    edges_of_mask,
    edges_of_regions,
)
from pixtree.kernels.tree.build.compiled.grouping import components_of_picks, gather_members, order_members
from pixtree.kernels.tree.build.compiled.joining import (
    fill_energies,
    finish_gains,
    join_pieces,
    merge,
    pick_firsts,
    region_energies,
)
from pixtree.kernels.tree.build.compiled.picking import TreeZones, pick_on_grid, pick_regions, pick_zones
from pixtree.kernels.tree.zones import Zones
from pixtree.kernels.tree.zones.compiled import NO_ZONES, ZoneArrays, arrays_of, vertex_numbers, zones_of, zones_on_grid
from pixtree.runtime.jit import kernel, shared
from pixtree.runtime.threads import scratch

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_GROUP = CHANNELS_PER_LOG
LARGEST_IMAGE = 2**30  # nodes are int32
_GAUSSIAN, _WARD, _LIKELIHOOD = int(Cost.GAUSSIAN), int(Cost.WARD), int(Cost.LIKELIHOOD)
NO_TREE_ZONES = TreeZones(*(np.empty(0, np.int32) for _ in range(4)))


@shared
def capacities(leaves: int, on_grid: bool, sides: int = 2) -> tuple[int, int, int]:
    """Most regions of the first level that has rows and of the level after it, and most edges.

    Every component has two members or more, so each level has at most half the regions; planar graphs have fewer than 3n edges, and
    the pixel grid has at most 3n sides between its components. One more may be written, but does not count. sides: most edges
    per pixel or region where these are the first level themselves.
    """
    if not on_grid:  # then the first level is the pixels or regions themselves, and some may be alone
        return leaves + 1, leaves + 1, sides * leaves + 1
    half = leaves // 2 + 1
    return half, half // 2 + 2, 3 * half + 1


class Work(NamedTuple):
    """The arrays in which a tree grows, all in one slab; those of the next level exchange their parts with those of this one."""

    key: Any
    ordered: Any
    pick: Any
    component: Any
    members: Any
    start: Any
    place: Any
    slot: Any
    edges: Any
    length: Any
    sorted_length: Any
    rows: Any
    node: Any
    new_rows: Any
    new_node: Any
    names: Any  # empty unless regions have names, see `Place`
    sorted_edges: Any  # in the place of `key` and `ordered`, which are free when edges are sorted


def carved(slab: Any, counts: Sequence[int]) -> Iterator[Any]:
    """Consecutive parts of a slab with these numbers of words; they begin at even words, so that they may be int64."""
    used = 0
    for count in counts:
        yield slab[used : used + count]
        used += count + count % 2


def work_counts(leaves: int, wide: int, on_grid: bool, named: bool, sides: int = 2) -> tuple[int, ...]:
    """Words of the arrays for a tree of `leaves` pixels, whose regions have rows of `wide` numbers."""
    half, quarter, edges = capacities(leaves, on_grid, sides)
    picking = (*key_counts(leaves, edges), leaves, leaves, leaves, half + 1)
    return (*picking, half + 1, half, 2 * edges, edges, edges, half * wide, half, quarter * wide, quarter, half if named else 0)


def key_counts(leaves: int, edges: int) -> tuple[int, int]:
    """Words of `key` and `ordered`, which together have room for the sorted edges."""
    return 2 * leaves, max(leaves, 2 * edges - 2 * leaves)


def work_in(slab: Any, counts: Sequence[int], wide: int) -> Work:
    """The arrays of `work_counts` in a slab, each in its type."""
    found = Work._make((*carved(slab, counts), slab[: sum(counts[:2])]))
    return found._replace(
        key=found.key.view(np.int64),
        edges=found.edges.view(np.uint64),
        sorted_edges=found.sorted_edges[: found.edges.size].view(np.uint64),
        rows=found.rows.view(np.float32).reshape(-1, wide),
        node=found.node.view(np.int32),
        new_rows=found.new_rows.view(np.float32).reshape(-1, wide),
        new_node=found.new_node.view(np.int32),
    )


@kernel
def begin_grid(known, features, shape, place, rule, work, tree, next_node, zones):
    """The first round on the pixel grid, after its picks; fills the rows, nodes and adjacency of the regions that it makes.

    features: planes (C, M). place: (first, stride), see `Place`. Returns the numbers of regions and edges, and the next free node.
    """
    leaves = features.shape[1]
    key, pick, component, start, members = work.key, work.pick, work.component, work.start, work.members
    count = components_of_picks(leaves, pick, component, start, work.length, work.sorted_length)
    gather_members(leaves, count, component, start, members)
    order_members(count, start, members, key, pick, work.ordered)
    rows, node, ordered, names = work.rows, work.node, work.ordered, work.names
    next_node = merge(
        known, (0,), features, count, start, ordered, node, key, pick, rows, node, tree, next_node, leaves, rule, zones
    )
    touching = edges_of_grid(shape, count, component, work.place, work.slot, work.edges, work.sorted_edges, work.length)
    width = shape[1]
    for group in range(names.size and count):
        pixel = _i8(members[start[group]])
        names[group] = _u4(place[0] + pixel // width * place[1] + pixel % width)
    return count, touching, next_node


@kernel
def begin_rows(features, node, rule, rows):
    """Rows of single pixels: those that nodes (R,) name in planes (C, M)."""
    channels = features.shape[0]
    for i in range(node.size):
        for c in range(channels):
            rows[i, c] = features[c, node[i]]
            if rule.variances:
                rows[i, channels + 1 + c] = _ZERO
            if rule.compared > 0:
                rows[i, rule.compared + c] = features[c, node[i]]
        rows[i, channels] = _ONE


@kernel
def climb(known, features, count, touching, rounds, next_node, rule, work, tree, level, zones):
    """All rounds after round `rounds` with `count` regions and `touching` edges, until nothing touches; fills `tree` and `level`.

    Returns the number of rounds, the next free node, the number of pieces, and their nodes.
    """
    leaves = features.shape[1]
    key, ordered, pick, component, members, start, place, slot, edges, length, sorted_length = work[:11]
    rows, node, new_rows, new_node, names, sorted_edges = work[11:]
    while touching > 0:
        cost = _WARD if rule.cost == _LIKELIHOOD and rounds < rule.ward_rounds else rule.cost
        if cost == _LIKELIHOOD:
            region_energies(known, count, rows, rule)
        pick_regions(known, cost, count, edges[:touching], length, rows, rule, names, key, pick)
        if rounds == 0 and zones.top.size > 0:
            pick_zones(features, rule.cost, zones, (0, leaves), leaves, key, pick)
        rounds += 1
        groups = components_of_picks(count, pick, component, start, ordered, sorted_length)
        gather_members(count, groups, component, start, members)
        order_members(groups, start, members, key, pick, ordered)
        before = next_node
        next_node = merge(
            known, (), rows, groups, start, ordered, node, key, pick, new_rows, new_node, tree, next_node, leaves, rule, zones
        )
        level[before:next_node] = rounds
        for group in range(names.size and groups):
            names[group] = names[members[start[group]]]  # the first member is never before its group
        touching = edges_of_regions(touching, groups, component, place, slot, edges, length, sorted_edges, sorted_length)
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
    compared: int  # the column of rows where the vectors begin that are compared: 0, the means, unless the rule is weighted
    precision: Any

    @property
    def width(self) -> int:
        """Columns of a row, see `merge`."""
        columns = 2 * self.channels + 2 if self.variances else self.channels + 1
        return columns + (self.channels if self.compared else 0)


def check_size(leaves: int) -> None:
    """Refuse images whose nodes int32 cannot number."""
    if leaves > LARGEST_IMAGE:
        raise ValueError(f"a tree has at most 2³⁰ pixels, got {leaves}; cut the image into tiles")


def kernel_rule(rule: MergeRule, channels: int) -> _KernelRule:
    """The rule as the kernels take it."""
    logarithmic = rule.energy == Energy.LOG_VARIANCE
    variances = logarithmic or rule.cost == Cost.LIKELIHOOD
    inverse_floor = _ONE / _f4(rule.floor)
    found = _KernelRule(
        int(rule.cost), logarithmic, variances, inverse_floor, rule.length_quarters, rule.ward_rounds, channels, 0, _ZERO
    )
    return found._replace(compared=found.width, precision=_f4(rule.precision)) if rule.weighted else found


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
    wide = compiled_rule.width
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
        count, touching, next_node = begin_grid(known, planes, shape, origin, compiled_rule, work, tree, next_node, flat)
        level[leaves:next_node] = rounds = 1
    else:
        number = vertex_numbers(inside)
        flat, next_node = grow_zones(known, planes, zones_of(planes, number), compiled_rule, tree, level)
        count, rounds = leaves, 0
        work.node[:leaves] = np.arange(leaves, dtype=np.int32)
        begin_rows(planes, work.node[:leaves], compiled_rule, work.rows)
        touching = edges_of_mask(number, NO_TREE_ZONES.root, work.edges, work.length)
    ended = climb(known, planes, count, touching, rounds, next_node, compiled_rule, work, tree, level, flat)
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
    wide = compiled_rule.width
    counts = work_counts(leaves, wide, False, False, 3)
    tree, levels, work = begin_tree(leaves, counts, wide, compiled_rule, False)
    known = (0, 0, 0) if channels == 3 else ()
    work.node[:leaves] = np.arange(leaves, dtype=np.int32)
    rows, values = work.rows[:leaves], mean.contiguous().numpy()
    rows[:, :channels], rows[:, channels] = values, size.numpy()
    if compiled_rule.variances:
        rows[:, channels + 1 : 2 * channels + 1] = deviation.numpy()
        fill_energies(known, leaves, work.rows, compiled_rule)
        tree[6][:leaves] = rows[:, 2 * channels + 1]
    if compiled_rule.compared:
        rows[:, compiled_rule.compared :] = values
    touching = edges.first.numel()
    work.edges[:touching] = (edges.first << 32 | edges.second).numpy().view(np.uint64)  # in their order, which is that of `first`
    work.length[:touching] = edges.length.numpy()
    planes = np.ascontiguousarray(values.T)  # of no pixels: only their number counts
    ended = climb(known, planes, leaves, touching, level, leaves, compiled_rule, work, tree, levels, NO_TREE_ZONES)
    return finished(tree, levels, compiled_rule, ended)


def grow_zones(known: Any, planes: Any, found: ZoneArrays, rule: Any, tree: Any, level: Any) -> tuple[TreeZones, int]:
    """The subtrees of flat zones, and the next free node: all rounds of an image in which only pixels of one zone touch."""
    leaves = planes.shape[1]
    if not found.root.size:
        return NO_TREE_ZONES, leaves
    pixels = np.flatnonzero(found.root >= 0).astype(np.int32)
    vertex = np.full(leaves + 1, -1, np.int32)
    vertex[pixels] = np.arange(pixels.size, dtype=np.int32)
    gaussian = rule._replace(cost=_GAUSSIAN, compared=0)  # the cost of equal pixels is 0, so that the hash of an edge decides
    wide = gaussian.width
    counts = work_counts(pixels.size, wide, False, False)
    work = work_in(scratch("zones", sum(counts) + len(counts)), counts, wide)
    work.node[: pixels.size] = pixels
    begin_rows(planes, pixels, gaussian, work.rows)
    touching = edges_of_mask(vertex[found.number], found.root[pixels], work.edges, work.length)
    _, next_node, count, node = climb(known, planes, pixels.size, touching, 0, leaves, gaussian, work, tree, level, NO_TREE_ZONES)
    level[leaves:next_node] = 1
    left, picked = tree[1], tree[5]
    if picked.size:
        pick_firsts(next_node - leaves, left, found.root, picked)
    top = np.full(leaves, -1, np.int32)
    top[pixels[found.root[pixels] == pixels]] = node[:count]  # both are in the order of first pixels
    return TreeZones(found.root, found.joins, found.size, top), next_node
