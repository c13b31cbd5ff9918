"""Path data of SVG in few characters: relative commands, integers, no separator that is not needed, closing lines implied."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image.cracks import PlanarMap
from pixtree.runtime.jit import kernel, part
from pixtree.vector.outlines.pieces import Outlines

Array = NDArray[Any]
_MINUS, _SPACE, _ZERO = ord("-"), ord(" "), ord("0")
_MOVE, _LINE, _LEVEL, _UPRIGHT, _CURVE, _SMOOTH, _ARC, _CLOSE = (ord(letter) for letter in "mlhvcsaz")
_LONGEST_NUMBER = 12


def path_data(arcs: PlanarMap, outlines: Outlines) -> list[str]:
    """The `d` attribute of every shape, in units of 1/outlines.unit pixel."""
    pieces = int(np.diff(outlines.offsets)[np.where(arcs.loops >= 0, arcs.loops, ~arcs.loops)].sum())
    numbers = pieces * (7 if outlines.is_curved else 2) + 4 * len(arcs.loops)
    buffer = np.empty(numbers * _LONGEST_NUMBER + 4 * len(arcs.loops) + 64, np.uint8)
    ends = write_shapes(arcs.loops, arcs.loop_offsets, arcs.shape_offsets, outlines, buffer)
    text = buffer[: ends[-1]].tobytes().decode("ascii")
    return [text[a:b] for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


@part()
def put_integer(buffer: Array, at: int, value: int) -> Any:
    """Write an integer in decimals; the position after it."""
    if value < 0:
        buffer[at] = _MINUS
        at += 1
        value = -value
    length, rest = 1, value
    while rest >= 10:
        rest //= 10
        length += 1
    for k in range(length - 1, -1, -1):
        buffer[at + k] = _ZERO + value % 10
        value //= 10
    return at + length


@part()
def put_next(buffer: Array, at: int, value: int, fresh: bool) -> Any:
    """Write an integer, after a space unless it follows a letter (`fresh`) or brings its own minus."""
    if not fresh and value >= 0:
        buffer[at] = _SPACE
        at += 1
    return put_integer(buffer, at, value)


@part()
def put_line(buffer: Array, at: int, east: int, south: int, command: int) -> Any:
    """Write a relative line; the position after it and the command in force."""
    wanted = _LEVEL if south == 0 else (_UPRIGHT if east == 0 else _LINE)
    fresh = command != wanted
    if fresh:
        buffer[at] = wanted
        at += 1
    if south == 0:
        return put_next(buffer, at, east, fresh), wanted
    if east == 0:
        return put_next(buffer, at, south, fresh), wanted
    at = put_next(buffer, at, east, fresh)
    return put_next(buffer, at, south, False), wanted


@part()
def put_arc(buffer: Array, at: int, radius: int, east: int, south: int, command: int) -> Any:
    """Write a relative arc of less than half a circle, clockwise for a positive radius; the position after it."""
    if command != _ARC:
        buffer[at] = _ARC
        at += 1
    at = put_next(buffer, at, abs(radius), command != _ARC)
    for value in (abs(radius), 0, 0, 1 if radius > 0 else 0, east, south):
        at = put_next(buffer, at, value, False)
    return at


@kernel
def write_shapes(loops: Array, loop_offsets: Array, shape_offsets: Array, outlines: Outlines, buffer: Array) -> Array:
    """Write all shapes one after another; returns where each ends, with a leading 0.

    One function, because the current point, the last control point and the command in force belong to every part of it.
    """
    points, offsets, _, controls, curved, radii = outlines
    count = len(shape_offsets) - 1
    ends = np.zeros(count + 1, np.int64)
    at = 0
    for region in range(count):
        x, y = 0, 0  # the current point
        for loop in range(shape_offsets[region], shape_offsets[region + 1]):
            first_half = loops[loop_offsets[loop]]
            start = offsets[first_half] if first_half >= 0 else offsets[~first_half + 1] - 1
            start_x, start_y = points[start, 0], points[start, 1]
            buffer[at] = _MOVE
            at = put_integer(buffer, at + 1, start_x - x)
            at = put_next(buffer, at, start_y - y, False)
            x, y, command = start_x, start_y, _LINE  # pairs after a move are lines
            control_x, control_y, after_curve = 0, 0, False
            for k in range(loop_offsets[loop], loop_offsets[loop + 1]):
                forward = loops[k] >= 0
                arc = loops[k] if forward else ~loops[k]
                pieces = offsets[arc + 1] - offsets[arc] - 1
                first = offsets[arc] if forward else offsets[arc + 1] - 1
                if points[first, 0] != x or points[first, 1] != y:  # an arc that was moved: a line leads to it
                    at, command = put_line(buffer, at, points[first, 0] - x, points[first, 1] - y, command)
                    x, y, after_curve = points[first, 0], points[first, 1], False
                for j in range(pieces):
                    piece = offsets[arc] + 1 + j if forward else offsets[arc + 1] - 1 - j  # its later vertex
                    target = piece if forward else piece - 1
                    to_x, to_y = points[target, 0], points[target, 1]
                    if len(radii) > 0 and radii[piece] != 0:
                        at = put_arc(buffer, at, radii[piece] if forward else -radii[piece], to_x - x, to_y - y, command)
                        x, y, after_curve, command = to_x, to_y, False, _ARC
                        continue
                    if len(curved) > 0 and curved[piece]:
                        a, b = (0, 2) if forward else (2, 0)
                        a_x, a_y = controls[piece, a], controls[piece, a + 1]
                        b_x, b_y = controls[piece, b], controls[piece, b + 1]
                        smooth = after_curve and a_x == 2 * x - control_x and a_y == 2 * y - control_y
                        wanted = _SMOOTH if smooth else _CURVE
                        fresh = command != wanted
                        if fresh:
                            buffer[at] = wanted
                            at += 1
                            command = wanted
                        if not smooth:
                            at = put_next(buffer, at, a_x - x, fresh)
                            at = put_next(buffer, at, a_y - y, False)
                            fresh = False
                        at = put_next(buffer, at, b_x - x, fresh)
                        at = put_next(buffer, at, b_y - y, False)
                        at = put_next(buffer, at, to_x - x, False)
                        at = put_next(buffer, at, to_y - y, False)
                        x, y, control_x, control_y, after_curve = to_x, to_y, b_x, b_y, True
                        continue
                    closing = k == loop_offsets[loop + 1] - 1 and j == pieces - 1
                    if (closing and to_x == start_x and to_y == start_y) or (to_x == x and to_y == y):
                        continue
                    at, command = put_line(buffer, at, to_x - x, to_y - y, command)
                    x, y, after_curve = to_x, to_y, False
            buffer[at] = _CLOSE
            at += 1
            x, y = start_x, start_y
        ends[region + 1] = at
    return ends
