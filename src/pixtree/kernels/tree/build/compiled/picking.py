"""Each region's cheapest neighbour."""

from typing import Any, NamedTuple

import numpy as np

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.arithmetic.compiled import bits_of, edge_hash, length_power, log_at_least_one, order_key
from pixtree.kernels.tree import Cost
from pixtree.kernels.tree.build.compiled.adjacency import ends
from pixtree.kernels.tree.build.compiled.lanes import COLOURS, LARGEST_LOGS, multiply_groups, union_factors
from pixtree.kernels.tree.zones.compiled import squared_distance
from pixtree.runtime.jit import inlined, kernel, part

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_BLOCK = 256  # edges whose costs are computed together
_FAR, _FAR_BITS = _i8(2**63 - 1), _i8(2**31 - 1)
_UPPER, _LOWER = _i8(-(2**32)), _i8(2**32 - 1)  # halves of an offer
_GROUP = CHANNELS_PER_LOG
ZONE_KEY = _i8(-(2**63))  # of the pixels of a flat zone: before all others
MAGNITUDE = _i8(2**31 - 1)  # the bits of a cost without its sign, which marks blended pixels
_GAUSSIAN, _COSINE, _TANIMOTO, _WARD, _LIKELIHOOD = (int(cost) for cost in Cost)


class TreeZones(NamedTuple):
    """Flat zones with their nodes; all fields are int32, and empty where there are none. See `Zones`."""

    root: Any
    joins: Any
    size: Any  # of the zone that begins at a pixel
    top: Any  # the node of the zone that begins at a pixel


@kernel
def pick_zones(features, cost, zones, place, width, key, pick):
    """Let the pixels of a zone pick its first pixel, and blended pixels the zone that they join, before all other pixels.

    place: (first, stride) of an image with rows of `width` pixels, see `Place`.
    """
    for i in range(zones.root.size):
        other = zones.joins[i]
        if zones.root[i] >= 0:
            key[i], pick[i] = ZONE_KEY, _u4(zones.root[i])
        elif other >= 0:
            if cost == _COSINE or cost == _TANIMOTO:
                distance = dissimilarity(min(i, other), max(i, other), features.T, 0, features.shape[0], cost)
            else:
                distance = squared_distance(features, i, other)
                distance *= _ONE if cost == _GAUSSIAN else _f4(0.5)
            here = place[0] + i // width * place[1] + i % width
            there = place[0] + other // width * place[1] + other % width
            key[i], pick[i] = ZONE_KEY + order_key(bits_of(distance), min(here, there), max(here, there)), _u4(other)


@kernel
def pick_on_grid(features, height, width, place, halved, key, pick):
    """Each pixel's cheapest 4-neighbour by squared distance; features are planes (C, H·W), place is (first, stride).

    Candidates come in the order up, left, right, down: that of (first, second), so the strict comparison settles equal keys.
    """
    channels = features.shape[0]
    above = np.full(width, _FAR, np.int64)
    below = np.empty(width, np.int64)
    before = np.full(width + 1, _FAR, np.int64)  # before[x] is left of pixel x
    after = before[1:]
    cost = np.empty(width, np.float32)
    weight = _f4(0.5) if halved else _ONE
    for y in range(height):
        start, name = y * width, place[0] + y * place[1]
        squared_steps(features, channels, start, start + 1, width - 1, cost)
        for x in range(width - 1):
            after[x] = order_key(bits_of(cost[x] * weight), name + x, name + x + 1)
        if y + 1 < height:
            squared_steps(features, channels, start, start + width, width, cost)
            for x in range(width):
                below[x] = order_key(bits_of(cost[x] * weight), name + x, name + x + place[1])
        else:
            below[:] = _FAR
        keys, picks = key[start : start + width], pick[start : start + width]
        for x in range(width):
            best = above[x]
            step = -width
            if before[x] < best:
                best = before[x]
                step = -1
            if after[x] < best:
                best = after[x]
                step = 1
            if below[x] < best:
                best = below[x]
                step = width
            keys[x] = best
            picks[x] = _u4(start + x + step)
        above, below = below, above


@inlined
def squared_steps(features, channels, first, second, count, cost):
    """cost[i] = Σ_c (features[c, first + i] − features[c, second + i])², channel after channel.

    Slices, since an index with an offset is checked for its sign and then does not vectorise: five times as slow.
    """
    a, b = features[0, first : first + count], features[0, second : second + count]
    for i in range(count):
        step = b[i] - a[i]
        cost[i] = step * step
    for c in range(1, channels):
        a, b = features[c, first : first + count], features[c, second : second + count]
        for i in range(count):
            step = b[i] - a[i]
            cost[i] += step * step


@inlined
def dissimilarity(a, b, rows, first, channels, cost):
    """1 − κ of `channels` columns of rows a and b, from `first` on, for the cosine and Tanimoto kernels."""
    product, squares_a, squares_b = _ZERO, _ZERO, _ZERO
    for c in range(first, first + channels):
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
def squared_distances(count, channels, steps, growth):
    """growth = Σ_c step_c²."""
    for i in range(count):
        growth[i] = steps[0, i] * steps[0, i]
    for c in range(1, channels):
        for i in range(count):
            growth[i] += steps[c, i] * steps[c, i]


@inlined
def energy_growth(count, channels, steps, deviations, products, sizes, energies, inverse_floor, scales, factors, growth):
    """growth = energy of the union minus those of the two, n Σ_c log(1 + deviation_c / (n φ)), one log per group of channels."""
    # Loops over few arrays each: with more, the compiler gives up proving that they do not overlap, and vectorising.
    for i in range(count):
        scales[i] = inverse_floor / sizes[i]
    for i in range(count):
        products[i] /= sizes[i]
    factors[:] = _ONE
    growth[:] = _ZERO
    for c in range(channels):
        for i in range(count):
            factors[i] *= _ONE + (deviations[c, i] + products[i] * steps[c, i] * steps[c, i]) * scales[i]
        if c % _GROUP == _GROUP - 1 or c == channels - 1:
            for i in range(count):
                growth[i] += log_at_least_one(factors[i])
                factors[i] = _ONE
    for i in range(count):
        growth[i] = max(sizes[i] * growth[i] - energies[i], _ZERO)


@inlined
def gather_edges(count, channels, cost, edges, rows, compared, steps, deviations, products, sizes, energies, growth):
    """Values of their rows that the costs of a block of edges need; for the cosine and Tanimoto kernels, the costs themselves.

    compared: the first column of the vectors that are compared.
    """
    for i in range(count):
        a, b = ends(edges[i])
        if cost == _COSINE or cost == _TANIMOTO:
            growth[i] = dissimilarity(a, b, rows, compared, channels, cost)
        else:
            for c in range(channels):
                steps[c, i] = rows[b, compared + c] - rows[a, compared + c]
            products[i] = rows[a, channels] * rows[b, channels]
            sizes[i] = rows[a, channels] + rows[b, channels]
        if cost == _LIKELIHOOD:
            for c in range(channels):
                deviations[c, i] = rows[a, channels + 1 + c] + rows[b, channels + 1 + c]
            energies[i] = rows[a, 2 * channels + 1] + rows[b, 2 * channels + 1]


@inlined
def growth_in_lanes(known, count, edges, rows, rule, terms, factors, sizes, energies, growth):
    """`gather_edges` and `energy_growth` of rows in lanes."""
    lanes = len(known)
    for i in range(count):
        a, b = ends(edges[i])
        size = rows[a, lanes] + rows[b, lanes]
        spread, scale = rows[a, lanes] * rows[b, lanes] / size, rule.inverse_floor / size
        union_factors(known, rows, a, b, spread, scale, terms, i)
        sizes[i], energies[i] = size, rows[a, 2 * lanes + 1] + rows[b, 2 * lanes + 1]
    logs = (rule.channels + _GROUP - 1) // _GROUP
    multiply_groups(count, terms, logs, factors)
    growth[:] = _ZERO
    for group in range(logs):
        for i in range(count):
            growth[i] += log_at_least_one(factors[group, i])
    for i in range(count):
        growth[i] = max(sizes[i] * growth[i] - energies[i], _ZERO)


@inlined
def known_as(region, names):
    """What the hash of an edge knows a region by: its name, or its number where names are empty."""
    return names[region] if names.size > 0 else _u4(region)


@inlined
def tie_goes_to(region, new, old, names):
    """Whether, at equal cost, region prefers its neighbour `new` over `old`: by the hash of the edge, then (first, second)."""
    new_hash = edge_hash(known_as(min(region, new), names), known_as(max(region, new), names))
    old_hash = edge_hash(known_as(min(region, old), names), known_as(max(region, old), names))
    return new_hash < old_hash or (new_hash == old_hash and new < old)


@inlined
def offer(region, word, best):
    """Let a region pick a neighbour that is cheaper than its pick so far; returns whether it costs the same.

    A word is the bits of the cost, then the neighbour: one comparison, and a select, since a branch would be mispredicted.
    """
    had = best[region]
    best[region] = word if word < (had & _UPPER) else had
    return (word ^ had) & _UPPER == 0


@inlined
def settle_tie(region, word, names, best):
    """Offer a neighbour again that cost the same as the pick at that time, now with the rule for ties."""
    had = best[region]
    if (word ^ had) & _UPPER == 0 and tie_goes_to(region, _u8(word & _LOWER), _u8(had & _LOWER), names):
        best[region] = word


@inlined
def offer_edges(count, edges, growth, names, tied, best):
    """Offer the edges of a block to both their ends. tied: scratch for the numbers of those that need the rule for ties."""
    ties = _u8(0)
    for i in range(count):
        a, b = ends(edges[i])
        upper = _i8(bits_of(growth[i] + _ZERO)) << _i8(32)
        tied[ties] = _u4(i)
        ties += _u8(offer(a, upper | _i8(b), best) | offer(b, upper | _i8(a), best))
    for i in tied[:ties]:
        a, b = ends(edges[i])
        upper = _i8(bits_of(growth[i] + _ZERO)) << _i8(32)
        settle_tie(a, upper | _i8(b), names, best)
        settle_tie(b, upper | _i8(a), names, best)


@part(allocates=True)
def pick_regions(known, cost, count, edges, length, rows, rule, names, key, pick):
    """Each region's cheapest neighbour.

    edges (E,), length (E,): see `adjacency`. names: (R,) uint32 in ascending order, or empty, by which edges are hashed where costs
    are equal.

    Works in blocks: gather what the edges need, then loops over the block that vectorise, then the offers.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    steps, deviations = np.empty((channels, _BLOCK), np.float32), np.empty((channels, _BLOCK), np.float32)
    products, sizes, energies = np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32), np.empty(_BLOCK, np.float32)
    scales, factors = np.empty(_BLOCK, np.float32), np.empty((LARGEST_LOGS, _BLOCK), np.float32)
    terms = np.ones((_BLOCK if len(known) > COLOURS else 1, LARGEST_LOGS * _GROUP), np.float32)
    growth, tied = np.empty(_BLOCK, np.float32), np.empty(_BLOCK + 1, np.uint32)
    for region in range(_u8(count)):
        key[region] = _FAR_BITS << _i8(32) | _i8(region)
    for begin in range(0, edges.size, _BLOCK):
        some, lengths = edges[begin : begin + _BLOCK], length[begin : begin + _BLOCK]
        filled = _u8(some.size)
        if len(known) > COLOURS:
            if cost == _LIKELIHOOD:
                growth_in_lanes(known, filled, some, rows, rule, terms, factors, sizes, energies, growth)
            else:
                gather_edges(
                    filled, channels, cost, some, rows, rule.compared, steps, deviations, products, sizes, energies, growth
                )
        else:
            gather_edges(filled, channels, cost, some, rows, rule.compared, steps, deviations, products, sizes, energies, growth)
            if cost == _LIKELIHOOD:
                energy_growth(
                    filled, channels, steps, deviations, products, sizes, energies, rule.inverse_floor, scales, factors[0], growth
                )
        if cost == _WARD or cost == _GAUSSIAN:
            squared_distances(filled, channels, steps, growth)
        if cost == _WARD:
            for i in range(filled):
                growth[i] *= products[i] / sizes[i]
        if cost >= _WARD:
            over_lengths(growth, lengths, filled, rule.length_quarters)
        offer_edges(filled, some, growth, names, tied, key)
    for region in range(_u8(count)):
        other = _u8(key[region] & _LOWER)
        pick[region] = _u4(other)
        first, second = known_as(min(region, other), names), known_as(max(region, other), names)
        key[region] = order_key(_i4(key[region] >> _i8(32)), first, second)


@inlined
def over_lengths(growth, lengths, count, quarters):
    """growth /= length^(quarters / 4)."""
    if quarters == 2:  # the default, in a loop of its own so that it vectorises
        for i in range(count):
            growth[i] /= np.sqrt(_f4(_i4(lengths[i])))  # vectors convert int32 faster than uint32
    else:
        for i in range(count):
            growth[i] /= length_power(_f4(lengths[i]), quarters)
