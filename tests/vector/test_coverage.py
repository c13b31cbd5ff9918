"""Coverage of pixels by shapes: exact areas, by a clipping of polygons that shares nothing with the runs of the renderer."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.trees.partition import Partition
from pixtree.vector.outlines.pieces import exact_outlines
from pixtree.vector.paint import Coverage, colour_smallest_last, composite, cover, layers_of, paint_runs, sort_row


def area_within(polygon, column, row):
    """Area of a polygon (N, 2) inside one pixel: clipped by its four sides in turn (Sutherland and Hodgman)."""
    points = np.asarray(polygon, float)
    for axis, bound, sign in ((0, column, 1), (0, column + 1, -1), (1, row, 1), (1, row + 1, -1)):
        kept = []
        for a, b in zip(points, np.roll(points, -1, axis=0), strict=True):
            gap_a, gap_b = sign * (a[axis] - bound), sign * (b[axis] - bound)
            if gap_a >= 0:
                kept.append(a)
            if (gap_a < 0) != (gap_b < 0):
                kept.append(a + (b - a) * (gap_a / (gap_a - gap_b)))
        if not kept:
            return 0.0
        points = np.array(kept)
    x, y = points.T
    return abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def shares(coverage, place, shape):
    """Coverage (H, W) of the shape that is painted at one place of the order."""
    found = np.zeros(shape[0] * shape[1])
    for run in range(coverage.offsets[place], coverage.offsets[place + 1]):
        assert (found[coverage.begin[run] : coverage.end[run]] == 0).all()  # runs do not overlap
        found[coverage.begin[run] : coverage.end[run]] = coverage.share[run]
    return found.reshape(shape)


POLYGONS = {
    "a triangle": [(1.3, 0.6), (6.7, 2.2), (2.9, 5.8)],
    "the same the other way round": [(2.9, 5.8), (6.7, 2.2), (1.3, 0.6)],
    "a flat one": [(0.2, 2.1), (7.9, 2.4), (7.6, 2.9), (0.1, 2.6)],
    "a steep one": [(3.1, 0.3), (3.9, 5.7), (3.4, 5.9)],
    "on the pixels' edges": [(1.0, 1.0), (5.0, 1.0), (5.0, 4.0), (1.0, 4.0)],
    "inside one pixel": [(2.2, 3.1), (2.8, 3.4), (2.4, 3.9)],
    "beyond every side": [(-3.0, 2.0), (4.0, -5.0), (12.0, 3.0), (4.5, 9.5)],
}


@pytest.mark.parametrize("name", POLYGONS)
def test_a_polygon_covers_every_pixel_by_the_area_that_it_has_in_it(name):
    points = np.array(POLYGONS[name])
    ring = np.concatenate((points, points[:1]))
    one = np.array([0, 1], np.int32)
    found = cover(ring, np.array([0, len(ring)], np.int32), (np.array([0], np.int32), one, one), np.array([0]), (6, 8))
    expected = [[area_within(points, x, y) for x in range(8)] for y in range(6)]
    np.testing.assert_allclose(shares(found, 0, (6, 8)), expected, atol=6e-4)  # less than COVERED and NOT_COVERED leave out


def bent_map():
    """A map of nine shapes with a hole, its vertices moved off the pixels' corners (the border's stay on it)."""
    labels = np.array([[0, 0, 1, 2], [0, 3, 1, 2], [4, 3, 5, 5], [4, 6, 6, 5], [7, 7, 7, 7]]).repeat(3, axis=0).repeat(3, axis=1)
    labels[13, 2:5] = 8
    arcs = planar_map(labels.astype(np.int32))
    points = arcs.corners.astype(float)
    x, y = points.T.copy()
    inside = (x > 0) & (x < 12) & (y > 0) & (y < 15)
    points[inside] += 0.45 * np.stack((np.sin(3 * x + y), np.cos(2 * y - x)), axis=1)[inside]
    return arcs, points, labels.shape


def polygons_of(arcs, points, shape):
    """The rings (N, 2) of one shape of a map."""
    for loop in range(arcs.shape_offsets[shape], arcs.shape_offsets[shape + 1]):
        halves = arcs.loops[arcs.loop_offsets[loop] : arcs.loop_offsets[loop + 1]].tolist()
        yield np.concatenate(
            [
                points[arcs.offsets[max(half, ~half)] : arcs.offsets[max(half, ~half) + 1]][:: 1 if half >= 0 else -1][:-1]
                for half in halves
            ]
        )


def test_the_shapes_of_a_map_cover_their_areas_in_any_order_and_every_pixel_exactly_once():
    arcs, points, shape = bent_map()
    order = np.random.default_rng(0).permutation(arcs.count)
    found = cover(points, arcs.offsets, (arcs.loops, arcs.loop_offsets, arcs.shape_offsets), order, shape)
    total = np.zeros(shape)
    for place, number in enumerate(order):
        covered = shares(found, place, shape)
        outer, *holes = sorted(
            (
                [[area_within(ring, x, y) for x in range(shape[1])] for y in range(shape[0])]
                for ring in polygons_of(arcs, points, number)
            ),
            key=lambda areas: -np.sum(areas),
        )
        np.testing.assert_allclose(covered, np.array(outer) - sum(map(np.array, holes)), atol=6e-4)
        total += covered
    np.testing.assert_allclose(total, 1, atol=2e-3)


def test_where_an_outline_overlaps_itself_nothing_is_covered():
    left, right = [(1, 1), (5, 1), (5, 4), (1, 4), (1, 1)], [(3, 1), (7, 1), (7, 4), (3, 4), (3, 1)]
    points = np.array([*left, *right], float)
    loops = np.array([0, 1], np.int32), np.array([0, 1, 2], np.int32), np.array([0, 2], np.int32)
    found = shares(cover(points, np.array([0, 5, 10], np.int32), loops, np.array([0]), (5, 8)), 0, (5, 8))
    assert found[2].tolist() == [0, 1, 1, 0, 0, 1, 1, 0]


def test_the_second_pass_blends_by_coverage_what_the_first_painted_backwards():
    runs = Coverage(
        np.array([0, 2, 3]), np.array([0, 2, 2], np.int32), np.array([2, 3, 4], np.int32), np.array([1.0, 0.25, 0.5], np.float32)
    )
    colours = np.array([[0, 0, 0], [200, 100, 40]], np.float32)
    canvas = np.full((5, 3), 255, np.float32)
    paint_runs(runs, colours, np.array([1, 0]), canvas)  # shape 1 below shape 0
    stroke = [200.0, 100.0, 40.0]  # the first pass ends with the lowest shape
    mixed = [0.5 * value for value in stroke]  # half of the upper shape over a quarter of the lower over its own stroke
    assert canvas.tolist() == [stroke, stroke, mixed, [0.0] * 3, [255.0] * 3]


def test_a_watertight_drawing_in_one_colour_has_that_colour_everywhere():
    arcs, points, shape = bent_map()
    order = np.arange(arcs.count)
    runs = cover(points, arcs.offsets, (arcs.loops, arcs.loop_offsets, arcs.shape_offsets), order, shape)
    colours = np.tile([[10.0, 90.0, 200.0]], (arcs.count, 1))
    np.testing.assert_allclose(composite(runs, colours, order, shape), np.tile([10, 90, 200], (*shape, 1)), atol=0.01)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 9, 10, 40, 300])
def test_entries_of_a_row_are_sorted_with_their_steps(count):
    rng = np.random.default_rng(count)
    column = rng.integers(0, 50, count + 4).astype(np.int32)
    step = column.astype(np.float32) * 2
    before = column.copy()
    sort_row(column, step, 2, count + 2)
    assert column.tolist() == [*before[:2], *sorted(before[2:-2].tolist()), *before[-2:]]
    assert step.tolist() == (column * 2).tolist()


def test_shapes_that_touch_lie_in_different_layers_of_which_six_are_enough():
    labels = np.random.default_rng(0).permutation(400).reshape(20, 20).repeat(2, axis=0).repeat(2, axis=1).astype(np.int32)
    labels[::2] = np.roll(labels, 1, axis=1)[::2]  # as in a wall of bricks
    arcs = planar_map(Partition.from_labels(labels).numpy().astype(np.int32))
    layers = layers_of(arcs)
    inner = (arcs.left >= 0) & (arcs.right >= 0)
    assert (layers[arcs.left[inner]] != layers[arcs.right[inner]]).all()
    assert layers.min() >= 0
    assert layers.max() < 6


def test_a_shape_whose_neighbours_have_few_colours_takes_the_first_that_is_free():
    star = np.zeros(9, np.int32), np.arange(1, 10, dtype=np.int32)
    colours = colour_smallest_last(*star, 10)
    assert set(colours[1:].tolist()) == {1 - colours[0]}
    ring = np.arange(6, dtype=np.int32), np.roll(np.arange(6, dtype=np.int32), -1)
    assert colour_smallest_last(*ring, 6).max() == 1
    twice = np.array([0, 1, 0, 1], np.int32), np.array([1, 2, 1, 2], np.int32)  # arcs between the same shapes
    found = colour_smallest_last(*twice, 4).tolist()
    assert found[0] == found[2] != found[1]
    assert found[3] == 0  # touches none


def test_the_pixels_of_exact_outlines_are_covered_whole():
    labels = np.random.default_rng(3).integers(0, 5, (6, 7))
    labels = Partition.from_labels(labels).numpy().astype(np.int32)
    arcs = planar_map(labels)
    outlines = exact_outlines(arcs)
    order = np.arange(arcs.count)
    found = cover(outlines.points / 1.0, outlines.offsets, (arcs.loops, arcs.loop_offsets, arcs.shape_offsets), order, labels.shape)
    for shape in range(arcs.count):
        assert (shares(found, shape, labels.shape) == (labels == shape)).all()
