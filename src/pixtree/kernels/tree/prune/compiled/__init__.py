"""The nested cut with exactly n regions, without the part of the tree below it.

A region of energy E below the smallest scale λ that the cut opens is never split: all gains inside it add up to E, so no λ in it
exceeds E, and pooling a smaller λ never lifts a node above it. So regions of energy below a guess τ stay *flat*, without nodes. If
the cut of what remains opens only nodes of λ > τ, it is that of the whole tree, bit for bit; else τ = 0, with all nodes, follows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.tree import MOST_LEVELS, Cost, ExactCut, MergeRule
from pixtree.kernels.tree.build.compiled import build, capacities, carved, check_size, kernel_rule, key_counts
from pixtree.kernels.tree.build.compiled.adjacency import edges_of_grid, edges_of_regions
from pixtree.kernels.tree.build.compiled.grouping import components_of_picks, gather_members, order_members
from pixtree.kernels.tree.build.compiled.joining import region_energies
from pixtree.kernels.tree.build.compiled.lanes import known_channels
from pixtree.kernels.tree.build.compiled.picking import TreeZones, pick_on_grid, pick_regions, pick_zones
from pixtree.kernels.tree.cut.compiled import FEW, cut_labels, largest_scales, open_largest, scale_set, select_largest
from pixtree.kernels.tree.cut.definition import HEAP_NODE, SPINE_LIMIT
from pixtree.kernels.tree.prune import definition
from pixtree.kernels.tree.prune.compiled.nodes import name_nodes, sum_up
from pixtree.kernels.tree.zones.compiled import zones_on_grid
from pixtree.runtime.jit import kernel
from pixtree.runtime.threads import scratch

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ZERO = _f4(0.0)
_GAUSSIAN, _WARD, _LIKELIHOOD = int(Cost.GAUSSIAN), int(Cost.WARD), int(Cost.LIKELIHOOD)
GUESS = 1 / 64  # of τ as a part of E(image) / n: the smallest λ of a photo is 1/6 to 1/90 of it, mostly above 1/40
SPARSE = 16  # pixels per region from which on the short way pays
RUNS, RUN = 64, 16  # of pixels that the energy of the image is estimated from: few lines of the cache


class FlatWork(NamedTuple):
    """The arrays in which the levels grow, as `Work` of `tree.build`."""

    key: Any
    ordered: Any
    place: Any
    slot: Any
    edges: Any
    length: Any
    sorted_length: Any
    rows: Any
    new_rows: Any
    sorted_edges: Any


def flat_counts(leaves: int, wide: int) -> tuple[int, ...]:
    """Words of these arrays, but for the sorted edges, for regions whose rows have `wide` numbers."""
    half, quarter, edges = capacities(leaves, True)
    return (*key_counts(leaves, edges), half + 1, half, 2 * edges, edges, edges, half * wide, quarter * wide)


def flat_work(slab: Any, counts: Sequence[int], wide: int) -> FlatWork:
    """The arrays in a slab, each in its type."""
    found = FlatWork._make((*carved(slab, counts), slab[: sum(counts[:2])]))
    return found._replace(
        key=found.key.view(np.int64),
        edges=found.edges.view(np.uint64),
        sorted_edges=found.sorted_edges[: found.edges.size].view(np.uint64),
        rows=found.rows.view(np.float32).reshape(-1, wide),
        new_rows=found.new_rows.view(np.float32).reshape(-1, wide),
    )


@kernel
def grow_flat(known, features, shape, rule, tau, work, levels, offset, tree, zone_size):
    """All rounds from pixels, which have picked, to one region, as in `tree.build`; keeps all levels, and nodes of energy ≥ τ only.

    Returns the number of rounds and that of nodes.
    """
    pick, component, members, start, node, above = levels
    leaves = features.shape[1]
    key, ordered, place, slot, edges, length, sorted_length, rows, new_rows, sorted_edges = work
    count = components_of_picks(leaves, pick, component, start, length, sorted_length)
    gather_members(leaves, count, component, start, members)
    order_members(count, start, members, key, pick, ordered)
    sum_up(known, (0,), features, count, start, ordered, rows, rule, zone_size)
    region_energies(known, count, rows, rule)
    made, nodes = _i8(0), node[leaves:]
    made = name_nodes(known, (0,), tau, features, count, start, ordered, node, above, rows, nodes, tree, made, rule, zone_size)
    touching = edges_of_grid(shape, count, component, place, slot, edges, sorted_edges, length)
    offset[0], offset[1] = 0, leaves
    rounds, here, begin = 1, leaves, count + 1
    while touching > 0:
        cost = _WARD if rule.cost == _LIKELIHOOD and rounds < rule.ward_rounds else rule.cost
        picks, group, some, starts = pick[here:], component[here:], members[here:], start[begin:]
        pick_regions(known, cost, count, edges[:touching], length, rows, rule, slot[:0], key, picks)
        groups = components_of_picks(count, picks, group, starts, ordered, sorted_length)
        gather_members(count, groups, group, starts, some)
        order_members(groups, starts, some, key, picks, ordered)
        sum_up(known, (), rows, groups, starts, ordered, new_rows, rule, zone_size)
        region_energies(known, groups, new_rows, rule)
        nodes, new_nodes = node[here:], node[here + count :]
        upper = above[here:]
        made = name_nodes(
            known, (), tau, rows, groups, starts, ordered, nodes, upper, new_rows, new_nodes, tree, made, rule, zone_size
        )
        touching = edges_of_regions(touching, groups, group, place, slot, edges, length, sorted_edges, sorted_length)
        rows, new_rows = new_rows, rows
        rounds += 1
        here += count
        begin += groups + 1
        offset[rounds] = here
        count = groups
    offset[rounds + 1] = here + count
    return rounds, made


@kernel
def label_pixels(rounds, offset, component, node, above, left, right, opened, parent, top, label, number, zone, labels):
    """Labels of the pixels under a cut of the nodes, numbered by first pixel; parent and top are scratch per node.

    label: scratch per region of every level; number: scratch per region of the cut. zone: the first pixel of the flat zone that a
    pixel is in, −1 where none; empty if there are none.
    """
    nodes = opened.size
    for k in range(nodes):
        parent[k] = -1
    for k in range(nodes):
        if left[k] >= 0:
            parent[left[k]] = k
        if right[k] >= 0:
            parent[right[k]] = k
    regions = _i4(0)
    for k in range(nodes - 1, -1, -1):
        top[k] = -1 if parent[k] < 0 else top[parent[k]]
        if top[k] < 0 and not opened[k]:
            top[k] = regions
            regions += _i4(1)
    for level in range(rounds, 0, -1):
        here, up = offset[level], offset[level + 1]
        for i in range(here, up):
            if node[i] >= 0:  # its own nodes know
                label[i] = -1
                continue
            inherited = label[up + _i8(component[i])]
            if inherited < 0:
                inherited = top[above[i]]
                if inherited < 0:
                    inherited = regions
                    regions += _i4(1)
            label[i] = inherited
    for region in range(regions):
        number[region] = -1
    seen = _i4(0)
    below = label[offset[1] : offset[2]]
    for pixel in range(_u8(labels.size)):
        inherited = below[component[pixel]]
        if inherited < 0:
            inherited = top[above[pixel]]
            if inherited < 0 and zone.size > 0 and zone[pixel] >= 0 and zone[pixel] < pixel:
                labels[pixel] = labels[zone[pixel]]
                continue
            if inherited < 0:  # a pixel or a zone that is a region of its own
                labels[pixel] = seen
                seen += _i4(1)
                continue
        if number[inherited] < 0:
            number[inherited] = seen
            seen += _i4(1)
        labels[pixel] = number[inherited]


@kernel
def join_labels(rounds, offset, component, node, above, parent, opened, top, labels, joined):
    """joined = the labels of a coarser cut, which opens some of the nodes that the cut behind `labels` opens; see `label_pixels`.

    parent: as that leaves it; top is scratch per node. A region is found by its first pixel, which lies in the lowest node above
    it, or in none that is closed.
    """
    regions = _i4(0)
    for k in range(opened.size - 1, -1, -1):
        top[k] = -1 if parent[k] < 0 else top[parent[k]]
        if top[k] < 0 and not opened[k]:
            top[k] = regions
            regions += _i4(1)
    number = np.empty(regions, np.int32)
    for region in range(regions):
        number[region] = -1
    coarse = np.empty(labels.size, np.int32)  # more than there are regions; what is not written costs nothing
    known, seen = _i4(0), _i4(0)
    for pixel in range(labels.size):
        if labels[pixel] == known:  # regions are numbered by their first pixels
            here, level = _i8(pixel), 0
            up = offset[1] + _i8(component[here])
            while node[up] < 0 and level + 1 < rounds:
                here, level = up, level + 1
                up = offset[level + 1] + _i8(component[here])
            region = top[above[here]] if node[up] >= 0 else _i4(-1)
            if region < 0:
                coarse[known] = seen
                seen += _i4(1)
            else:
                if number[region] < 0:
                    number[region] = seen
                    seen += _i4(1)
                coarse[known] = number[region]
            known += _i4(1)
        joined[pixel] = coarse[labels[pixel]]


@kernel
def scales_of_few(left, right, gain, nodes, scale):
    """scale[k] = λ of node k; nodes: scratch for `scale_set`. Children −1 are flat."""
    made = gain.size
    first, second = np.empty(made, np.int32), np.empty(made, np.int32)
    for k in range(made):
        first[k] = left[k] + made + 1 if left[k] >= 0 else 0
        second[k] = right[k] + made + 1 if right[k] >= 0 else 0
    scale_set(first, second, gain, nodes, np.empty(SPINE_LIMIT, np.int64))
    for k in range(made):
        scale[k] = nodes[k]["scale"]


@kernel
def sampled_energy(features, inverse_floor):
    """The energy of the whole image, estimated from short runs of pixels here and there."""
    channels, leaves = features.shape
    stride = max(leaves // RUNS, RUN)
    total = 0.0
    for c in range(channels):
        count, values, squares = 0, 0.0, 0.0
        for begin in range(0, leaves, stride):
            for i in range(begin, min(begin + RUN, leaves)):
                step = np.float64(features[c, i] - features[c, 0])
                values += step
                squares += step * step
                count += 1
        total += np.log1p(max(squares / count - (values / count) ** 2, 0.0) * inverse_floor)
    return total * leaves


def exact_cut(
    features: Tensor,
    shape: tuple[int, int],
    rule: MergeRule,
    count: int,
    levels: Tensor | None = None,
    coarser: Sequence[int] = (),
) -> ExactCut:
    """The nested cut with exactly `count` regions, as `open_largest` and `cut_labels` have it of the tree that `build` makes.

    features: planes (C, H·W) float32. levels: to be filled, see the definition. coarser: counts of nested cuts to return as well.
    """
    leaves = features.shape[1]
    if leaves == 1:
        return definition.exact_cut(features, shape, rule, count, levels, coarser)
    if rule.prunable:
        check_size(leaves)
        planes, compiled_rule, guess = features.contiguous().numpy(), kernel_rule(rule, features.shape[0]), 0.0
        if 1 < count <= leaves // SPARSE:
            guess = GUESS / count * sampled_energy(planes, compiled_rule.inverse_floor)
        found = pruned_cut(planes, shape, compiled_rule, count, levels, _f4(guess), coarser)
        found = found or pruned_cut(planes, shape, compiled_rule, count, levels, _ZERO, coarser)
        if found is not None:
            return found
    tree = build(features, torch.ones(shape, dtype=torch.bool), rule)
    cuts = [cut_labels(tree.parent, open_largest(tree.gain, tree.left, tree.right, regions - 1)) for regions in (count, *coarser)]
    return ExactCut(cuts[0], levels if rule.prunable else None, tuple(cuts[1:]))


def pruned_cut(
    planes: Any, shape: tuple[int, int], rule: Any, count: int, kept: Tensor | None, tau: Any, coarser: Sequence[int] = ()
) -> ExactCut | None:
    """The cuts by way of the nodes of energy ≥ τ, or None where that does not prove to be the cut of the whole tree."""
    channels, leaves = planes.shape
    known = known_channels(channels)
    total = 2 * leaves + MOST_LEVELS
    wide = 2 * (len(known) or channels) + 2
    counts = flat_counts(leaves, wide)
    words = sum(counts) + len(counts) + MOST_LEVELS  # labels need a little more than what grows
    slab = scratch("tree", words + 6 * total + 3 * leaves)
    work, rest = flat_work(slab, counts, wide), slab[words:]
    arrays = rest[: 6 * total].reshape(6, total)
    levels = arrays[:3] if kept is None else kept.numpy().view(np.uint32)
    component, node, above = arrays[3], arrays[4].view(np.int32), arrays[5].view(np.int32)
    left, right, gain_words = rest[6 * total : 6 * total + 3 * leaves].view(np.int32).reshape(3, leaves)
    gain, offset = gain_words.view(np.float32), np.empty(MOST_LEVELS, np.int64)
    pick, members, start = levels[:3]
    pick_on_grid(planes, *shape, (0, shape[1]), rule.cost != _GAUSSIAN, work.key, pick)
    found = zones_on_grid(planes, shape, work.key)
    if found.root.size:
        zones = TreeZones(found.root, found.joins, found.size, found.size)
        pick_zones(planes, rule.cost, zones, (0, shape[1]), shape[1], work.key, pick)
    kept_levels = (pick, component, members, start, node, above)
    rounds, made = grow_flat(known, planes, shape, rule, tau, work, kept_levels, offset, (left, right, gain), found.size)
    if kept is not None:
        levels[3, : rounds + 2] = offset[: rounds + 2]
    if made < count - 1:
        return None
    if made == 0:  # one flat zone
        whole = torch.zeros(leaves, dtype=torch.int32)
        return ExactCut(whole, kept, tuple(whole for _ in coarser))
    left, right = left[:made], right[:made]
    opened, smallest = opened_nodes(left, right, gain[:made], [regions - 1 for regions in (count, *coarser)])
    if tau > 0 and not smallest > 1.001 * tau:  # the margin is for sums of float32
        return None
    if found.root.size and not smallest > 0:  # the nodes inside zones, which are missing here, may come before others of λ = 0
        return None
    labels, scratch_label = np.empty((len(opened), leaves), np.int32), slab[: 2 * made + leaves + total].view(np.int32)
    parent, top, number, label = np.split(scratch_label, [made, 2 * made, 2 * made + leaves])  # what grew the levels is free again
    label_pixels(rounds, offset, component, node, above, left, right, opened[0], parent, top, label, number, found.root, labels[0])
    for fewer, joined in zip(opened[1:], labels[1:], strict=True):
        join_labels(rounds, offset, component, node, above, parent, fewer, top, labels[0], joined)
    first, *others = torch.from_numpy(labels)
    return ExactCut(first, kept, tuple(others))


def opened_nodes(left: Any, right: Any, gain: Any, counts: Sequence[int]) -> tuple[list[Any], float]:
    """Which nodes each cut opens, (K,) bool, the finest first, and the smallest λ that it opens; children −1 are flat."""
    made = gain.size
    if made > FEW:
        a, b = (torch.from_numpy(np.where(child < 0, 0, child + np.int32(made + 1))) for child in (left, right))
        largest, smallest = largest_scales(torch.from_numpy(gain), a, b, counts)
        return [one.numpy() for one in largest], smallest
    words = made * HEAP_NODE.itemsize // 4
    scale = np.empty(made, np.float64)
    scales_of_few(left, right, gain, scratch("heaps", words)[:words].view(HEAP_NODE), scale)
    finest = select_largest(torch.from_numpy(scale), counts[0]).numpy()
    nodes = np.flatnonzero(finest)
    opened = [finest]
    for count in counts[1:]:  # which open some of these
        opened.append(np.zeros(made, np.bool_))
        opened[-1][nodes[select_largest(torch.from_numpy(scale[nodes]), count).numpy()]] = True
    return opened, float(scale[nodes].min(initial=np.inf))
