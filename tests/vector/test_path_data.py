"""Path data: a small parser of its own reads back every vertex, curve and arc that was written."""

import re
from itertools import pairwise

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.trees.partition import Partition
from pixtree.vector.outlines.pieces import Outlines, exact_outlines
from pixtree.vector.path_data import path_data, put_integer

LENGTHS = {"m": 2, "l": 2, "h": 1, "v": 1, "c": 6, "s": 4, "a": 7, "z": 0}
WORDS = re.compile(r"[a-z]|-?\d+")


def pieces_in(text):
    """Loops of path data in absolute terms: m and l to a point, c by three points, a by radius, sweep and the point."""
    loops, words, at, command = [], WORDS.findall(text), np.zeros(2, int), ""
    assert "".join(words) == text.replace(" ", "")
    start, last_control = at, at
    while words:
        if words[0].isalpha():
            command = words.pop(0)
        numbers = [int(words.pop(0)) for _ in range(LENGTHS[command])]
        point = None
        if command == "z":
            at = last_control = start
            continue
        if command == "m":
            at = last_control = start = at + numbers
            loops.append([("m", tuple(at.tolist()))])
            command = "l"  # pairs after a move are lines
            continue
        if command in "cs":
            controls = np.reshape(numbers, (-1, 2)) + at
            if command == "s":
                controls = np.concatenate(([2 * at - last_control], controls))
            last_control, point = controls[1], controls[2]
            loops[-1].append(("c", tuple(controls.ravel().tolist())))
        elif command == "a":
            assert numbers[0] == numbers[1] > 0
            assert numbers[2:4] == [0, 0]
            point = at + numbers[5:]
            loops[-1].append(("a", (numbers[0], numbers[4], *point.tolist())))
        else:
            step = {"l": numbers, "h": [*numbers, 0], "v": [0, *numbers]}[command]
            point = at + step
            assert any(step)  # no line without length
            loops[-1].append(("l", tuple(point.tolist())))
        if command not in "cs":
            last_control = point
        at = point
    return loops


def expected(arcs, outlines):
    """The same loops from the map itself."""
    shapes = []
    for shape in range(arcs.count):
        loops = []
        for loop in range(arcs.shape_offsets[shape], arcs.shape_offsets[shape + 1]):
            pieces = []
            for half in arcs.loops[arcs.loop_offsets[loop] : arcs.loop_offsets[loop + 1]].tolist():
                arc = half if half >= 0 else ~half
                vertices = list(range(outlines.offsets[arc], outlines.offsets[arc + 1]))
                vertices = vertices if half >= 0 else vertices[::-1]
                if not pieces:
                    pieces.append(("m", tuple(outlines.points[vertices[0]].tolist())))
                for a, b in pairwise(vertices):
                    to, later = tuple(outlines.points[b].tolist()), max(a, b)
                    if len(outlines.radii) and outlines.radii[later]:
                        radius = outlines.radii[later] * (1 if half >= 0 else -1)
                        pieces.append(("a", (abs(int(radius)), int(radius > 0), *to)))
                    elif len(outlines.curved) and outlines.curved[later]:
                        controls = outlines.controls[later].reshape(2, 2)[:: 1 if half >= 0 else -1]
                        pieces.append(("c", (*controls.ravel().tolist(), *to)))
                    else:
                        pieces.append(("l", to))
            if pieces[-1] == ("l", pieces[0][1]):
                pieces.pop()  # z draws it
            loops.append(pieces)
        shapes.append(loops)
    return shapes


def one_ring():
    """A map of one shape with one arc, which does not touch the border of the image."""
    labels = np.full((3, 3), -1, np.int32)
    labels[1, 1] = 0
    arcs = planar_map(labels)
    assert arcs.loops.tolist() in ([0], [~0])
    return arcs


def shuffled_map(seed):
    """A map with arcs of all directions, holes, junctions and an outside."""
    pieces = Partition.from_labels(np.random.default_rng(seed).integers(-1, 3, (5, 6))).numpy().astype(np.int32)
    return planar_map(np.ascontiguousarray(np.repeat(np.repeat(pieces, 2, axis=0), 3, axis=1)))


@pytest.mark.parametrize("seed", range(3))
def test_lines_are_read_back(seed):
    arcs = shuffled_map(seed)
    outlines = exact_outlines(arcs)
    scaled = outlines._replace(points=outlines.points * 10 - 37, unit=10)  # numbers of all lengths and signs
    assert [pieces_in(text) for text in path_data(arcs, scaled)] == expected(arcs, scaled)


@pytest.mark.parametrize("round_pieces", [False, True], ids=["curves and lines", "arcs of circles, curves and lines"])
@pytest.mark.parametrize("seed", range(3))
def test_curves_and_arcs_are_read_back(seed, round_pieces):
    arcs, rng = shuffled_map(seed), np.random.default_rng(seed)
    outlines = exact_outlines(arcs)
    points = outlines.points * 100
    controls = np.repeat(points, 2, axis=0).reshape(-1, 4) + rng.integers(-30, 30, (len(points), 4), dtype=np.int32)
    curved = rng.uniform(size=len(points)) < 0.6
    radii = np.where(rng.uniform(size=len(points)) < 0.3, rng.choice((-400, 90, 4000), len(points)), 0).astype(np.int32)
    both = Outlines(points, outlines.offsets, 100, controls.astype(np.int32), curved, radii if round_pieces else outlines.radii)
    assert [pieces_in(text) for text in path_data(arcs, both)] == expected(arcs, both)


def test_a_curve_that_goes_smoothly_on_is_written_by_its_second_control_point_alone():
    arcs = one_ring()
    square = exact_outlines(arcs).points[:-1] * 100
    points = np.concatenate((square, square[:1])).astype(np.int32)
    handle = (np.roll(square, -1, axis=0) - np.roll(square, 1, axis=0)) // 4  # the same way into and out of a vertex
    ends = np.roll(square, -1, axis=0)
    controls = np.zeros((5, 4), np.int32)
    controls[1:] = np.concatenate((square + handle, ends - np.roll(handle, -1, axis=0)), axis=1)
    outlines = Outlines(points, np.array([0, 5], np.int32), 100, controls, np.array([False, True, True, True, True]))
    (text,) = path_data(arcs, outlines)
    assert [pieces_in(text)] == expected(arcs, outlines)
    assert re.sub(r"[^a-z]", "", text) == "mcsz"  # one command holds for all that follow


def test_an_arc_that_begins_elsewhere_than_the_last_one_ended_is_led_to_by_a_line():
    arcs = planar_map(np.array([[0, 1]], np.int32))
    outlines = exact_outlines(arcs)
    (inner,) = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))
    points = outlines.points * 10
    points[outlines.offsets[inner] : outlines.offsets[inner + 1]] += (3, 0)
    found = [pieces_in(text) for text in path_data(arcs, outlines._replace(points=points, unit=10))]
    for shape, corners in enumerate(
        [{(0, 0), (0, 10), (10, 0), (10, 10), (13, 0), (13, 10)}, {(10, 0), (20, 0), (20, 10), (10, 10), (13, 0), (13, 10)}]
    ):
        assert {piece[1] for piece in found[shape][0]} == corners


@pytest.mark.parametrize("value", [0, 1, 9, 10, 11, 99, 100, 101, 1000, 123456789, -1, -10, -99, -100])
def test_integers_are_written_in_decimals(value):
    buffer = np.full(20, ord("x"), np.uint8)
    end = put_integer(buffer, 3, value)
    assert buffer.tobytes().decode() == f"xxx{value}" + "x" * (17 - len(str(value)))
    assert end == 3 + len(str(value))


@pytest.mark.parametrize(
    ("points", "text"),
    [
        ([[0, 0], [10, 0], [10, 10], [0, 10]], "m0 0h10v10h-10z"),
        ([[-5, 7], [10, 9], [4, 12]], "m-5 7 15 2-6 3z"),
        ([[0, 0], [10, 1], [10, 9], [30, 9], [3, 4]], "m0 0 10 1v8h20l-27-5z"),
    ],
)
def test_commands_and_separators_stand_only_where_they_are_needed(points, text):
    arcs = one_ring()
    ring = np.array([*points, points[0]], np.int32)
    ring = ring if arcs.loops[0] >= 0 else ring[::-1].copy()
    assert path_data(arcs, Outlines(ring, np.array([0, len(ring)], np.int32), 1)) == [text]
