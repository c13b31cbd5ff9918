"""Components of the picks, their members, and the order in which members join."""

import numpy as np

from pixtree.kernels.tree.build.compiled.picking import ZONE_KEY
from pixtree.runtime.jit import inlined, part

_i8, _u4, _u8 = np.int64, np.uint32, np.uint64
_UNSEEN = _u4(0xFFFFFFFF)
_FEW, _MANY = 16, 48  # members up to which ranks are counted, and from which on insertion is too slow


@part()
def components_of_picks(count, pick, component, start, top, number):
    """Number the components by first member; start[c + 1] becomes the size of c. A region that picks itself is alone.

    Following picks ends at the mutual pair at the bottom of the component; its smaller member stands for the component. Two rounds
    of pointer jumping, which is free of branches, do most of the walking: chains are short but for flat images. top and number are
    scratch for `count` words each.
    """
    regions = _u8(count)
    for region in range(regions):  # loops of one statement each, which vectorise
        top[region] = pick[pick[region]]
    for region in range(regions):
        mutual = _u4(top[region] == _u4(region))
        top[region] = min(pick[region], _u4(region) | _u4(mutual - _u4(1)))  # the second is the largest word unless mutual
    for region in range(regions):
        number[region] = _UNSEEN
    for region in range(regions):
        component[region] = top[top[region]]
    for region in range(regions):
        top[region] = component[component[region]]
    found = _u4(0)
    start[0] = _u4(0)
    for region in range(regions):
        last = top[region]
        while top[last] != last:
            last = top[last]
        top[region] = last  # later walks that come by end here
        label = min(number[last], found)
        new = _u4(label == found)  # a coin's toss, so arithmetic instead of branches
        number[last] = component[region] = label
        size = _u8(label) + _u8(1)
        start[size] = _u4(start[size] * (_u4(1) - new) + _u4(1))
        found = _u4(found + new)
    return _i8(found)


@part()
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


@part(allocates=True)
def order_members(groups, start, members, key, pick, ordered):
    """ordered = the members of every component in the order in which they join."""
    few, ranks = np.empty(_FEW, np.int64), np.empty(_FEW, np.uint64)
    for group in range(_u8(groups)):
        begin, size = _u8(start[group]), _u8(start[group + _u8(1)] - start[group])
        if size == _u8(2):  # a mutual pair: one edge, the smaller number first
            ordered[begin] = members[begin]
            ordered[begin + _u8(1)] = members[begin + _u8(1)]
        elif size > _u8(_FEW) or not rank_members(begin, size, members, key, few, ranks, ordered):
            if size > _u8(_MANY):
                sort_many(_i8(begin), _i8(size), members, key, pick, ordered)
            else:
                insert_members(_i8(begin), _i8(size), members, key, pick, ordered)


@inlined
def rank_members(begin, size, members, key, few, ranks, ordered):
    """Order a few members by counting how many keys come before each, without branches; returns whether the keys decide alone.

    The mutual pair has picked one edge, so its two keys are equal, and the smaller number comes first. One more pair of equal
    keys, and the keys alone do not decide.
    """
    ties = _u8(0)
    for i in range(size):
        few[i], rank = key[members[begin + i]], _u8(0)
        for j in range(i):
            before = _u8(few[i] < few[j])
            ranks[j] += before
            rank += _u8(1) - before
            ties += _u8(few[i] == few[j])
        ranks[i] = rank
    for i in range(size):
        ordered[begin + ranks[i]] = members[begin + i]
    return ties == _u8(1)


@part()
def insert_members(begin, size, members, key, pick, ordered):
    """The same by insertion."""
    for i in range(begin, begin + size):
        x = members[i]
        x_key = key[x]
        j = i
        while j > begin and joins_before(x, x_key, ordered[j - 1], key[ordered[j - 1]], pick):
            ordered[j] = ordered[j - 1]
            j -= 1
        ordered[j] = x


@part()
def sort_many(begin, size, members, key, pick, ordered):
    """The same for components of any size, with flat zones first."""
    rest = zones_first(begin, size, members, key, ordered)
    heap_sort(rest, begin + size - rest, key, pick, ordered)


@inlined
def zones_first(begin, size, members, key, ordered):
    """ordered = members, those of a flat zone first; returns where the others begin. Zones may be most of an image."""
    into = begin
    for i in range(begin, begin + size):
        if key[members[i]] == ZONE_KEY:
            ordered[into] = members[i]
            into += 1
    rest = into
    for i in range(begin, begin + size):
        if key[members[i]] != ZONE_KEY:
            ordered[into] = members[i]
            into += 1
    return rest


@part()
def heap_sort(begin, size, key, pick, ordered):
    """Order members in O(n log n), in place."""
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
