"""Linear gradients: found where a ramp is, with its direction and its colours, and only where they pay."""

import numpy as np
import pytest

from pixtree.kernels.cracks import planar_map
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines.pieces import exact_outlines
from pixtree.vector.paint.gradients import CHARACTERS, best_direction, gradients_that_pay, region_moments
from pixtree.vector.paint.layers import layers_of
from pixtree.vector.regions.colours import mean_colours

SLOPE = np.array([2.0, -1.0, 0.5])  # grey levels per pixel along x, per channel


def ramp(height=20, width=30):
    """A ramp along x, (3, H, W)."""
    x = np.arange(width) + 0.5
    return np.ascontiguousarray(np.broadcast_to((120 + SLOPE[:, None] * (x - width / 2))[:, None], (3, height, width)), np.float32)


def drawn(labels, planes, cells=1):
    arcs = planar_map(labels)
    return Drawing(arcs, exact_outlines(arcs), mean_colours(labels, planes, arcs.count), layers_of(arcs), cells=cells)


def test_a_ramp_becomes_a_gradient_along_it_with_its_colours():
    planes, labels = ramp(), np.zeros((20, 30), np.int32)
    gradient = gradients_that_pay(drawn(labels, planes), labels, planes, price=1.0)[0]
    assert gradient.y1 == pytest.approx(10, abs=0.1)
    assert gradient.y2 == pytest.approx(10, abs=0.1)
    (left, left_stop), (right, right_stop) = sorted([(gradient.x1, gradient.start), (gradient.x2, gradient.end)])
    assert right - left == pytest.approx(4 * np.sqrt((30**2 - 1) / 12), rel=0.01)  # two deviations to either side
    assert np.allclose(left_stop, 120 + SLOPE * (left - 15), atol=1.0)
    assert np.allclose(right_stop, 120 + SLOPE * (right - 15), atol=1.0)


def test_the_gain_is_the_squared_error_that_a_ramp_removes():
    planes, labels = ramp(), np.zeros((20, 30), np.int32)
    left_over = planes - planes.mean(axis=(1, 2), keepdims=True)
    gain, centre, slope, direction = best_direction(region_moments(labels, left_over, 1)[0])
    assert gain == pytest.approx(float((left_over**2).sum()), rel=0.01)
    assert np.allclose(centre, (15, 10))
    assert np.allclose(np.abs(np.outer(slope, direction)), np.abs(np.stack([SLOPE, np.zeros(3)])), atol=0.02)
    price = gain / CHARACTERS
    drawing = drawn(labels, planes)
    assert gradients_that_pay(drawing, labels, planes, price=0.97 * price).keys() == {0}
    assert gradients_that_pay(drawing, labels, planes, price=1.03 * price) == {}


def test_moments_are_sums_over_the_pixels_without_foreign_neighbours():
    labels = np.zeros((9, 11), np.int32)
    labels[2:8, 3:9], labels[0, 0] = 1, -1
    planes = np.random.default_rng(0).integers(0, 255, (3, 9, 11)).astype(np.float32)
    moments = region_moments(labels, planes, 2)
    inner = np.zeros((9, 11), bool)
    inner[3:7, 4:8] = True
    y, x = np.nonzero(inner)
    colour = planes[:, y, x].astype(np.float64)
    x, y = x + 0.5, y + 0.5
    expected = [len(x), x.sum(), y.sum(), (x * x).sum(), (x * y).sum(), (y * y).sum()]
    expected += [*(colour * x).sum(1), *(colour * y).sum(1), *colour.sum(1)]
    assert np.allclose(moments[1], expected)
    framed = np.pad(labels, 1, mode="edge")
    around = [framed[1 + v : 10 + v, 1 + u : 12 + u] for v, u in ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))]
    assert moments[0, 0] == np.all([one == 0 for one in around], axis=0).sum()


def test_finer_cells_give_the_same_gradient_in_pixels():
    planes, labels = ramp(), np.zeros((20, 30), np.int32)
    plain = gradients_that_pay(drawn(labels, planes), labels, planes, price=1.0)[0]
    x = (np.arange(60) + 0.5) / 2
    fine = np.ascontiguousarray(np.broadcast_to((120 + SLOPE[:, None] * (x - 15))[:, None], (3, 40, 60)), np.float32)
    finer = gradients_that_pay(drawn(np.zeros((40, 60), np.int32), fine, cells=2), np.zeros((40, 60), np.int32), fine, price=1.0)[0]
    ends, finer_ends = sorted((plain.x1, plain.x2)), sorted((finer.x1, finer.x2))
    assert np.allclose(ends, finer_ends, atol=0.1)
    assert finer.y1 == pytest.approx(plain.y1, abs=0.1)


@pytest.mark.parametrize(("side", "found"), [(5, 1), (4, 0)])
def test_a_shape_needs_eight_pixels_inside(side, found):
    labels = np.zeros((12, 12), np.int32)
    labels[3 : 3 + side, 3 : 3 + side] = 1
    planes = np.broadcast_to(np.arange(12, dtype=np.float32) * 20, (3, 12, 12)).copy()
    assert sum(shape == 1 for shape in gradients_that_pay(drawn(labels, planes), labels, planes, price=0.0)) == found


def test_stops_stay_within_the_legal_colours():
    x = np.arange(40, dtype=np.float32)
    planes = np.ascontiguousarray(np.broadcast_to(np.clip(12 * (x - 10), 0, 255), (3, 30, 40)))
    labels = np.zeros((30, 40), np.int32)
    gradient = gradients_that_pay(drawn(labels, planes), labels, planes, price=0.0)[0]
    assert sorted((gradient.start, gradient.end)) == [(0, 0, 0), (255, 255, 255)]


def test_a_flat_shape_has_none():
    labels = np.zeros((20, 30), np.int32)
    flat = np.full((3, 20, 30), 90.0, np.float32)
    assert gradients_that_pay(drawn(labels, flat), labels, flat, price=1e-9) == {}


@pytest.mark.parametrize(("length", "has_one"), [(600, True), (900, False)])
def test_a_line_of_pixels_has_a_direction_only_if_it_is_not_too_thin_to_tell(length, has_one):
    planes = np.broadcast_to(np.linspace(0, 255, length, dtype=np.float32), (3, 1, length)).copy()
    moments = region_moments(np.zeros((1, length), np.int32), planes, 1)[0]
    assert (best_direction(moments) is not None) == has_one
