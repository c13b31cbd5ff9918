"""Lines and circles through the samples of an arc: where one ends and the next begins, and where each of them lies.

Dynamic programming over all pairs of samples weighs the squared deviations against a price per piece. A piece is fitted to the
samples inside it, not to its ends: anti-aliasing rounds the samples next to a corner, and the corner is where the fitted pieces
meet. Fits take O(1) by prefix sums. At the end the pieces are tidied as a person would draw them: one line for an edge that only
wobbles, and no tiny piece across a sharp corner.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel, part
from pixtree.vector.outlines.fits import CIRCLE, LINE, add_sums, circle_through, gap_to, inside, line_through
from pixtree.vector.outlines.placement import Samples, along_border, turn_cosine

Array = NDArray[Any]
WHOLE = 1.5  # units of the noise squared per sample, up to which a ring is one circle
FEWEST_ON_CIRCLE = 5  # samples
LARGEST_DEVIATION = 0.6  # root mean square, pixels: beyond it longer pieces are not tried
BULGE = 0.08  # pixels²: samples of a circle of radius r lie this over r inside it, since pixels average over its curve
PATIENCE = 8  # failures in a row after which no longer piece is tried
LARGEST_TURN = 6.0  # radians that one piece of a circle may turn
REACH = 4  # samples on either side by which the sharpest turn of a ring is found
WOBBLE = 0.14  # pixels: half of the steps that a renderer with a grid of a quarter of a pixel gives to slanted edges
BENT = 0.6  # share of a line's squared deviations which a circle leaves if the samples are not bent
LARGEST_GAP = 0.8  # pixels from a piece to the samples at its ends
ROUNDING = 0.4  # pixels by which anti-aliasing may move a sample next to a corner
SHORT = 10  # samples of an arc that may be a wobble of a line
AROUND = 3  # samples before and after a bend at which pieces may end
CUT = 4  # samples of a piece that may be a corner cut off by anti-aliasing,
CUT_DEPTH = 0.8  # and pixels from them to the corner
LONG = 4  # samples of the lines on both sides of such a corner


class Prices(NamedTuple):
    """What a piece costs: a price, and the squared deviations of its samples in units of `noise` (pixels)."""

    noise: float
    line: float
    circle: float


class Pieces(NamedTuple):
    """Pieces of all arcs: arc i has pieces offsets[i]:offsets[i + 1].

    first, last: samples (P,) where a piece begins and ends, counted from the start of its arc; in a ring they go around its end.
    kind: LINE or CIRCLE. place: (P, 4) a point and unit direction of a line; the centre, radius and sense (1 clockwise on the
    screen, −1) of a circle. Border pieces run along the border of the image.
    """

    offsets: NDArray[np.int32]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    kind: NDArray[np.int8]
    place: NDArray[np.float64]
    length: NDArray[np.float64]  # pixels along the samples


def pieces_of(samples: Samples, arcs: PlanarMap, prices: Prices, fixed: NDArray[np.bool_]) -> Pieces:
    """The cheapest lines and circles through the samples of every arc; fixed: (S,) the samples across which no piece runs."""
    return Pieces(*cheapest_pieces(arcs.offsets, arcs.corners, samples, along_border(arcs), prices, fixed))


@inlined
def strays(path: Array, first: int, low: int, high: int, last: int, kind: int, place: Array) -> Any:
    """Squared deviations, beyond what rounding explains, of the samples near the ends of a piece, to which it is not fitted."""
    total = 0.0
    for k in range(first + 1, low):
        total += max(gap_to(kind, place, path[k, 0] - path[0, 0], path[k, 1] - path[0, 1]) - ROUNDING, 0.0) ** 2
    for k in range(high + 1, last):
        total += max(gap_to(kind, place, path[k, 0] - path[0, 0], path[k, 1] - path[0, 1]) - ROUNDING, 0.0) ** 2
    return total


@inlined
def cosine_at(path: Array, count: int, k: int) -> Any:
    """Cosine of the change of direction at sample k of a ring, whose last sample repeats its first."""
    around = count - 1
    reach = min(REACH, around // 3)
    return turn_cosine(path, (k - reach) % around, k, (k + reach) % around)


@inlined
def sharpest_turn(path: Array, count: int, fixed: Array) -> Any:
    """The sample of a ring where its direction changes most, or the first fixed one."""
    best, found = 2.0, 0
    for k in range(count - 1):
        if fixed[k]:
            return k
        cosine = cosine_at(path, count, k)
        if cosine < best:
            best, found = cosine, k
    return found


@inlined
def turned(path: Array, fixed: Array, count: int, start: int, scratch: Array) -> None:
    """Rotate a ring, and which of its samples are fixed, so that it begins and ends at sample `start`."""
    for k in range(count):
        source = (start + k) % (count - 1)
        scratch[k, 0], scratch[k, 1], scratch[k, 2] = path[source, 0], path[source, 1], fixed[source]
    for k in range(count):
        path[k, 0], path[k, 1], fixed[k] = scratch[k, 0], scratch[k, 1], scratch[k, 2] > 0


@inlined
def copy_rows(source: Array, first: int, count: int, target: Array) -> None:
    """Copy rows to the start of `target`; assigning slices compiles numba's message on shapes that do not match, for seconds."""
    for k in range(count):
        for c in range(source.shape[1]):
            target[k, c] = source[first + k, c]


@inlined
def put(places: Array, row: int, place: Array) -> None:
    """Set one row of `places`."""
    for c in range(4):
        places[row, c] = place[c]


@inlined
def fit_piece(sums: Array, path: Array, first: int, last: int, prices: Prices, place: Array, other: Array) -> Any:
    """Cost and kind of the better of line and circle, its place in `place`, and whether longer pieces may still fit."""
    low, high = inside(first, last)
    count = high - low + 1
    x0, y0 = path[first, 0] - path[0, 0], path[first, 1] - path[0, 1]
    x1, y1 = path[last, 0] - path[0, 0], path[last, 1] - path[0, 1]
    bound = LARGEST_DEVIATION * LARGEST_DEVIATION * count
    error = line_through(sums, low, high, place)
    round_error = circle_through(sums, low, high, other) if count >= FEWEST_ON_CIRCLE else np.inf
    cost, kind, going_on = np.inf, LINE, error <= bound or round_error <= bound
    near = gap_to(LINE, place, x0, y0) <= LARGEST_GAP and gap_to(LINE, place, x1, y1) <= LARGEST_GAP
    if (error <= bound and near) or last - first <= 2:
        error += strays(path, first, low, high, last, LINE, place)
        cost = error / (prices.noise * prices.noise) + prices.line
    if round_error <= bound:
        length = sums[last + 1, 9] - sums[first + 1, 9]
        near = gap_to(CIRCLE, other, x0, y0) <= LARGEST_GAP and gap_to(CIRCLE, other, x1, y1) <= LARGEST_GAP
        round_error += strays(path, first, low, high, last, CIRCLE, other)
        price = round_error / (prices.noise * prices.noise) + prices.circle
        if near and length <= LARGEST_TURN * other[2] and price < cost:
            cost, kind = price, CIRCLE
            place[0], place[1], place[2] = other[0], other[1], other[2]
    return cost, kind, going_on


@inlined
def sense_of(path: Array, first: int, last: int, place: Array) -> Any:
    """1 for samples that go clockwise around a circle on the screen, else −1."""
    total = 0.0
    for k in range(first, last):
        a_x, a_y = path[k, 0] - place[0], path[k, 1] - place[1]
        b_x, b_y = path[k + 1, 0] - place[0], path[k + 1, 1] - place[1]
        total += a_x * b_y - a_y * b_x
    return 1.0 if total > 0 else -1.0


@kernel
def cheapest_pieces(
    corner_offsets: Array, corners: Array, placed: Samples, border: Array, prices: Prices, all_fixed: Array
) -> tuple[Array, ...]:
    """The fields of `Pieces`; arcs along the `border` (A,) of the image are one line, and no piece runs across a fixed sample."""
    samples, starts = placed
    arcs = len(starts) - 1
    longest = 2
    for arc in range(arcs):
        longest = max(longest, starts[arc + 1] - starts[arc])
    path, scratch, sums = np.empty((longest, 2)), np.empty((longest, 3)), np.zeros((longest + 1, 10))
    fixed, after = np.zeros(longest, np.bool_), np.empty(longest, np.int32)
    cost, previous = np.empty(longest), np.empty(longest, np.int32)
    place, other = np.empty(4), np.empty(4)
    total = starts[arcs]
    firsts, lasts = np.empty(total, np.int32), np.empty(total, np.int32)
    kinds, places, lengths = np.empty(total, np.int8), np.empty((total, 4)), np.empty(total)
    offsets = np.zeros(arcs + 1, np.int32)
    # Not plain zeros, for which numba would compile versions of their own of every function that gets them.
    zero = np.int64(0)
    used = np.int64(0)
    for arc in range(arcs):
        count = starts[arc + 1] - starts[arc]
        copy_rows(samples, starts[arc], count, path)
        capped = False
        for k in range(count):
            fixed[k] = all_fixed[starts[arc] + k]
            capped = capped or fixed[k]
        begin, end = corner_offsets[arc], corner_offsets[arc + 1] - 1
        ring = corners[begin, 0] == corners[end, 0] and corners[begin, 1] == corners[end, 1]
        turn = zero
        if ring:
            turn = sharpest_turn(path, count, fixed)
            turned(path, fixed, count, turn, scratch)
        add_sums(sums, path, count)
        before = used
        whole = np.inf
        if ring and count > FEWEST_ON_CIRCLE and not capped:
            whole = circle_through(sums, zero, count - 2, place) / (prices.noise * prices.noise)
        if border[arc] or count <= 2:
            line_through(sums, zero, count - 1, place)
            firsts[used], lasts[used], kinds[used] = 0, count - 1, LINE
            put(places, used, place)
            used += 1
        elif whole <= WHOLE * count + prices.circle:
            firsts[used], lasts[used], kinds[used] = 0, count - 1, CIRCLE
            put(places, used, place)
            used += 1
        else:
            list_places(path, fixed, count, after)
            divide(sums, path, fixed, after, count, prices, cost, previous, place, other)
            if ring and not capped:  # again from the sharpest corner found: the first guess may lie inside a short piece
                again: Any = zero
                sharpest = 2.0
                corner: Any = np.int64(previous[count - 1])
                while corner > 0:
                    cosine = cosine_at(path, count, corner)
                    if cosine < sharpest:
                        again, sharpest = corner, cosine
                    corner = previous[corner]
                if again > 0:
                    turn += again
                    turned(path, fixed, count, again, scratch)
                    add_sums(sums, path, count)
                    list_places(path, fixed, count, after)
                    divide(sums, path, fixed, after, count, prices, cost, previous, place, other)
            last: Any = count - 1
            while last > 0:  # backwards, then turned around
                first = np.int64(previous[last])
                firsts[used], lasts[used] = first, last
                _, kinds[used], _ = fit_piece(sums, path, first, last, prices, place, other)
                put(places, used, place)
                used += 1
                last = first
            for j in range((used - before) // 2):
                a, b = before + j, used - 1 - j
                firsts[a], firsts[b] = firsts[b], firsts[a]
                lasts[a], lasts[b] = lasts[b], lasts[a]
                kinds[a], kinds[b] = kinds[b], kinds[a]
                for c in range(4):
                    places[a, c], places[b, c] = places[b, c], places[a, c]
            used = join_lines(sums, path, fixed, (firsts, lasts, kinds, places), before, used, place, other)
            used = sharpen_corners(path, fixed, (firsts, lasts, kinds, places), before, used)
        for j in range(before, used):
            places[j, 0] += path[0, 0]
            places[j, 1] += path[0, 1]
            if kinds[j] == CIRCLE:
                places[j, 2] += BULGE / places[j, 2]
                places[j, 3] = sense_of(path, firsts[j], lasts[j], places[j])
            lengths[j] = sums[lasts[j] + 1, 9] - sums[firsts[j] + 1, 9]
            firsts[j] += turn
            lasts[j] += turn
        offsets[arc + 1] = used
    return offsets, firsts[:used].copy(), lasts[:used].copy(), kinds[:used].copy(), places[:used].copy(), lengths[:used].copy()


@part()
def list_places(path: Array, fixed: Array, count: int, after: Array) -> None:
    """Fill `after` with the next place, after each sample, where a piece may end: near bends, not inside exactly straight runs."""
    last = 0
    for k in range(count):
        bent = k == 0 or k == count - 1 or fixed[k]
        if not bent:
            in_x, in_y = path[k, 0] - path[k - 1, 0], path[k, 1] - path[k - 1, 1]
            out_x, out_y = path[k + 1, 0] - path[k, 0], path[k + 1, 1] - path[k, 1]
            bent = abs(in_x * out_y - in_y * out_x) > 1e-12 or in_x * out_x + in_y * out_y <= 0.0
        if bent:
            last = k
        after[k] = 2 if bent else (1 if k - last <= AROUND else 0)
    bend, following = count, count
    for k in range(count - 1, -1, -1):
        kind = after[k]
        if kind == 2:
            bend = k
        after[k] = following
        if kind > 0 or bend - k <= AROUND:
            following = k


@part()
def divide(
    sums: Array,
    path: Array,
    fixed: Array,
    after: Array,
    count: int,
    prices: Prices,
    cost: Array,
    previous: Array,
    place: Array,
    other: Array,
) -> None:
    """Fill `previous` with the best place before each sample where a piece that ends there begins."""
    for k in range(count):
        cost[k] = np.inf
    cost[0] = 0.0
    for first in range(count - 1):
        if cost[first] == np.inf:
            continue
        failures = 0
        last = np.int64(after[first])
        while last < count:
            price, _, going_on = fit_piece(sums, path, first, last, prices, place, other)
            if cost[first] + price < cost[last]:
                cost[last], previous[last] = cost[first] + price, first
            failures = 0 if going_on or last - first < 6 else failures + 1
            if failures > PATIENCE or fixed[last]:
                break
            last = np.int64(after[last])


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


@part()
def join_lines(sums: Array, path: Array, fixed: Array, pieces: Any, begin: int, end: int, place: Array, other: Array) -> Any:
    """Replace neighbouring lines begin…end − 1 by one wherever their samples only wobble around it; returns the new end.

    Renderers put edges on a grid of a quarter of a pixel or finer, so an edge that is nearly upright has steps.
    """
    firsts, lasts, kinds, places = pieces
    kept = begin
    piece = begin
    while piece < end:
        after = piece
        if kinds[piece] == LINE or lasts[piece] - firsts[piece] <= SHORT:
            for other_piece in range(piece + 1, end):
                if fixed[firsts[other_piece]]:
                    break
                if kinds[other_piece] != LINE and lasts[other_piece] - firsts[other_piece] > SHORT:
                    break
                if wobbles_only(sums, path, firsts[piece], lasts[other_piece], place, other):
                    after = other_piece
        firsts[kept], lasts[kept], kinds[kept] = firsts[piece], lasts[after], kinds[piece]
        if after > piece:
            kinds[kept] = LINE
            wobbles_only(sums, path, firsts[piece], lasts[after], place, other)
            put(places, kept, place)
        else:
            put(places, kept, places[piece])
        kept += 1
        piece = after + 1
    return kept


@part()
def sharpen_corners(path: Array, fixed: Array, pieces: Any, begin: int, end: int) -> Any:
    """Drop tiny pieces of begin…end − 1 between two longer lines that meet next to them; returns the new end."""
    firsts, lasts, kinds, places = pieces
    kept = begin
    for piece in range(begin, end):
        if begin < piece < end - 1 and lasts[piece] - firsts[piece] <= CUT and kinds[kept - 1] == LINE and kinds[piece + 1] == LINE:
            free = not (fixed[firsts[piece]] or fixed[lasts[piece]])
            longer = free and lasts[kept - 1] - firsts[kept - 1] >= LONG and lasts[piece + 1] - firsts[piece + 1] >= LONG
            if longer and meet_near(path, firsts[piece], lasts[piece], places[kept - 1], places[piece + 1]):
                lasts[kept - 1] = lasts[piece]
                continue
        firsts[kept], lasts[kept], kinds[kept] = firsts[piece], lasts[piece], kinds[piece]
        put(places, kept, places[piece])
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
