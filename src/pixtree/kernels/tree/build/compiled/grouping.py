"""Components of the picks, their members, and the order in which members join."""

import numpy as np

from pixtree.runtime.jit import inlined, kernel

_i8, _u4, _u8 = np.int64, np.uint32, np.uint64
_UNSEEN = _u4(0xFFFFFFFF)


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
