"""Joins: the rows of new regions from those of their members, and the nodes and gains of the tree."""

import numpy as np

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.arithmetic.compiled import exponential, from_bits, log_at_least_one
from pixtree.kernels.tree import Cost
from pixtree.kernels.tree.build.compiled.lanes import COLOURS, LARGEST_LOGS, multiply_groups, row_factors
from pixtree.kernels.tree.build.compiled.picking import MAGNITUDE, ZONE_KEY
from pixtree.runtime.jit import inlined, kernel, part

_f4, _i4, _u4, _i8, _u8 = np.float32, np.int32, np.uint32, np.int64, np.uint64
_ONE, _ZERO, _HALF = _f4(1.0), _f4(0.0), _f4(0.5)
_GAUSSIAN, _COSINE = int(Cost.GAUSSIAN), int(Cost.COSINE)
_GROUP = CHANNELS_PER_LOG
_BLOCK = 256  # regions whose energies are computed together


@inlined
def kernel_of_cost(cost, rule):
    """κ in 0..1 of two regions from the cost of merging them."""
    if rule.cost == _GAUSSIAN:
        return exponential(-(rule.precision * cost))
    return _ONE - _HALF * cost if rule.cost == _COSINE else _ONE - cost


@inlined
def amount_of(member, size, key, pick, rule):
    """|v| κ(v, v_max) of a member, the factor of its vector in a weighted rule; κ is 1 where it picks nothing."""
    if _u8(pick[member]) == member:
        return size
    return size * kernel_of_cost(from_bits(_i4(key[member] >> 32 & MAGNITUDE)), rule)


# A region is one row of float32: means (C), size; where variances count, squared deviations (C), energy; and if the rule is
# weighted, f_t of `alg:merge` (C), from column `rule.compared` on.
@part()
def merge(known, single, source, groups, start, ordered, node, key, pick, target, new_node, tree, next_node, leaves, rule, zones):
    """Join the members of every component one after another: rows of the new regions, and a tree node per join.

    source: planes (C, N) of pixels in the first round (`single` is a tuple of length one), else rows of regions. Where the energy
    needs logarithms, the node's factors wait in `factors` and its size in `energy` until `finish_gains`, where the logarithm
    vectorises. The pixels of a zone come first in their component, and are one member, whose node is known.
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
        if zones.top.size > 0 and key[first] == ZONE_KEY:
            size, cluster = _f4(zones.size[first]), zones.top[first]
            begin += _i8(zones.size[first]) - 1
        if rule.compared > 0:
            amount = amount_of(first, size, key, pick, rule)
            for c in range(channels):
                target[group, rule.compared + c] = amount * (source[c, first] if leaf else source[first, rule.compared + c])
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
            if rule.compared > 0:
                amount = amount_of(member, other, key, pick, rule)
                for c in range(channels):
                    seen = source[c, member] if leaf else source[member, rule.compared + c]
                    target[group, rule.compared + c] += amount * seen
            size = both
            absorbed = _i4(member) if leaf else node[member]
            left[k], right[k] = cluster, absorbed
            if picked.size > 0:
                picked[k] = _i4(pick[member]) if leaf else node[pick[member]]
            parent[cluster] = parent[absorbed] = _i4(next_node)
            altitude[next_node] = from_bits(_i4(key[member] >> 32 & MAGNITUDE))
            if rule.logarithmic:
                energy[next_node] = both
            else:
                gain[k] = squares * spread
            cluster = _i4(next_node)
            next_node += 1
        for c in range(channels if rule.compared > 0 else 0):
            target[group, rule.compared + c] /= size
        target[group, channels] = size
        new_node[group] = cluster
    return next_node


@part(allocates=True)
def region_energies(known, groups, rows, rule):
    """Fill the energy of every row, n Σ_c log(1 + deviation_c / (n φ)), in blocks, so that the logarithm vectorises."""
    channels = len(known) if len(known) > 0 else rule.channels
    logs = (rule.channels + _GROUP - 1) // _GROUP
    factors, energy = np.empty((logs, _BLOCK), np.float32), np.empty(_BLOCK, np.float32)
    terms = np.ones((_BLOCK if len(known) > COLOURS else 1, LARGEST_LOGS * _GROUP), np.float32)
    for begin in range(0, groups, _BLOCK):
        count = min(groups - begin, _BLOCK)
        part = rows[begin : begin + count]
        for i in range(_u8(count)):
            scale = rule.inverse_floor / part[i, channels]
            if len(known) > COLOURS:
                row_factors(known, part, i, scale, terms, i)
                continue
            product = _ONE
            for c in range(channels):
                product *= _ONE + part[i, channels + 1 + c] * scale
                if c % _GROUP == _GROUP - 1 or c == channels - 1:
                    factors[c // _GROUP, i] = product
                    product = _ONE
        if len(known) > COLOURS:
            multiply_groups(count, terms, logs, factors)
        energy[:] = _ZERO
        for group in range(logs):
            for i in range(count):
                energy[i] += log_at_least_one(factors[group, i])
        for i in range(count):
            part[i, 2 * channels + 1] = part[i, channels] * energy[i]


@kernel
def fill_energies(known, groups, rows, rule):
    """`region_energies` for Python."""
    region_energies(known, groups, rows, rule)


@kernel
def finish_gains(inner, leaves, left, right, gain, energy, factors):
    """gain = energy of the node minus those of its children, never negative; the energies of leaves are known."""
    for k in range(inner):
        gain[k] = log_at_least_one(factors[0, k])
    for group in range(1, factors.shape[0]):
        for k in range(inner):
            gain[k] += log_at_least_one(factors[group, k])
    for k in range(inner):
        energy[leaves + k] *= gain[k]
    for k in range(_u8(inner)):
        gain[k] = max(energy[_u8(leaves) + k] - (energy[_u4(left[k])] + energy[_u4(right[k])]), _ZERO)


@kernel
def pick_firsts(nodes, left, root, picked):
    """picked = −1 − p at the nodes inside zones, where p is the first pixel of the zone."""
    leaves = root.size
    for k in range(nodes):
        picked[k] = ~root[left[k]] if left[k] < leaves else picked[left[k] - leaves]


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
