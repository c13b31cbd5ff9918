"""The cut in which every pixel takes its best region, in numba, without a tree: levels are grown and scored in one pass.

The rows of a level hold all that its criterion needs but Vol(S), the edges inside a region: those are half of what is left of its
pixels' edges without the lengths of the region's edges to others.
"""

import math

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.arithmetic.compiled import double_log_at_least_one
from pixtree.kernels.image.pieces.compiled import connected_pieces, number_pieces
from pixtree.kernels.tree import MOST_LEVELS, Cost, MergeRule
from pixtree.kernels.tree.attributes.compiled import sizes, tree_levels, volumes
from pixtree.kernels.tree.build.compiled import build, check_size, kernel_rule
from pixtree.kernels.tree.build.compiled.adjacency import edges_of_grid, edges_of_regions, ends
from pixtree.kernels.tree.build.compiled.grouping import components_of_picks, gather_members, order_members
from pixtree.kernels.tree.build.compiled.joining import amount_of, region_energies
from pixtree.kernels.tree.build.compiled.lanes import known_channels
from pixtree.kernels.tree.build.compiled.picking import TreeZones, pick_on_grid, pick_regions, pick_zones
from pixtree.kernels.tree.criterion import CHANNELS_PER_DOUBLE_LOG, Scoring
from pixtree.kernels.tree.criterion.compiled import complexity_of, misfits, scores
from pixtree.kernels.tree.cut.compiled import best_ancestors
from pixtree.kernels.tree.prune.compiled import flat_counts, flat_work
from pixtree.kernels.tree.prune.compiled.nodes import pixels_of_zone, sum_up
from pixtree.kernels.tree.zones.compiled import zones_on_grid
from pixtree.runtime.jit import kernel
from pixtree.runtime.threads import scratch

_f4, _f8, _i4, _i8, _u8 = np.float32, np.float64, np.int32, np.int64, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_GROUP = CHANNELS_PER_DOUBLE_LOG
_GAUSSIAN, _WARD, _LIKELIHOOD = int(Cost.GAUSSIAN), int(Cost.WARD), int(Cost.LIKELIHOOD)


@kernel
def weigh(known, single, source, groups, start, ordered, key, pick, target, rule, zone_size):
    """The vectors of `alg:merge` in the rows of the next level, from members in the order in which they join, as in `merge`."""
    channels = len(known) if len(known) > 0 else rule.channels
    leaf = len(single) > 0
    for group in range(_u8(groups)):
        begin, end = _u8(start[group]), _u8(start[group + _u8(1)])
        zone = pixels_of_zone(_u8(ordered[begin]), zone_size) if leaf else _u8(1)
        for i in range(begin, end):
            if i > begin and i < begin + zone:
                continue
            member = _u8(ordered[i])
            size = _ONE if leaf else source[member, channels]
            if i == begin and zone > _u8(1):
                size = _f4(zone)
            amount = amount_of(member, size, key, pick, rule)
            for c in range(channels):
                if leaf:
                    value = source[c, member] if c < rule.channels else _ZERO
                else:
                    value = source[member, rule.compared + c]
                had = target[group, rule.compared + c] if i > begin else _ZERO
                target[group, rule.compared + c] = had + amount * value
        for c in range(channels):
            target[group, rule.compared + c] /= target[group, channels]


@kernel
def count_sides(shape, component, count, rows, channels, degree):
    """degree = the edges of the pixel graph at the pixels of every region of the first level; inner ones count twice."""
    height, width = shape
    for region in range(_u8(count)):
        degree[region] = _i4(4) * _i4(rows[region, channels])
    for x in range(width):
        degree[component[x]] -= _i4(1)
        degree[component[(height - 1) * width + x]] -= _i4(1)
    for y in range(height):
        degree[component[y * width]] -= _i4(1)
        degree[component[y * width + width - 1]] -= _i4(1)


@kernel
def score_level(known, count, edges, length, rows, rule, degree, around, scoring, score):
    """IC of the regions of a level. scoring: (penalty, γ, 1/φ, |E|, pixels, log pixels); around is scratch."""
    channels = len(known) if len(known) > 0 else rule.channels
    penalty, scale, inverse_floor, all_edges, pixels, log_pixels = scoring
    for region in range(_u8(count)):
        around[region] = _i4(0)
    for i in range(_u8(edges.size)):
        a, b = ends(edges[i])
        around[a] += _i4(length[i])
        around[b] += _i4(length[i])
    for region in range(_u8(count)):
        size, product, logs = rows[region, channels], 1.0, 0.0
        for c in range(channels):
            product *= 1.0 + _f8(rows[region, channels + 1 + c] / size) * inverse_floor
            if c % _GROUP == _GROUP - 1 or c == channels - 1:
                logs += double_log_at_least_one(product)
                product = 1.0
        k = all_edges / _f8((degree[region] - around[region]) // _i4(2))
        fit = _f8(size) * logs
        score[region] = fit + scale * complexity_of(k, _f8(size), pixels, log_pixels, penalty) if scale > 0.0 else fit


@kernel
def grow_levels(known, features, shape, rule, work, levels, offset, zone_size, sums, scoring, score):
    """All rounds from pixels, which have picked, to one region, as in `tree.build`; keeps all levels, and the score of each region.

    Returns the number of rounds.
    """
    pick, component, members, start = levels
    degree, new_degree, around = sums
    leaves = features.shape[1]
    channels = len(known) if len(known) > 0 else rule.channels
    key, ordered, place, slot, edges, length, sorted_length, rows, new_rows, sorted_edges = work
    count = components_of_picks(leaves, pick, component, start, length, sorted_length)
    gather_members(leaves, count, component, start, members)
    order_members(count, start, members, key, pick, ordered)
    sum_up(known, (0,), features, count, start, ordered, rows, rule, zone_size)
    if rule.compared > 0:
        weigh(known, (0,), features, count, start, ordered, key, pick, rows, rule, zone_size)
    touching = edges_of_grid(shape, count, component, place, slot, edges, sorted_edges, length)
    count_sides(shape, component, count, rows, channels, degree)
    offset[0], offset[1] = 0, leaves
    rounds, here, begin = 1, leaves, count + 1
    score_level(known, count, edges[:touching], length, rows, rule, degree, around, scoring, score[here:])
    while touching > 0:
        cost = _WARD if rule.cost == _LIKELIHOOD and rounds < rule.ward_rounds else rule.cost
        if cost == _LIKELIHOOD:
            region_energies(known, count, rows, rule)
        picks, group, some, starts = pick[here:], component[here:], members[here:], start[begin:]
        pick_regions(known, cost, count, edges[:touching], length, rows, rule, slot[:0], key, picks)
        groups = components_of_picks(count, picks, group, starts, ordered, sorted_length)
        gather_members(count, groups, group, starts, some)
        order_members(groups, starts, some, key, picks, ordered)
        sum_up(known, (), rows, groups, starts, ordered, new_rows, rule, zone_size)
        if rule.compared > 0:
            weigh(known, (), rows, groups, starts, ordered, key, picks, new_rows, rule, zone_size)
        touching = edges_of_regions(touching, groups, group, place, slot, edges, length, sorted_edges, sorted_length)
        for region in range(_u8(groups)):
            new_degree[region] = _i4(0)
        for region in range(_u8(count)):
            new_degree[group[region]] += degree[region]
        rows, new_rows = new_rows, rows
        degree, new_degree = new_degree, degree
        rounds += 1
        here += count
        begin += groups + 1
        offset[rounds] = here
        count = groups
        score_level(known, count, edges[:touching], length, rows, rule, degree, around, scoring, score[here:])
    offset[rounds + 1] = here + count
    return rounds


@kernel
def choose_regions(rounds, offset, component, score, best):
    """best = the region of least score on the way up from every region, the larger one at ties; all number those of all levels."""
    best[offset[rounds]] = offset[rounds]
    for level in range(rounds - 1, -1, -1):
        here, up = offset[level], offset[level + 1]
        for i in range(_u8(here), _u8(up)):
            above = best[_u8(up) + _u8(component[i])]
            best[i] = above if score[above] <= score[i] else _i8(i)


def pixelwise_cut(
    features: Tensor, shape: tuple[int, int], rule: MergeRule, scoring: Scoring, floor: float, levels: Tensor | None = None
) -> Tensor:
    """Each pixel's region of least IC among those of all levels, the larger of equals; what this tears apart falls into pieces.

    See the definition. Linear time in practice.
    """
    channels, leaves = features.shape
    check_size(leaves)
    if leaves == 1 or rule.cost in (Cost.COSINE, Cost.TANIMOTO):  # whose first round is not on the grid
        return through_tree(features, shape, rule, scoring, floor, levels)
    planes, known = features.contiguous().numpy(), known_channels(channels)
    lanes, total = len(known) or channels, 2 * leaves + MOST_LEVELS
    compiled_rule = kernel_rule(rule, channels)
    wide = 2 * lanes + 2
    if rule.weighted:
        compiled_rule, wide = compiled_rule._replace(compared=wide), wide + lanes
    counts = flat_counts(leaves, wide)
    words = (sum(counts) + len(counts) + 1) // 2 * 2  # even, since float64 follows
    slab = scratch("tree", words + 8 * total + 3 * leaves)
    work, rest = flat_work(slab, counts, wide), slab[words:]
    score, best = rest[: 4 * total].view(np.float64).reshape(2, total)
    best = best.view(np.int64)
    rows = rest[4 * total : 8 * total].reshape(4, total)
    sums = rest[8 * total : 8 * total + 3 * leaves].view(np.int32).reshape(3, leaves)
    pick, members, start = rows[:3] if levels is None else levels.numpy().view(np.uint32)[:3]
    pick_on_grid(planes, *shape, (0, shape[1]), rule.cost != _GAUSSIAN, work.key, pick)
    found = zones_on_grid(planes, shape, work.key)
    if found.root.size:
        zones = TreeZones(found.root, found.joins, found.size, found.size)
        pick_zones(planes, rule.cost, zones, (0, shape[1]), shape[1], work.key, pick)
    edges = float(2 * leaves - sum(shape))
    single = edges / scoring.single_volume if scoring.single_volume > 0 else math.inf
    numbers = (int(scoring.penalty), float(scoring.scale), 1.0 / floor, edges, float(leaves), math.log(leaves))
    score[:leaves] = score_of_pixels(single, numbers)
    offset = np.empty(MOST_LEVELS, np.int64)
    kept = (pick, rows[3], members, start)
    rounds = grow_levels(known, planes, shape, compiled_rule, work, kept, offset, found.size, tuple(sums), numbers, score)
    if levels is not None:
        levels.numpy()[3, : rounds + 2] = offset[: rounds + 2]  # by numpy: torch refuses it for tensors of inference mode
    choose_regions(rounds, offset, rows[3], score, best)
    labels = np.empty(shape, np.int32)
    number_pieces(best[:leaves].reshape(shape), work.key[:leaves], labels.reshape(-1))
    return torch.from_numpy(labels)


@kernel
def score_of_pixels(k, scoring):
    """IC of a single pixel, whose variance is 0."""
    penalty, scale, _, _, pixels, log_pixels = scoring
    return scale * complexity_of(k, 1.0, pixels, log_pixels, penalty) if scale > 0.0 else 0.0


def through_tree(
    features: Tensor, shape: tuple[int, int], rule: MergeRule, scoring: Scoring, floor: float, levels: Tensor | None
) -> Tensor:
    """The same by way of the whole tree, as in the definition."""
    inside = torch.ones(shape, dtype=torch.bool)
    tree = build(features, inside, rule, levels is not None)
    if levels is not None:
        tree_levels(tree, levels)
    fit, size = misfits(features, tree.left, tree.right, floor), sizes(tree.left, tree.right)
    score = scores(fit, size, volumes(tree.parent, tree.left, tree.right, inside), tree, scoring)
    node = best_ancestors(score.masked_fill(score.isnan(), torch.inf), tree.parent)
    return connected_pieces(node.view(shape))
