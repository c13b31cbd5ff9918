"""The tree, round by round, in numba: equal to `reference.merging` bit for bit.

What makes it fast: the first round works on the pixel grid without an edge list; later rounds on a symmetric adjacency in rows
(planar graphs have few edges); ordering, merging, adjacency and picking are separate passes over arrays; the likelihood is
computed in blocks, so that its logarithm vectorises; and all of it happens in one reused slab of memory, since fresh pages cost
more than the arithmetic.

Every kernel has a parameter `three`: a tuple of length 3 for images of three channels (then the channel loops unroll), else empty.
Indices are unsigned, because signed ones pay for negative wrap-around.
"""

import threading
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.compiled.arithmetic import bits_of, edge_hash, from_bits, length_power, log_at_least_one, order_key
from pixtree.kernels.compiled.jit import inlined, kernel
from pixtree.kernels.reference.merging import Tree
from pixtree.kernels.rule import Cost, Energy, MergeRule

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_BLOCK = 512  # edges whose costs are computed together
_FAR = np.int64(2**63 - 1)
_FAR_BITS = np.int32(2**31 - 1)
_UNSEEN = _u4(0xFFFFFFFF)
_GROUP = CHANNELS_PER_LOG
_GAUSSIAN, _COSINE, _TANIMOTO, _WARD, _LIKELIHOOD = (int(cost) for cost in Cost)


# ---------------------------------------------------------------------------------------------------- first round, on the grid
@kernel
def pick_on_grid(features, height, width, halved, key, pick):
    """Each pixel's cheapest 4-neighbour by squared distance; features are planes (C, H·W).

    Candidates come in the order up, left, right, down: that of (first, second), so the strict comparison settles equal keys.
    """
    channels = features.shape[0]
    above = np.full(width, _FAR, np.int64)
    below = np.empty(width, np.int64)
    beside = np.full(width + 1, _FAR, np.int64)  # beside[x] lies left of pixel x
    cost = np.empty(width, np.float32)
    weight = _f4(0.5) if halved else _ONE
    for y in range(height):
        start = y * width
        squared_steps(features, channels, start, start + 1, width - 1, cost)
        for x in range(width - 1):
            beside[x + 1] = order_key(bits_of(cost[x] * weight), start + x, start + x + 1)
        if y + 1 < height:
            squared_steps(features, channels, start, start + width, width, cost)
            for x in range(width):
                below[x] = order_key(bits_of(cost[x] * weight), start + x, start + x + width)
        else:
            below[:] = _FAR
        for x in range(width):
            best = above[x]
            step = -width
            if beside[x] < best:
                best = beside[x]
                step = -1
            if beside[x + 1] < best:
                best = beside[x + 1]
                step = 1
            if below[x] < best:
                best = below[x]
                step = width
            key[start + x] = best
            pick[start + x] = _u4(start + x + step)
        above, below = below, above


@inlined
def squared_steps(features, channels, first, second, count, cost):
    """cost[i] = Σ_c (features[c, first + i] − features[c, second + i])², channel after channel."""
    for i in range(count):
        step = features[0, second + i] - features[0, first + i]
        cost[i] = step * step
    for c in range(1, channels):
        for i in range(count):
            step = features[c, second + i] - features[c, first + i]
            cost[i] += step * step


# ---------------------------------------------------------------------------------------------------- components of the picks
@kernel
def components_of_picks(count, pick, component, start):
    """Number the components by first member; start[c + 1] becomes the size of c. A region that picks itself is alone."""
    component[:count] = _UNSEEN
    found = _u4(0)
    start[0] = _u4(0)
    for region in range(count):
        first = _u4(region)
        if component[first] != _UNSEEN:
            continue
        last, new = first, _u4(1)
        while True:
            other = pick[last]
            label = component[other]
            if label != _UNSEEN:
                start[label + _u4(1)] += new
                break
            if pick[other] == last:  # the mutual pair at the bottom of every component, or a region alone
                label = found
                found = _u4(found + _u4(1))
                component[other] = label
                start[label + _u4(1)] = new if other == last else _u4(new + _u4(1))
                break
            last, new = other, _u4(new + _u4(1))
        walk = first
        while walk != last:
            component[walk] = label
            walk = pick[walk]
        component[last] = label
    return _i8(found)


@kernel
def gather_members(count, groups, component, start, members):
    """Counting sort: members[start[c]:start[c + 1]] are the regions of component c, ascending."""
    total = _u4(0)
    for group in range(_u8(groups)):
        size = start[group + _u8(1)]
        start[group + _u8(1)] = total
        total = _u4(total + size)
    for region in range(_u8(count)):
        slot = _u8(component[region]) + _u8(1)
        members[start[slot]] = _u4(region)
        start[slot] = _u4(start[slot] + _u4(1))


@inlined
def joins_before(x, x_key, y, y_key, pick):
    """Whether member x joins its component before y: by (key, first, second) of the picked edge, then by its own number."""
    if x_key != y_key:
        return x_key < y_key
    x_first, y_first = min(x, pick[x]), min(y, pick[y])
    if x_first != y_first:
        return x_first < y_first
    x_second, y_second = max(x, pick[x]), max(y, pick[y])
    if x_second != y_second:
        return x_second < y_second
    return x < y


@kernel
def order_members(groups, start, members, key, pick, ordered):
    """ordered = the members of every component in the order in which they join."""
    for group in range(_u8(groups)):
        begin = _i8(start[group])
        size = _i8(start[group + _u8(1)]) - begin
        if size <= 2:  # a mutual pair: one edge, the smaller number first
            for i in range(begin, begin + size):
                ordered[i] = members[i]
        elif size <= 48:
            for i in range(begin, begin + size):
                x = members[i]
                x_key = key[x]
                j = i
                while j > begin and joins_before(x, x_key, ordered[j - 1], key[ordered[j - 1]], pick):
                    ordered[j] = ordered[j - 1]
                    j -= 1
                ordered[j] = x
        else:
            heap_sort(begin, size, members, key, pick, ordered)


@kernel
def heap_sort(begin, size, members, key, pick, ordered):
    """The same for components of any size in O(n log n), in place."""
    for i in range(begin, begin + size):
        ordered[i] = members[i]
    root, end = size // 2, size
    while end > 1:
        if root > 0:
            root -= 1
            x = ordered[begin + root]
        else:
            end -= 1
            x = ordered[begin + end]
            ordered[begin + end] = ordered[begin]
        x_key, hole = key[x], root
        while 2 * hole + 1 < end:
            child = 2 * hole + 1
            a = ordered[begin + child]
            if child + 1 < end:
                b = ordered[begin + child + 1]
                if joins_before(a, key[a], b, key[b], pick):
                    child, a = child + 1, b
            if not joins_before(x, x_key, a, key[a], pick):
                break
            ordered[begin + hole] = a
            hole = child
        ordered[begin + hole] = x


# ---------------------------------------------------------------------------------------------------- merging
# A region is one row of float32: means (C), size, squared deviations (C), energy.
@kernel
def merge(three, leaf, source, groups, start, ordered, node, key, target, new_node, tree, next_node, leaves, rule):
    """Join the members of every component one after another: rows of the new regions, and a tree node per join.

    source: planes (C, N) of pixels in the first round (`leaf`), else rows of regions. Where the energy needs logarithms, the node's
    factor waits in `gain` and its size in `energy` until `finish_gains`, where the logarithm vectorises.
    """
    channels = len(three) if len(three) > 0 else rule.channels
    parent, left, right, altitude, gain, energy = tree
    for group in range(groups):
        begin, end = _i8(start[group]), _i8(start[group + 1])
        first = _u8(ordered[begin])
        cluster = _i4(first) if leaf else node[first]
        if leaf:
            for c in range(channels):
                target[group, c] = source[c, first]
                target[group, channels + 1 + c] = _ZERO
            size = _ONE
        else:
            for c in range(channels):
                target[group, c] = source[first, c]
                target[group, channels + 1 + c] = source[first, channels + 1 + c]
            size = source[first, channels]
        for i in range(begin + 1, end):
            member = _u8(ordered[i])
            other = _ONE if leaf else source[member, channels]
            both = size + other
            spread, share = size * other / both, other / both
            scale = rule.inverse_floor / both
            squares, product, logs = _ZERO, _ONE, _ZERO
            for c in range(channels):
                step = (source[c, member] if leaf else source[member, c]) - target[group, c]
                target[group, c] += share * step
                deviation = target[group, channels + 1 + c]
                if not leaf:
                    deviation += source[member, channels + 1 + c]
                deviation += spread * step * step
                target[group, channels + 1 + c] = deviation
                squares += step * step
                product *= _ONE + deviation * scale
                if len(three) == 0 and c % _GROUP == _GROUP - 1:
                    logs += log_at_least_one(product)
                    product = _ONE
            size = both
            absorbed = _i4(member) if leaf else node[member]
            k = next_node - leaves
            left[k], right[k] = cluster, absorbed
            parent[cluster] = parent[absorbed] = _i4(next_node)
            altitude[next_node] = from_bits(_i4(key[member] >> 32))
            if not rule.logarithmic:
                gain[k] = squares * spread
            elif len(three) > 0:
                gain[k], energy[next_node] = product, both
            else:
                if channels % _GROUP != 0:
                    logs += log_at_least_one(product)
                energy[next_node] = both * logs
            cluster = _i4(next_node)
            next_node += 1
        target[group, channels] = size
        new_node[group] = cluster
    return next_node


@kernel
def region_energies(three, groups, rows, rule):
    """Fill the energy of every row: n Σ_c log(1 + deviation_c / (n φ))."""
    channels = len(three) if len(three) > 0 else rule.channels
    for group in range(groups):
        size = rows[group, channels]
        scale = rule.inverse_floor / size
        product, logs = _ONE, _ZERO
        for c in range(channels):
            product *= _ONE + rows[group, channels + 1 + c] * scale
            if c % _GROUP == _GROUP - 1 or c == channels - 1:
                logs += log_at_least_one(product)
                product = _ONE
        rows[group, 2 * channels + 1] = size * logs


@kernel
def finish_gains(three, inner, leaves, left, right, gain, energy):
    """gain = energy of the node minus those of its children, never negative."""
    energy[:leaves] = _ZERO
    if len(three) > 0:
        for k in range(inner):
            energy[leaves + k] *= log_at_least_one(gain[k])
    for k in range(_u8(inner)):
        gain[k] = max(energy[_u8(leaves) + k] - (energy[_u4(left[k])] + energy[_u4(right[k])]), _ZERO)


# ---------------------------------------------------------------------------------------------------- adjacency
# Row A of the adjacency is neighbour[row[A]:row[A + 1]], with the pixel edges shared in `length`; each edge stands in both rows.
# Slot 0 is never used, so that a zero in `slot` means "not seen".
@kernel
def adjacency_of_grid(height, width, groups, start, members, component, row, neighbour, length, slot):
    """Adjacency of the first round's regions, read from the pixel grid."""
    wide, tall, one = _u8(width), _u8(height), _u8(1)
    slot[:groups] = _u4(0)
    row[0] = _u4(1)
    free = _u8(1)
    for region in range(_u8(groups)):
        begin, this = free, _u4(region)
        for q in range(_u8(start[region]), _u8(start[region + one])):
            pixel = _u8(members[q])
            y = pixel // wide
            x = pixel - y * wide
            for side in range(4):
                if side == 0:
                    if y == _u8(0):
                        continue
                    other = component[pixel - wide]
                elif side == 1:
                    if x == _u8(0):
                        continue
                    other = component[pixel - one]
                elif side == 2:
                    if x + one == wide:
                        continue
                    other = component[pixel + one]
                else:
                    if y + one == tall:
                        continue
                    other = component[pixel + wide]
                if other != this:
                    k = _u8(slot[other])
                    if k >= begin:
                        length[k] += _u4(1)
                    else:
                        slot[other] = _u4(free)
                        neighbour[free] = other
                        length[free] = _u4(1)
                        free += one
        row[region + one] = _u4(free)


@kernel
def adjacency_of_regions(groups, start, members, component, row, neighbour, length, new_row, new_neighbour, new_length, slot):
    """Adjacency of the next level from that of this one."""
    one = _u8(1)
    slot[:groups] = _u4(0)
    new_row[0] = _u4(1)
    free = _u8(1)
    for region in range(_u8(groups)):
        begin, this = free, _u4(region)
        for q in range(_u8(start[region]), _u8(start[region + one])):
            member = _u8(members[q])
            for e in range(_u8(row[member]), _u8(row[member + one])):
                other = component[neighbour[e]]
                if other != this:
                    k = _u8(slot[other])
                    if k >= begin:
                        new_length[k] += length[e]
                    else:
                        slot[other] = _u4(free)
                        new_neighbour[free] = other
                        new_length[free] = length[e]
                        free += one
        new_row[region + one] = _u4(free)


@kernel
def adjacency_of_mask(number, row, neighbour, length):
    """Adjacency of single pixels inside a mask; number (H, W) int32 is the pixel's vertex, −1 outside."""
    height, width = number.shape
    row[0] = _u4(1)
    free, vertex = 1, 0
    for y in range(height):
        for x in range(width):
            if number[y, x] < 0:
                continue
            for side in range(4):
                v = y + (-1 if side == 0 else 1 if side == 3 else 0)
                u = x + (-1 if side == 1 else 1 if side == 2 else 0)
                if v >= 0 and u >= 0 and v < height and u < width and number[v, u] >= 0:
                    neighbour[free] = _u4(number[v, u])
                    length[free] = _u4(1)
                    free += 1
            vertex += 1
            row[vertex] = _u4(free)


# ---------------------------------------------------------------------------------------------------- picks of regions
@inlined
def pair_growth(three, a, b, rows, rule, cost):
    """Cost of merging rows a and b for the costs without logarithm, before the length of their boundary counts."""
    channels = len(three) if len(three) > 0 else rule.channels
    if cost == _GAUSSIAN or cost == _WARD:
        total = _ZERO
        for c in range(channels):
            step = rows[b, c] - rows[a, c]
            total += step * step
        if cost == _GAUSSIAN:
            return total
        return total * (rows[a, channels] * rows[b, channels] / (rows[a, channels] + rows[b, channels]))
    product, squares_a, squares_b = _ZERO, _ZERO, _ZERO
    for c in range(channels):
        product += rows[a, c] * rows[b, c]
        squares_a += rows[a, c] * rows[a, c]
        squares_b += rows[b, c] * rows[b, c]
    if cost == _COSINE:
        norm = np.sqrt(squares_a) * np.sqrt(squares_b)
    else:
        norm = squares_a + squares_b - product
    if norm > _ZERO:
        value = product / norm
    else:
        value = _ONE if squares_a + squares_b == _ZERO else _ZERO
    return _ONE - min(max(value, -_ONE if cost == _COSINE else _ZERO), _ONE)


@inlined
def merged_logs(three, a, b, rows, rule):
    """Product of 1 + variance/φ over the channels of a ∪ b; for other counts the sum of their logarithms."""
    channels = len(three) if len(three) > 0 else rule.channels
    size_a, size_b = rows[a, channels], rows[b, channels]
    both = size_a + size_b
    spread, scale = size_a * size_b / both, rule.inverse_floor / both
    product, logs = _ONE, _ZERO
    for c in range(channels):
        step = rows[b, c] - rows[a, c]
        deviation = (rows[a, channels + 1 + c] + rows[b, channels + 1 + c]) + spread * step * step
        product *= _ONE + deviation * scale
        if len(three) == 0 and c % _GROUP == _GROUP - 1:
            logs += log_at_least_one(product)
            product = _ONE
    if len(three) > 0:
        return product
    return logs + log_at_least_one(product) if channels % _GROUP != 0 else logs


@inlined
def tie_goes_to(region, new, old):
    """Whether, at equal cost, region prefers its neighbour `new` over `old`: by the hash of the edge, then (first, second)."""
    new_hash = edge_hash(min(region, new), max(region, new))
    old_hash = edge_hash(min(region, old), max(region, old))
    return new_hash < old_hash or (new_hash == old_hash and new < old)


@kernel
def pick_regions(three, cost, count, row, neighbour, length, rows, rule, best, key, pick):
    """Each region's cheapest neighbour; an edge is costed once, from its smaller end, and offered to both.

    Works in blocks: gather the edges, then one loop over the block that vectorises (logarithm, square root), then the offers.
    """
    channels = len(three) if len(three) > 0 else rule.channels
    firsts, seconds = np.empty(_BLOCK, np.uint32), np.empty(_BLOCK, np.uint32)
    growth, lengths = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    sizes, energies = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    bits = np.empty(_BLOCK, np.int32)
    one, total = _u8(1), _u8(count)
    for region in range(total):
        best[region] = _FAR_BITS
        pick[region] = _u4(region)
    region, e = _u8(0), _u8(row[0])
    while region < total:
        filled = _u8(0)
        while region < total and filled < _u8(_BLOCK):
            end = _u8(row[region + one])
            while e < end and filled < _u8(_BLOCK):
                other = _u8(neighbour[e])
                if other > region:
                    firsts[filled], seconds[filled] = _u4(region), _u4(other)
                    lengths[filled] = _f4(length[e])
                    if cost == _LIKELIHOOD:
                        growth[filled] = merged_logs(three, region, other, rows, rule)
                        sizes[filled] = rows[region, channels] + rows[other, channels]
                        energies[filled] = rows[region, 2 * channels + 1] + rows[other, 2 * channels + 1]
                    else:
                        growth[filled] = pair_growth(three, region, other, rows, rule, cost)
                    filled += one
                e += one
            if e == end:
                region += one
        if cost == _LIKELIHOOD and len(three) > 0:
            for i in range(filled):
                growth[i] = max(sizes[i] * log_at_least_one(growth[i]) - energies[i], _ZERO)
        elif cost == _LIKELIHOOD:
            for i in range(filled):
                growth[i] = max(sizes[i] * growth[i] - energies[i], _ZERO)
        if cost >= _WARD:
            over_lengths(growth, lengths, filled, rule.length_quarters)
        for i in range(filled):
            bits[i] = bits_of(growth[i] + _ZERO)
        for i in range(filled):
            a, b, k = firsts[i], seconds[i], bits[i]
            if k < best[a] or (k == best[a] and tie_goes_to(a, b, pick[a])):
                best[a], pick[a] = k, b
            if k < best[b] or (k == best[b] and tie_goes_to(b, a, pick[b])):
                best[b], pick[b] = k, a
    for region in range(total):
        other = _u8(pick[region])
        key[region] = order_key(best[region], min(region, other), max(region, other))


@inlined
def over_lengths(growth, lengths, count, quarters):
    """growth /= length^(quarters / 4)."""
    if quarters == 2:  # the default, in a loop of its own so that it vectorises
        for i in range(count):
            growth[i] /= np.sqrt(lengths[i])
    else:
        for i in range(count):
            growth[i] /= length_power(lengths[i], quarters)


# ---------------------------------------------------------------------------------------------------- all rounds
@inlined
def carve(slab, used, count):
    """The next `count` words of the slab, and where it is free from then on; even words only, so that they may be int64."""
    return slab[used : used + count], used + count + count % 2


@kernel
def grow(three, features, number, shape, on_grid, rule, slab, tree, level):
    """All rounds from pixels to one region per piece; fills `tree` and `level`.

    features: planes (C, M). number: (H, W) int32 vertices inside a mask, read unless `on_grid`. Returns the number of rounds, the
    next free node, the number of pieces, and their nodes.
    """
    channels = len(three) if len(three) > 0 else rule.channels
    leaves = features.shape[1]
    height, width = shape
    wide = 2 * channels + 2
    half = leaves // 2 + 1 if on_grid else leaves + 1  # regions after the first round; every component has two members or more
    edges = 4 * leaves + 2
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
    quarter = half // 2 + 2 if on_grid else half
    new_row, used = carve(slab, used, quarter + 1)
    new_edges = 6 * quarter + 2 if on_grid else edges  # planar graphs have fewer than 3n edges
    new_neighbour, used = carve(slab, used, new_edges)
    new_length, used = carve(slab, used, new_edges)
    new_rows_words, used = carve(slab, used, quarter * wide)
    new_rows = new_rows_words.view(np.float32).reshape(quarter, wide)
    new_node_words, used = carve(slab, used, quarter)
    new_node = new_node_words.view(np.int32)
    next_node, rounds = leaves, 0
    if on_grid:
        rounds = 1
        pick_on_grid(features, height, width, rule.cost != _GAUSSIAN, key, pick)
        count = components_of_picks(leaves, pick, component, start)
        gather_members(leaves, count, component, start, members)
        order_members(count, start, members, key, pick, ordered)
        next_node = merge(three, True, features, count, start, ordered, node, key, rows, node, tree, next_node, leaves, rule)
        adjacency_of_grid(height, width, count, start, members, component, row, neighbour, length, slot)
        level[leaves:next_node] = 1
    else:
        count = leaves
        for i in range(leaves):
            node[i] = i
            for c in range(channels):
                rows[i, c] = features[c, i]
                rows[i, channels + 1 + c] = _ZERO
            rows[i, channels] = _ONE
        adjacency_of_mask(number, row, neighbour, length)
    while row[count] > row[0]:
        cost = _WARD if rule.cost == _LIKELIHOOD and rounds < rule.ward_rounds else rule.cost
        if cost == _LIKELIHOOD:
            region_energies(three, count, rows, rule)
        pick_regions(three, cost, count, row, neighbour, length, rows, rule, best, key, pick)
        rounds += 1
        groups = components_of_picks(count, pick, component, start)
        gather_members(count, groups, component, start, members)
        order_members(groups, start, members, key, pick, ordered)
        before = next_node
        next_node = merge(three, False, rows, groups, start, ordered, node, key, new_rows, new_node, tree, next_node, leaves, rule)
        level[before:next_node] = rounds
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
    half = leaves // 2 + 1 if on_grid else leaves + 1
    quarter = half // 2 + 2 if on_grid else half
    edges = 4 * leaves + 2
    new_edges = 6 * quarter + 2 if on_grid else edges
    rows = (half + quarter) * (2 * channels + 3)
    return 6 * leaves + 5 * half + quarter + 2 * edges + 2 * new_edges + rows + 64


# ---------------------------------------------------------------------------------------------------- the caller's side
class _KernelRule(NamedTuple):
    """MergeRule in the types that the kernels are compiled for."""

    cost: int
    logarithmic: bool
    inverse_floor: Any
    length_quarters: int
    ward_rounds: int
    channels: int


_workspace = threading.local()


def _slab(words: int) -> Any:
    """This thread's reused memory, grown when a larger image comes."""
    slab = getattr(_workspace, "slab", None)
    if slab is None or slab.size < words:
        slab = _workspace.slab = np.empty(words, np.uint32)
    return slab


def build(features: Tensor, inside: Tensor, rule: MergeRule) -> Tree:
    """The tree of the pixels inside a mask (H, W); features are planes (C, M) float32 of its M pixels in raster order.

    Linear time in practice; not more than 2³⁰ pixels.
    """
    channels, leaves = features.shape
    whole = bool(inside.all())
    on_grid = whole and leaves > 1 and rule.cost not in (Cost.COSINE, Cost.TANIMOTO)
    logarithmic = rule.energy == Energy.LOG_VARIANCE
    inverse_floor = _ONE / _f4(rule.floor)
    kernel_rule = _KernelRule(int(rule.cost), logarithmic, inverse_floor, rule.length_quarters, rule.ward_rounds, channels)
    parent = np.empty(2 * leaves - 1, np.int32)
    parent[-1] = -1
    left, right = np.empty(leaves - 1, np.int32), np.empty(leaves - 1, np.int32)
    level, altitude = np.zeros(2 * leaves - 1, np.int16), np.zeros(2 * leaves - 1, np.float32)
    gain = np.empty(leaves - 1, np.float32)
    words = slab_words(leaves, channels, on_grid)
    slab = _slab(words + 2 * leaves)
    energy = slab[words:].view(np.float32)
    tree = (parent, left, right, altitude, gain, energy)
    three = (0, 0, 0) if channels == 3 else ()
    planes = features.contiguous().numpy()
    number = np.zeros((1, 1), np.int32) if on_grid else _vertices(inside)
    shape = (int(inside.shape[0]), int(inside.shape[1]))
    rounds, next_node, pieces, node = grow(three, planes, number, shape, on_grid, kernel_rule, slab, tree, level)
    if logarithmic:
        finish_gains(three, next_node - leaves, leaves, left, right, gain, energy)
    join_pieces(pieces, node, next_node, leaves, rounds + 1, parent, left, right, level, altitude, gain)
    return Tree(*(torch.from_numpy(field) for field in (parent, left, right, level, altitude, gain)))


def _vertices(inside: Tensor) -> Any:
    """Vertex number of every pixel inside the mask, (H, W) int32, −1 outside."""
    number = inside.flatten().cumsum(0) - 1
    return number.masked_fill(~inside.flatten(), -1).view(inside.shape).to(torch.int32).numpy()


@kernel
def join_pieces(pieces, node, next_node, leaves, level_above, parent, left, right, level, altitude, gain):
    """Join what does not touch, so that the tree has one root."""
    cluster = node[0]
    for piece in range(1, pieces):
        k = next_node - leaves
        left[k], right[k] = cluster, node[piece]
        parent[cluster] = parent[node[piece]] = _i4(next_node)
        level[next_node] = level_above
        altitude[next_node] = gain[k] = _f4(np.inf)
        cluster = _i4(next_node)
        next_node += 1
