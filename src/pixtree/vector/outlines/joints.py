"""Where lines and circles meet: equal directions made equal, corners and junctions placed, and the outlines that follow."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.outlines.caps import with_caps
from pixtree.vector.outlines.fits import CIRCLE, LINE
from pixtree.vector.outlines.pieces import Outlines
from pixtree.vector.outlines.placement import Samples
from pixtree.vector.outlines.primitives import Pieces, Prices, pieces_of

Array = NDArray[Any]
SNAP = 0.16  # pixels by which the end of a line may move to take a direction that others have
LARGEST_SNAP = np.deg2rad(4.0)
MOST_DIRECTIONS = 48
ROUNDS = 40  # of projections in turn, which lead to where pieces meet
FARTHEST = 2.5  # pixels from the sample between two pieces to where they meet,
FARTHEST_SHARE = 0.4  # and share of the shorter piece
LARGEST_SWEEP = np.deg2rad(110.0)  # of a circle in one arc: beyond it the place of the centre hangs on the last digit
SMALLEST_RISE = 0.05  # pixels of an arc over its chord, below which it is a line


def fit_shapes(samples: Samples, arcs: PlanarMap, *, unit: int, prices: Prices) -> Outlines:
    """Outlines of lines and circular arcs whose corners are sharp."""
    samples, fixed = with_caps(samples, arcs)
    pieces = pieces_of(samples, arcs, prices, fixed)
    snap_directions(pieces.kind, pieces.place, pieces.length, np.argsort(-pieces.length, kind="stable"))
    ends = meeting_points(arcs.offsets, arcs.corners, samples, pieces, *arcs.shape)
    points, offsets, *rest = outlines_of(pieces, ends, unit)
    return Outlines(points, offsets, unit, *rest)


@kernel
def snap_directions(kind: Array, place: Array, length: Array, order: Array) -> None:
    """Lines, longest first, take a direction of the axes or diagonals, or of a longer line or its normal, if near enough."""
    known = np.empty(MOST_DIRECTIONS)
    known[0], known[1], count = 0.0, 0.25 * np.pi, 2
    right = 0.5 * np.pi
    for piece in order:
        if kind[piece] != LINE or length[piece] < 1.5:
            continue
        angle = np.arctan2(place[piece, 3], place[piece, 2])
        allowed = min(np.arctan2(2 * SNAP, length[piece]), LARGEST_SNAP)
        best, found = allowed, -1
        for k in range(count):
            step = angle - known[k]
            step -= right * np.rint(step / right)
            if abs(step) <= best:
                best, found = abs(step), k
        if found >= 0:
            step = angle - known[found]
            angle = known[found] + right * np.rint(step / right)
            place[piece, 2], place[piece, 3] = np.cos(angle), np.sin(angle)
        elif count < MOST_DIRECTIONS:
            known[count] = angle
            count += 1


@inlined
def projected(kind: int, place: Array, x: float, y: float) -> Any:
    """The point of a line or a circle that is nearest to (x, y)."""
    if kind == LINE:
        along = (x - place[0]) * place[2] + (y - place[1]) * place[3]
        return place[0] + along * place[2], place[1] + along * place[3]
    dx, dy = x - place[0], y - place[1]
    size = max(np.sqrt(dx * dx + dy * dy), 1e-9)
    return place[0] + dx / size * place[2], place[1] + dy / size * place[2]


@inlined
def meeting(kind: Array, place: Array, length: Array, a: int, b: int, x: float, y: float) -> Any:
    """Where two pieces meet near (x, y), or come nearest to each other; on the line, if one of them is a line."""
    allowed = min(FARTHEST, 0.7 + FARTHEST_SHARE * min(length[a], length[b]))
    at_x, at_y = x, y
    other_x, other_y = x, y
    for step in range(ROUNDS):
        next_x, next_y = projected(kind[a], place[a], at_x, at_y)
        after_x, after_y = projected(kind[b], place[b], next_x, next_y)
        if step > 0 and (after_x - x) ** 2 + (after_y - y) ** 2 > allowed * allowed:
            break
        other_x, other_y, at_x, at_y = next_x, next_y, after_x, after_y
    if kind[a] == LINE and kind[b] == CIRCLE:
        return projected(LINE, place[a], at_x, at_y)
    if kind[a] == CIRCLE and kind[b] == LINE:
        return at_x, at_y
    return 0.5 * (at_x + other_x), 0.5 * (at_y + other_y)


@kernel
def meeting_points(corner_offsets: Array, corners: Array, placed: Samples, pieces: Pieces, height: int, width: int) -> Array:
    """Both ends (P, 4) of every piece: inside an arc where neighbours meet, at its ends where all arcs of the junction do."""
    samples, starts = placed
    offsets, _, last, kind, place, length = pieces
    arcs = len(offsets) - 1
    ends = np.empty((len(kind), 4))
    number = np.full((height + 1) * (width + 1), -1, np.int32)  # of the junctions
    heads = np.full(2 * arcs, -1, np.int32)
    following = np.full(2 * arcs, -1, np.int32)
    junctions = 0
    for arc in range(arcs):
        count = starts[arc + 1] - starts[arc]
        begin, end = corner_offsets[arc], corner_offsets[arc + 1] - 1
        ring = corners[begin, 0] == corners[end, 0] and corners[begin, 1] == corners[end, 1]
        for piece in range(offsets[arc], offsets[arc + 1]):
            after = piece + 1
            if after == offsets[arc + 1]:
                if not ring:
                    continue
                after = offsets[arc]
            where = last[piece] % (count - 1) if ring else last[piece]
            x, y = samples[starts[arc] + where, 0], samples[starts[arc] + where, 1]
            if after == piece:  # a whole circle
                x, y = projected(kind[piece], place[piece], x, y)
            else:
                x, y = meeting(kind, place, length, piece, after, x, y)
            ends[piece, 2], ends[piece, 3] = x, y
            ends[after, 0], ends[after, 1] = x, y
        if ring:
            continue
        for late in range(2):
            corner = corners[end] if late else corners[begin]
            where = corner[1] * (width + 1) + corner[0]
            if number[where] < 0:
                number[where] = junctions
                junctions += 1
            half = 2 * arc + late
            following[half] = heads[number[where]]
            heads[number[where]] = half
    for junction in range(junctions):
        half = heads[junction]
        arc = half // 2
        corner = corners[corner_offsets[arc + 1] - 1] if half % 2 else corners[corner_offsets[arc]]
        sample = starts[arc + 1] - 1 if half % 2 else starts[arc]
        x0, y0 = samples[sample, 0], samples[sample, 1]
        upright, level = corner[0] == 0 or corner[0] == width, corner[1] == 0 or corner[1] == height
        x, y = x0, y0
        if not (upright and level):
            last_x, last_y, members = 0.0, 0.0, 0
            for step in range(ROUNDS):
                half = heads[junction]
                while half >= 0:
                    piece = offsets[half // 2 + 1] - 1 if half % 2 else offsets[half // 2]
                    x, y = projected(kind[piece], place[piece], x, y)
                    if step == ROUNDS - 1:
                        last_x, last_y, members = last_x + x, last_y + y, members + 1
                    half = following[half]
                if upright:
                    x = float(corner[0])
                if level:
                    y = float(corner[1])
            if not (upright or level):
                x, y = last_x / members, last_y / members
            if (x - x0) ** 2 + (y - y0) ** 2 > FARTHEST * FARTHEST:
                x, y = x0, y0
        half = heads[junction]
        while half >= 0:
            piece = offsets[half // 2 + 1] - 1 if half % 2 else offsets[half // 2]
            ends[piece, 2 * (half % 2)], ends[piece, 2 * (half % 2) + 1] = x, y
            half = following[half]
    return ends


@kernel
def outlines_of(pieces: Pieces, ends: Array, unit: int) -> tuple[Array, Array, Array, Array, Array]:
    """Vertices, offsets, control points, kinds and signed radii of `Outlines`."""
    offsets, _, _, kind, place, length = pieces
    arcs = len(offsets) - 1
    room = 5 * len(kind) + arcs
    points, controls = np.empty((room, 2), np.int32), np.zeros((room, 4), np.int32)
    curved, radii = np.zeros(room, np.bool_), np.zeros(room, np.int32)
    begins = np.empty(arcs + 1, np.int32)
    used = 0
    for arc in range(arcs):
        begins[arc] = used
        head = offsets[arc]
        points[used, 0], points[used, 1] = int(np.rint(ends[head, 0] * unit)), int(np.rint(ends[head, 1] * unit))
        used += 1
        for piece in range(offsets[arc], offsets[arc + 1]):
            if kind[piece] == CIRCLE:
                used = put_arcs(points, controls, curved, radii, used, place[piece], ends[piece], length[piece], unit)
                continue
            points[used, 0], points[used, 1] = int(np.rint(ends[piece, 2] * unit)), int(np.rint(ends[piece, 3] * unit))
            used += 1
    begins[arcs] = used
    return points[:used].copy(), begins, controls[:used].copy(), curved[:used].copy(), radii[:used].copy()


@inlined
def put_arcs(
    points: Array, controls: Array, curved: Array, radii: Array, used: int, place: Array, end: Array, length: float, unit: int
) -> Any:
    """Add a part of a circle in arcs of at most 110°, each with the cubic curve that comes nearest to it; the new count."""
    radius, sense = place[2], place[3]
    start = np.arctan2(end[1] - place[1], end[0] - place[0])
    sweep = sense * (np.arctan2(end[3] - place[1], end[2] - place[0]) - start)
    sweep -= 2 * np.pi * np.floor(sweep / (2 * np.pi))
    if end[0] == end[2] and end[1] == end[3]:
        sweep = 2 * np.pi
    elif abs(sweep - length / radius) > np.pi:  # the ends have passed each other: a tiny piece, not nearly a whole circle
        sense, sweep = -sense, 2 * np.pi - sweep
    count = int(np.ceil(sweep / LARGEST_SWEEP))
    x0, y0 = end[0], end[1]
    for k in range(1, count + 1):
        angle = start + sense * sweep * k / count
        x1, y1 = (end[2], end[3]) if k == count else (place[0] + radius * np.cos(angle), place[1] + radius * np.sin(angle))
        points[used, 0], points[used, 1] = int(np.rint(x1 * unit)), int(np.rint(y1 * unit))
        half = 0.5 * np.sqrt((x1 - x0) ** 2 + (y1 - y0) ** 2)
        own = max(radius, half * 1.001)
        if own - np.sqrt(own * own - half * half) >= SMALLEST_RISE:
            turn = np.arcsin(half / own)  # half of the arc's angle
            reach = 4.0 / 3.0 * np.tan(0.5 * turn) * own
            east, south = (x1 - x0) / (2 * half), (y1 - y0) / (2 * half)
            cos, sin = np.cos(turn), -sense * np.sin(turn)
            controls[used, 0] = int(np.rint((x0 + reach * (east * cos - south * sin)) * unit))
            controls[used, 1] = int(np.rint((y0 + reach * (south * cos + east * sin)) * unit))
            controls[used, 2] = int(np.rint((x1 - reach * (east * cos + south * sin)) * unit))
            controls[used, 3] = int(np.rint((y1 - reach * (south * cos - east * sin)) * unit))
            curved[used] = True
            radii[used] = int(sense * np.rint(own * unit))
        used += 1
        x0, y0 = x1, y1
    return used
