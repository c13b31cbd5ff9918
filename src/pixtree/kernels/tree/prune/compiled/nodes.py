"""Rows of the regions of a level, and the nodes of those that are not flat."""

import numpy as np

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.arithmetic.compiled import log_at_least_one
from pixtree.kernels.tree.build.compiled.lanes import COLOURS, absorb_pixel, absorb_region, take_pixel
from pixtree.runtime.jit import inlined, part

_f4, _i4, _u8 = np.float32, np.int32, np.uint64
_ONE, _ZERO = _f4(1.0), _f4(0.0)
_GROUP = CHANNELS_PER_LOG


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


@part()
def sum_up(known, single, source, groups, start, ordered, target, rule, zone_size):
    """Rows of the components of one level, members taken up in the order in which they join, as in `merge` of `tree.build`.

    source: pixels in the first round (`single` is a tuple of length one), as planes (C, N), else rows of regions.
    zone_size: the pixels of the flat zone that begins at a pixel, 0 where none does; they come first in their component.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    leaf = len(single) > 0
    for group in range(_u8(groups)):
        begin, end = _u8(start[group]), _u8(start[group + _u8(1)])
        first = _u8(ordered[begin])
        begin_row(known, single, source, first, target, group, channels, rule)
        size = _ONE if leaf else source[first, channels]
        zone = pixels_of_zone(first, zone_size) if leaf else _u8(1)
        if zone > _u8(1):
            size = _f4(zone)
        for i in range(begin + zone, end):
            member = _u8(ordered[i])
            other = _ONE if leaf else source[member, channels]
            both = size + other
            take_up(known, single, source, member, other / both, size * other / both, target, group, channels, rule)
            size = both
        target[group, channels] = size


@inlined
def pixels_of_zone(first, zone_size):
    """The pixels of the zone that begins at the first pixel of a component, else 1."""
    return _u8(max(zone_size[first], 1)) if zone_size.size > 0 else _u8(1)


@inlined
def begin_row(known, single, source, member, target, group, channels, rule):
    """Start a row with the means and deviations of its first member."""
    leaf = len(single) > 0
    if len(known) > COLOURS and len(single) > 0:
        take_pixel(known, target, group, source, member, rule.channels)
    else:
        for c in range(channels):
            target[group, c] = source[c, member] if leaf else source[member, c]
            target[group, channels + 1 + c] = _ZERO if leaf else source[member, channels + 1 + c]


@inlined
def take_up(known, single, source, member, share, spread, target, group, channels, rule):
    """Move the means and deviations of a row by those of a member."""
    if len(known) > COLOURS:
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


@part()
def name_nodes(known, single, tau, source, groups, start, ordered, node, above, target, new_node, tree, made, rule, zone_size):
    """Nodes for the components that need them: a component of flat members (node −1) with energy below τ is flat itself.

    So is a bare zone: its subtree has no gain.

    above[member]: the node that absorbed a flat member, written where its component is not flat. Returns the number of nodes.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    for group in range(_u8(groups)):
        begin, end = _u8(start[group]), _u8(start[group + _u8(1)])
        flat = target[group, 2 * channels + 1] < tau
        zone = _u8(1)
        if len(single) == 0:
            for i in range(begin, end):
                flat = flat and node[ordered[i]] < 0
        else:
            zone = pixels_of_zone(_u8(ordered[begin]), zone_size)
            flat = flat or zone == end - begin
        if not flat:
            made = join_members(known, single, source, begin, end, ordered, node, above, target, group, tree, made, rule, zone)
        new_node[group] = _i4(-1) if flat else _i4(made - 1)
    return made


@part()
def join_members(known, single, source, begin, end, ordered, node, above, target, group, tree, made, rule, zone):
    """A node per join of one component's members; its row of target holds the same before and after.

    The first `zone` members are one: a pixel, a region or all pixels of a flat zone.
    """
    channels = len(known) if len(known) > 0 else rule.channels
    leaf = len(single) > 0
    left, right, gain = tree
    first = _u8(ordered[begin])
    begin_row(known, single, source, first, target, group, channels, rule)
    size = _ONE if leaf else source[first, channels]
    energy = _ZERO if leaf else source[first, 2 * channels + 1]
    cluster = _i4(-1) if leaf else node[first]
    if zone > _u8(1):
        size = _f4(zone)
    if cluster < 0:
        for i in range(begin, begin + zone):
            above[ordered[i]] = _i4(made)
    for i in range(begin + zone, end):
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
