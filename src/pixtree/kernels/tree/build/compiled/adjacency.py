"""Which regions touch, level by level.

An edge is one word, `first << 32 | second` with first < second, and has its number of pixel sides in `length`. A level's edges are
sorted by `first`. Passes over edges have no branches that depend on the image, which would be mispredicted every other time:
an entry that does not count is written all the same, and overwritten by the next one.
"""

import numpy as np

from pixtree.runtime.jit import inlined, kernel, part

_u4, _i8, _u8 = np.uint32, np.int64, np.uint64
_NO_EDGE = _u8(2**64 - 1)


@inlined
def edge_between(a, b):
    """The word of the edge between two regions."""
    return _u8(min(a, b)) << _u8(32) | _u8(max(a, b))


@inlined
def ends(edge):
    """The two regions of an edge."""
    return edge >> _u8(32), edge & _u8(0xFFFFFFFF)


@part()
def edges_of_grid(shape, groups, component, place, slot, edges, sorted_edges, length):
    """Edges of the first round's regions, from the pixel grid; returns their number. All arrays from `place` on are overwritten."""
    height, width = shape
    found = _u8(0)
    for y in range(height):
        line = component[y * width : (y + 1) * width]
        found = crossing_sides(line[:-1], line[1:], edges, found)
        if y + 1 < height:
            found = crossing_sides(line, component[(y + 1) * width : (y + 2) * width], edges, found)
    sort_edges((0,), found, groups, place, edges, length, sorted_edges, length)
    return unite_equal((0,), found, groups, slot, sorted_edges, length, edges, length)


@inlined
def crossing_sides(pixels, others, edges, found):
    """Append the sides between pixels[i] and others[i], given by their regions, that are not inside a region."""
    for i in range(pixels.size):
        edges[found] = edge_between(pixels[i], others[i])
        found += _u8(pixels[i] != others[i])
    return found


@part()
def edges_of_regions(count, groups, component, place, slot, edges, length, sorted_edges, sorted_length):
    """Edges of the next level from the `count` edges of this one, in place; returns their number."""
    kept = _u8(0)
    for i in range(_u8(count)):
        first, second = ends(edges[i])
        a, b = component[first], component[second]
        edges[kept], length[kept] = edge_between(a, b), length[i]
        kept += _u8(a != b)
    sort_edges((), kept, groups, place, edges, length, sorted_edges, sorted_length)
    return unite_equal((), kept, groups, slot, sorted_edges, sorted_length, edges, length)


@inlined
def sort_edges(single, count, groups, place, edges, length, sorted_edges, sorted_length):
    """Counting sort by first region. single: a tuple of length one where every length is 1; lengths are not read then."""
    one = _u8(1)
    for group in range(_u8(groups) + one):
        place[group] = _u4(0)
    for i in range(_u8(count)):
        place[(edges[i] >> _u8(32)) + one] += _u4(1)
    total = _u4(0)
    for group in range(_u8(groups)):
        size = place[group + one]
        place[group] = total
        total = _u4(total + size)
    for i in range(_u8(count)):
        first = edges[i] >> _u8(32)
        to = place[first]
        place[first] = _u4(to + _u4(1))
        sorted_edges[to] = edges[i]
        if len(single) == 0:
            sorted_length[to] = length[i]


@inlined
def unite_equal(single, count, groups, slot, sorted_edges, sorted_length, edges, length):
    """Add up the lengths of equal edges; returns the number of those that differ.

    slot: the last edge to each region. Edges are sorted by their first region, so an equal one before would be that.
    """
    for group in range(_u8(groups)):
        slot[group] = _u4(0)
    edges[0] = _NO_EDGE
    free = _u8(0)
    for i in range(_u8(count)):
        edge = sorted_edges[i]
        second = edge & _u8(0xFFFFFFFF)
        last = _u8(slot[second])
        seen = edges[last] == edge
        to, had = last if seen else free, length[last]
        edges[to], slot[second] = edge, _u4(to)
        length[to] = _u4((had if seen else _u4(0)) + (_u4(1) if len(single) > 0 else sorted_length[i]))
        free += _u8(not seen)
    return _i8(free)


@kernel
def edges_of_mask(number, zone, edges, length):
    """Edges of single pixels inside a mask; number (H, W) int32 is the pixel's vertex, −1 outside. Returns their number.

    zone: (R,) int32; only vertices of one zone touch. Empty: all do.
    """
    height, width = number.shape
    found = 0
    for y in range(height):
        for x in range(width):
            for v, u in ((y, x + 1), (y + 1, x)):
                if number[y, x] < 0 or v == height or u == width or number[v, u] < 0:
                    continue
                if zone.size == 0 or zone[number[v, u]] == zone[number[y, x]]:
                    edges[found], length[found] = edge_between(number[y, x], number[v, u]), _u4(1)
                    found += 1
    return found
