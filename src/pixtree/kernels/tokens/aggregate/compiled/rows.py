"""Planes as rows, one per pixel."""

from pixtree.runtime.jit import tolerant_inlined

STRIP = 128  # pixels that are turned from planes to rows together


@tolerant_inlined
def to_rows(planes, rows):
    """rows (…, C) from planes (C, P), strip by strip, which stay in the cache."""
    for begin in range(0, planes.shape[1], STRIP):
        for c in range(planes.shape[0]):
            plane = planes[c, begin : begin + STRIP]
            part = rows[begin : begin + STRIP]
            for p in range(plane.size):
                part[p, c] = plane[p]
