"""Pieces as a person would have drawn them: one line for an edge that only wobbles, and no tiny piece across a sharp corner."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined
from pixtree.vector.outlines.fits import LINE, circle_through, gap_to, inside, line_through

Array = NDArray[Any]
WOBBLE = 0.14  # pixels: half of the steps that a renderer with a grid of a quarter of a pixel gives to slanted edges
BENT = 0.6  # share of a line's squared deviations which a circle leaves if the samples are not bent
LARGEST_GAP = 0.8  # pixels from a piece to the samples at its ends
ROUNDING = 0.4  # pixels by which anti-aliasing may move a sample next to a corner
SHORT = 10  # samples of an arc that may be a wobble of a line
CUT = 4  # samples of a piece that may be a corner cut off by anti-aliasing,
CUT_DEPTH = 0.8  # and pixels from them to the corner
LONG = 4  # samples of the lines on both sides of such a corner


@inlined
def wobbles_only(sums: Array, path: Array, first: int, last: int, place: Array, other: Array) -> Any:
    """Whether one line, left in `place`, passes all samples at that distance without being bent on the whole."""
    low, high = inside(first, last)
    error = line_through(sums, low, high, place)
    if error > WOBBLE * WOBBLE * (high - low + 1) or circle_through(sums, low, high, other) < BENT * error:
        return False
    for k in range(first, last + 1):
        allowed = LARGEST_GAP if k in (first, last) else (WOBBLE if low <= k <= high else ROUNDING)
        if gap_to(LINE, place, path[k, 0] - path[0, 0], path[k, 1] - path[0, 1]) > allowed:
            return False
    return True


@inlined
def join_lines(
    sums: Array,
    path: Array,
    firsts: Array,
    lasts: Array,
    kinds: Array,
    places: Array,
    begin: int,
    end: int,
    place: Array,
    other: Array,
) -> Any:
    """Replace neighbouring lines begin…end − 1 by one wherever their samples only wobble around it; the new end.

    Renderers put edges on a grid of a quarter of a pixel or finer, so that an edge that is nearly upright has steps.
    """
    kept = begin
    piece = begin
    while piece < end:
        after = piece
        if kinds[piece] == LINE or lasts[piece] - firsts[piece] <= SHORT:
            for other_piece in range(piece + 1, end):
                if kinds[other_piece] != LINE and lasts[other_piece] - firsts[other_piece] > SHORT:
                    break
                if wobbles_only(sums, path, firsts[piece], lasts[other_piece], place, other):
                    after = other_piece
        firsts[kept], lasts[kept], kinds[kept] = firsts[piece], lasts[after], kinds[piece]
        if after > piece:
            kinds[kept] = LINE
            wobbles_only(sums, path, firsts[piece], lasts[after], place, other)
            places[kept] = place
        else:
            places[kept] = places[piece]
        kept += 1
        piece = after + 1
    return kept


@inlined
def sharpen_corners(path: Array, firsts: Array, lasts: Array, kinds: Array, places: Array, begin: int, end: int) -> Any:
    """Drop tiny pieces of begin…end − 1 between two longer lines that meet next to them; the new end."""
    kept = begin
    for piece in range(begin, end):
        if begin < piece < end - 1 and lasts[piece] - firsts[piece] <= CUT and kinds[kept - 1] == LINE and kinds[piece + 1] == LINE:
            longer = lasts[kept - 1] - firsts[kept - 1] >= LONG and lasts[piece + 1] - firsts[piece + 1] >= LONG
            if longer and meet_near(path, firsts[piece], lasts[piece], places[kept - 1], places[piece + 1]):
                lasts[kept - 1] = lasts[piece]
                continue
        firsts[kept], lasts[kept], kinds[kept] = firsts[piece], lasts[piece], kinds[piece]
        places[kept] = places[piece]
        kept += 1
    return kept


@inlined
def meet_near(path: Array, first: int, last: int, one: Array, two: Array) -> Any:
    """Whether two lines meet next to one of the samples first…last."""
    across = one[2] * two[3] - one[3] * two[2]
    if abs(across) < 0.2:
        return False
    along = ((two[0] - one[0]) * two[3] - (two[1] - one[1]) * two[2]) / across
    x, y = path[0, 0] + one[0] + along * one[2], path[0, 1] + one[1] + along * one[3]
    nearest = np.inf
    for k in range(first, last + 1):
        nearest = min(nearest, (path[k, 0] - x) ** 2 + (path[k, 1] - y) ** 2)
    return nearest <= CUT_DEPTH * CUT_DEPTH
