"""Ends of thin shapes: the corners of a stem, a rule or a bar lie between samples, and would be lost without samples of their own.

A rule one pixel wide has one sample at its end. Its two long sides are parallel and never meet, so that without corners nothing of
it would be left. An end is a short straight run of cracks between two longer ones that turn the same way; the steps of a slanted or
round edge turn to and fro.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.placement import Samples

Array = NDArray[Any]
SIDE = 3  # cracks that the sides of an end have at least
NARROW = 2  # cracks of an end whose pixels may be blends; wider ones may be round
EXACT = 0.03  # pixels from a crack to its sample, of wider ends


def with_caps(samples: Samples, arcs: PlanarMap) -> tuple[Samples, NDArray[np.bool_]]:
    """The samples with those at corners of ends among them, and which ones these are (S,) bool: pieces begin and end there."""
    points, offsets, fixed = insert_caps(arcs.offsets, arcs.corners, samples)
    return Samples(points, offsets), fixed


@inlined
def run_end(corners: Array, begin: int, cracks: int, ring: bool, k: int) -> Any:
    """The crack after the last one that goes on straight from crack k; beyond `cracks` in a ring that goes on past its start."""
    at = k + 1
    limit = k + cracks if ring else cracks
    while at < limit:
        a, b = begin + k % cracks, begin + at % cracks
        same = corners[a + 1, 0] - corners[a, 0] == corners[b + 1, 0] - corners[b, 0]
        if not same or corners[a + 1, 1] - corners[a, 1] != corners[b + 1, 1] - corners[b, 1]:
            break
        at += 1
    return at


@inlined
def turn_between(corners: Array, one: int, two: int) -> Any:
    """1 or −1 for the way in which crack `two` turns off crack `one`, 0 for straight on."""
    a_x, a_y = corners[one + 1, 0] - corners[one, 0], corners[one + 1, 1] - corners[one, 1]
    b_x, b_y = corners[two + 1, 0] - corners[two, 0], corners[two + 1, 1] - corners[two, 1]
    return a_x * b_y - a_y * b_x


@inlined
def is_exact(corners: Array, points: Array, begin: int, first: int, low: int, high: int, cracks: int) -> Any:
    """Whether the samples of cracks low…high − 1 lie on their cracks."""
    for k in range(low, high):
        c = begin + k % cracks
        p = first + 1 + k % cracks
        away = abs(points[p, 0] - 0.5 * (corners[c, 0] + corners[c + 1, 0]))
        away += abs(points[p, 1] - 0.5 * (corners[c, 1] + corners[c + 1, 1]))
        if away > EXACT:
            return False
    return True


@inlined
def mark_caps(corners: Array, points: Array, begin: int, first: int, cracks: int, ring: bool, marked: Array) -> Any:
    """Set `marked` for every crack of an arc before which a corner of an end lies; how many."""
    for k in range(cracks + 1):
        marked[k] = False
    start = 0
    if ring:
        while start < cracks and turn_between(corners, begin + (start - 1) % cracks, begin + start % cracks) == 0:
            start += 1
    before, here = 0, start
    after = run_end(corners, begin, cracks, ring, here)
    found = 0
    stop = start + cracks if ring else cracks
    if ring and start < cracks:  # the run before the first one
        back = start - 1
        while back > start - cracks and turn_between(corners, begin + (back - 1) % cracks, begin + back % cracks) == 0:
            back -= 1
        before = start - back
    while here < stop:
        length = after - here
        if not ring and after >= cracks:
            break
        following = run_end(corners, begin, cracks, ring, after % cracks) - after % cracks
        sides = min(before, following)
        if sides >= SIDE and length <= sides:
            one = turn_between(corners, begin + (here - 1) % cracks, begin + here % cracks)
            two = turn_between(corners, begin + (after - 1) % cracks, begin + after % cracks)
            narrow = length <= NARROW or is_exact(corners, points, begin, first, here - 2, after + 2, cracks)
            if one == two and one != 0 and narrow:
                for k in (here % cracks, after % cracks):
                    found += 0 if marked[k] else 1
                    marked[k] = True
        before, here = length, after
        after = here + following
    return found


@kernel
def insert_caps(corner_offsets: Array, corners: Array, placed: Samples) -> tuple[Array, Array, Array]:
    """Points, offsets and marks of `with_caps`; a corner takes each coordinate from the sample of the crack across it."""
    samples, starts = placed
    arcs = len(starts) - 1
    longest = 1
    for arc in range(arcs):
        longest = max(longest, corner_offsets[arc + 1] - corner_offsets[arc])
    marked = np.zeros(longest + 1, np.bool_)
    points = np.empty((2 * len(samples), 2))
    fixed = np.zeros(2 * len(samples), np.bool_)
    offsets = np.zeros(arcs + 1, np.int32)
    used = np.int64(0)
    for arc in range(arcs):
        begin, end = corner_offsets[arc], corner_offsets[arc + 1] - 1
        first, cracks = starts[arc], corner_offsets[arc + 1] - 1 - corner_offsets[arc]
        ring = corners[begin, 0] == corners[end, 0] and corners[begin, 1] == corners[end, 1]
        mark_caps(corners, samples, begin, first, cracks, ring, marked)
        for k in range(cracks + 2):
            if (k == 0 or k == cracks + 1) and not marked[0]:
                points[used, 0], points[used, 1] = samples[first + k, 0], samples[first + k, 1]
                used += 1
                continue
            crack = 0 if k == cracks + 1 else k - 1 if k > 0 else 0
            if k == 0 or k == cracks + 1 or (k > 1 and marked[crack]):
                one, two = first + 1 + (crack - 1) % cracks, first + 1 + crack
                level = corners[begin + crack, 1] == corners[begin + crack + 1, 1]  # the crack after the corner
                points[used, 0] = samples[one, 0] if level else samples[two, 0]
                points[used, 1] = samples[two, 1] if level else samples[one, 1]
                fixed[used] = True
                used += 1
            if 0 < k <= cracks:
                points[used, 0], points[used, 1] = samples[first + k, 0], samples[first + k, 1]
                used += 1
        offsets[arc + 1] = used
    return points[:used].copy(), offsets, fixed[:used].copy()
