"""The nested cut with exactly n regions, without the part of the tree below it.

A region of energy E below the smallest scale λ that the cut opens is never split: all gains inside it add up to E, so no λ in it
exceeds E, and pooling a smaller λ never lifts a node above it. So regions of energy below a guess τ stay *flat*, without nodes. If
the cut of what remains opens only nodes of λ > τ, it is that of the whole tree, bit for bit; else τ = 0, with all nodes, follows.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.arithmetic.compiled import log_at_least_one
from pixtree.kernels.tree import MOST_LEVELS, Cost, ExactCut, MergeRule
from pixtree.kernels.tree.build.compiled import build, capacities, carve, check_size, kernel_rule, region_energies
from pixtree.kernels.tree.build.compiled.adjacency import adjacency_of_grid, adjacency_of_regions, image_sides
from pixtree.kernels.tree.build.compiled.grouping import components_of_picks, gather_members, order_members
from pixtree.kernels.tree.build.compiled.lanes import absorb_pixel, absorb_region, in_lanes, known_channels, take_pixel
from pixtree.kernels.tree.build.compiled.picking import pick_on_grid, pick_regions
from pixtree.kernels.tree.cut.compiled import FEW, cut_labels, largest_scales, open_largest, scale_set
from pixtree.kernels.tree.cut.definition import HEAP_NODE, SPINE_LIMIT, select_largest
from pixtree.kernels.tree.prune import definition
from pixtree.runtime.jit import inlined, kernel
from pixtree.runtime.threads import scratch

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_GROUP = CHANNELS_PER_LOG
_GAUSSIAN, _WARD, _LIKELIHOOD = int(Cost.GAUSSIAN), int(Cost.WARD), int(Cost.LIKELIHOOD)
GUESS = 1 / 64  # of τ as a part of E(image) / n: the smallest λ of a photo is 1/6 to 1/90 of it, mostly above 1/40
SPARSE = 16  # pixels per region from which on the short way pays
RUNS, RUN = 64, 16  # of pixels that the energy of the image is estimated from: few lines of the cache


@inlined
def energy_of(row, size, channels, rule):
    """n Σ_c log(1 + deviation_c / (n φ)) of a region, as in `region_energies`."""
    scale = rule.inverse_floor / size
    product, logs = _ONE, _ZERO
    for c in range(rule.channels):
        product *= _ONE + row[channels + 1 + c] * scale
        if c % _GROUP == _GROUP - 1 or c == rule.channels - 1:
            logs += log_at_least_one(product)
            product = _ONE
    return size * logs


@kernel
def sum_up(known, single, source, groups, start, ordered, target, rule):
    """Rows of the components of one level, members taken up in the order in which they join, as in `merge` of `tree.build`.

    source: pixels in the first round (`single` is a tuple of length one), as planes (C, N), else rows of regions.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    leaf = len(single) > 0
    for group in range(_u8(groups)):
        begin, end = _u8(start[group]), _u8(start[group + _u8(1)])
        first = _u8(ordered[begin])
        begin_row(known, single, source, first, target, group, channels, rule)
        size = _ONE if leaf else source[first, channels]
        for i in range(begin + _u8(1), end):
            member = _u8(ordered[i])
            other = _ONE if leaf else source[member, channels]
            both = size + other
            take_up(known, single, source, member, other / both, size * other / both, target, group, channels, rule)
            size = both
        target[group, channels] = size


@inlined
def begin_row(known, single, source, member, target, group, channels, rule):
    """Start a row with the means and deviations of its first member."""
    leaf = len(single) > 0
    if in_lanes(known) and leaf:
        take_pixel(known, target, group, source, member, rule.channels)
    else:
        for c in range(channels):
            target[group, c] = source[c, member] if leaf else source[member, c]
            target[group, channels + 1 + c] = _ZERO if leaf else source[member, channels + 1 + c]


@inlined
def take_up(known, single, source, member, share, spread, target, group, channels, rule):
    """Move the means and deviations of a row by those of a member."""
    if in_lanes(known):
        if len(single) > 0:
            absorb_pixel(known, target, group, source, member, rule.channels, share, spread)
        else:
            absorb_region(known, target, group, source, member, share, spread)
    else:
        for c in range(channels):
            step = (source[c, member] if len(single) > 0 else source[member, c]) - target[group, c]
            target[group, c] += share * step
            deviation = target[group, channels + 1 + c]
            if len(single) == 0:
                deviation += source[member, channels + 1 + c]
            target[group, channels + 1 + c] = deviation + spread * step * step


@kernel
def name_nodes(known, single, tau, source, groups, start, ordered, node, above, target, new_node, tree, made, rule):
    """Nodes for the components that need them: a component of flat members (node −1) with energy below τ is flat itself.

    above[member]: the node that absorbed a flat member, written where its component is not flat. Returns the number of nodes.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    for group in range(_u8(groups)):
        begin, end = _u8(start[group]), _u8(start[group + _u8(1)])
        flat = target[group, 2 * channels + 1] < tau
        if len(single) == 0:
            for i in range(begin, end):
                flat = flat and node[ordered[i]] < 0
        if not flat:
            made = join_members(known, single, source, begin, end, ordered, node, above, target, group, tree, made, rule)
        new_node[group] = _i4(-1) if flat else _i4(made - 1)
    return made


@kernel
def join_members(known, single, source, begin, end, ordered, node, above, target, group, tree, made, rule):
    """A node per join of one component's members; its row of target holds the same before and after."""
    channels = len(known) if len(known) > 0 else rule.channels
    leaf = len(single) > 0
    left, right, gain = tree
    first = _u8(ordered[begin])
    begin_row(known, single, source, first, target, group, channels, rule)
    size = _ONE if leaf else source[first, channels]
    energy = _ZERO if leaf else source[first, 2 * channels + 1]
    cluster = _i4(-1) if leaf else node[first]
    if cluster < 0:
        above[first] = _i4(made)
    for i in range(begin + _u8(1), end):
        member = _u8(ordered[i])
        other = _ONE if leaf else source[member, channels]
        both = size + other
        take_up(known, single, source, member, other / both, size * other / both, target, group, channels, rule)
        size = both
        union = energy_of(target[group], size, channels, rule)
        absorbed = _i4(-1) if leaf else node[member]
        if absorbed < 0:
            above[member] = _i4(made)
        member_energy = _ZERO if leaf else source[member, 2 * channels + 1]
        left[made], right[made] = cluster, absorbed
        gain[made] = max(union - (energy + member_energy), _ZERO)
        cluster, energy = _i4(made), union
        made += 1
    return made


@kernel
def grow_flat(known, features, shape, rule, tau, slab, levels, offset, tree):
    """All rounds from pixels to one region, as `grow` of `tree.build`; keeps every level, and nodes of energy ≥ τ only.

    Returns the number of rounds and that of nodes.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    pick, component, members, start, node, above = levels
    leaves = features.shape[1]
    height, width = shape
    wide = 2 * channels + 2
    half, edges, quarter, new_edges = capacities(leaves, True)
    used = 0
    key_words, used = carve(slab, used, 2 * leaves)
    key = key_words.view(np.int64)
    ordered, used = carve(slab, used, leaves)
    best_words, used = carve(slab, used, half)
    best = best_words.view(np.int32)
    slot, used = carve(slab, used, half)
    row, used = carve(slab, used, half + 1)
    neighbour, used = carve(slab, used, edges)
    length, used = carve(slab, used, edges)
    rows_words, used = carve(slab, used, half * wide)
    rows = rows_words.view(np.float32).reshape(half, wide)
    new_row, used = carve(slab, used, quarter + 1)
    new_neighbour, used = carve(slab, used, new_edges)
    new_length, used = carve(slab, used, new_edges)
    new_rows_words, used = carve(slab, used, quarter * wide)
    new_rows = new_rows_words.view(np.float32).reshape(quarter, wide)
    side_words, used = carve(slab, used, leaves // 4 + 1)
    sides = side_words.view(np.uint8)
    pick_on_grid(features, height, width, (_i8(0), width), rule.cost != _GAUSSIAN, key, pick)
    count = components_of_picks(leaves, pick, component, start, neighbour, length)
    gather_members(leaves, count, component, start, members)
    order_members(count, start, members, key, pick, ordered)
    sum_up(known, (0,), features, count, start, ordered, rows, rule)
    region_energies(known, count, rows, rule)
    made = name_nodes(known, (0,), tau, features, count, start, ordered, node, above, rows, node[leaves:], tree, _i8(0), rule)
    image_sides(height, width, sides)
    adjacency_of_grid(width, count, start, members, component, sides, row, neighbour, length, slot)
    offset[0], offset[1] = 0, leaves
    rounds, here, begin = 1, leaves, count + 1
    while row[count] > row[0]:
        cost = _WARD if rule.cost == _LIKELIHOOD and rounds < rule.ward_rounds else rule.cost
        picks, group, some, starts = pick[here:], component[here:], members[here:], start[begin:]
        pick_regions(known, cost, count, row, neighbour, length, rows, rule, slab[:0], best, key, picks)
        groups = components_of_picks(count, picks, group, starts, ordered, new_neighbour)
        gather_members(count, groups, group, starts, some)
        order_members(groups, starts, some, key, picks, ordered)
        sum_up(known, (), rows, groups, starts, ordered, new_rows, rule)
        region_energies(known, groups, new_rows, rule)
        nodes, new_nodes = node[here:], node[here + count :]
        made = name_nodes(known, (), tau, rows, groups, starts, ordered, nodes, above[here:], new_rows, new_nodes, tree, made, rule)
        adjacency_of_regions(groups, starts, some, group, row, neighbour, length, new_row, new_neighbour, new_length, slot)
        row, new_row = new_row, row
        neighbour, new_neighbour = new_neighbour, neighbour
        length, new_length = new_length, length
        rows, new_rows = new_rows, rows
        rounds += 1
        here += count
        begin += groups + 1
        offset[rounds] = here
        count = groups
    offset[rounds + 1] = here + count
    return rounds, made


@kernel
def label_pixels(rounds, offset, component, node, above, left, right, opened, parent, top, label, number, labels):
    """Labels of the pixels under a cut of the nodes, numbered by first pixel; parent and top are scratch per node.

    label: scratch per region of every level; number: scratch per region of the cut.
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
            if inherited < 0:  # a pixel that is a region of its own
                labels[pixel] = seen
                seen += _i4(1)
                continue
        if number[inherited] < 0:
            number[inherited] = seen
            seen += _i4(1)
        labels[pixel] = number[inherited]


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


def exact_cut(features: Tensor, shape: tuple[int, int], rule: MergeRule, count: int, levels: Tensor | None = None) -> ExactCut:
    """The nested cut with exactly `count` regions, as `open_largest` and `cut_labels` have it of the tree that `build` makes.

    features: planes (C, H·W) float32. levels: to be filled, see the definition.
    """
    leaves = features.shape[1]
    if leaves == 1:
        return definition.exact_cut(features, shape, rule, count, levels)
    if not rule.prunable:
        tree = build(features, torch.ones(shape, dtype=torch.bool), rule)
        return ExactCut(cut_labels(tree.parent, open_largest(tree.gain, tree.left, tree.right, count - 1)), None)
    check_size(leaves)
    planes, compiled_rule, guess = features.contiguous().numpy(), kernel_rule(rule, features.shape[0]), 0.0
    if 1 < count <= leaves // SPARSE:
        guess = GUESS / count * sampled_energy(planes, compiled_rule.inverse_floor)
    found = pruned_cut(planes, shape, compiled_rule, count, levels, _f4(guess))
    return found or pruned_cut(planes, shape, compiled_rule, count, levels, _ZERO)  # type: ignore[return-value]


def pruned_cut(planes: Any, shape: tuple[int, int], rule: Any, count: int, kept: Tensor | None, tau: Any) -> ExactCut | None:
    """The cut by way of the nodes of energy ≥ τ, or None where that does not prove to be the cut of the whole tree."""
    channels, leaves = planes.shape
    known = known_channels(channels)
    half, edges, quarter, new_edges = capacities(leaves, True)
    rows = (half + quarter) * (2 * (len(known) or channels) + 2)
    work, total = 4 * leaves + 3 * half + quarter + 2 * edges + 2 * new_edges + rows + 64, 2 * leaves + MOST_LEVELS
    slab = scratch("tree", work + 6 * total + 3 * leaves)
    arrays = slab[work : work + 6 * total].reshape(6, total)
    levels = arrays[:3] if kept is None else kept.numpy().view(np.uint32)
    component, node, above = arrays[3], arrays[4].view(np.int32), arrays[5].view(np.int32)
    left, right, gain_words = slab[work + 6 * total : work + 6 * total + 3 * leaves].view(np.int32).reshape(3, leaves)
    gain, offset = gain_words.view(np.float32), np.empty(MOST_LEVELS, np.int64)
    pick, members, start = levels[:3]
    rounds, made = grow_flat(
        known, planes, shape, rule, tau, slab, (pick, component, members, start, node, above), offset, (left, right, gain)
    )
    if made < count - 1:
        return None
    left, right = left[:made], right[:made]
    opened, smallest = opened_nodes(left, right, gain[:made], count - 1)
    if tau > 0 and not smallest > 1.001 * tau:  # the margin is for sums of float32
        return None
    labels, scratch_label = np.empty(leaves, np.int32), slab[: 2 * made + leaves + total].view(np.int32)
    parent, top, number, label = np.split(scratch_label, [made, 2 * made, 2 * made + leaves])  # what grew the levels is free again
    label_pixels(rounds, offset, component, node, above, left, right, opened, parent, top, label, number, labels)
    if kept is not None:
        levels[3, : rounds + 2] = offset[: rounds + 2]
    return ExactCut(torch.from_numpy(labels), kept)


def opened_nodes(left: Any, right: Any, gain: Any, count: int) -> tuple[Any, float]:
    """Which nodes the cut opens, (K,) bool, and the smallest λ among them; children −1 are flat."""
    made = gain.size
    if made > FEW:
        a, b = (torch.from_numpy(np.where(child < 0, 0, child + np.int32(made + 1))) for child in (left, right))
        largest, smallest = largest_scales(torch.from_numpy(gain), a, b, count)
        return largest.numpy(), smallest
    words = made * HEAP_NODE.itemsize // 4
    scale = np.empty(made, np.float64)
    scales_of_few(left, right, gain, scratch("heaps", words)[:words].view(HEAP_NODE), scale)
    opened = select_largest(torch.from_numpy(scale), count).numpy()
    return opened, float(scale[opened].min(initial=np.inf))
