"""Which regions touch, level by level.

Row A of an adjacency is neighbour[row[A]:row[A + 1]], with the pixel edges shared in `length`; each edge is in both rows.
Slot 0 is never used, so that a zero in `slot` means "not seen".
"""

import numpy as np

from pixtree.runtime.jit import kernel

_u1, _u4, _u8 = np.uint8, np.uint32, np.uint64


@kernel
def image_sides(height, width, sides):
    """Mark the pixels at the image's top (1), left (2), right (4) and bottom (8): cheaper to look up than to divide for."""
    sides[: height * width] = _u1(0)
    for x in range(width):
        sides[x] |= _u1(1)
        sides[(height - 1) * width + x] |= _u1(8)
    for y in range(height):
        sides[y * width] |= _u1(2)
        sides[y * width + width - 1] |= _u1(4)


@kernel
def adjacency_of_grid(width, groups, start, members, component, image_side, row, neighbour, length, slot):
    """Adjacency of the first round's regions, from the pixel grid; the sides are written out, since a helper halves the speed."""
    wide, one = _u8(width), _u8(1)
    slot[:groups] = _u4(0)
    row[0] = _u4(1)
    free = _u8(1)
    for region in range(_u8(groups)):
        begin, this = free, _u4(region)
        for q in range(_u8(start[region]), _u8(start[region + one])):
            pixel = _u8(members[q])
            sides = image_side[pixel]
            if not sides & _u1(1):
                other = component[pixel - wide]
                if other != this:
                    k = _u8(slot[other])
                    if k >= begin:
                        length[k] += _u4(1)
                    else:
                        slot[other] = _u4(free)
                        neighbour[free] = other
                        length[free] = _u4(1)
                        free += one
            if not sides & _u1(2):
                other = component[pixel - one]
                if other != this:
                    k = _u8(slot[other])
                    if k >= begin:
                        length[k] += _u4(1)
                    else:
                        slot[other] = _u4(free)
                        neighbour[free] = other
                        length[free] = _u4(1)
                        free += one
            if not sides & _u1(4):
                other = component[pixel + one]
                if other != this:
                    k = _u8(slot[other])
                    if k >= begin:
                        length[k] += _u4(1)
                    else:
                        slot[other] = _u4(free)
                        neighbour[free] = other
                        length[free] = _u4(1)
                        free += one
            if not sides & _u1(8):
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
def adjacency_of_mask(number, zone, row, neighbour, length):
    """Adjacency of single pixels inside a mask; number (H, W) int32 is the pixel's vertex, −1 outside.

    zone: (R,) int32; only vertices of one zone touch. Empty: all do.
    """
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
                if v < 0 or u < 0 or v >= height or u >= width or number[v, u] < 0:
                    continue
                if zone.size == 0 or zone[number[v, u]] == zone[number[y, x]]:
                    neighbour[free] = _u4(number[v, u])
                    length[free] = _u4(1)
                    free += 1
            vertex += 1
            row[vertex] = _u4(free)
