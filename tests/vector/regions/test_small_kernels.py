"""Small kernels of regions, against the same in a line of numpy."""

import numpy as np
import pytest

from pixtree.vector.regions.blends import NEAR
from pixtree.vector.regions.colours import modal_colours, one_coloured, packed, unpacked
from pixtree.vector.regions.flat import FEWEST, NEVER, PEAK, SAME, outstanding
from pixtree.vector.regions.growing import local_variance
from pixtree.vector.regions.merging import (
    Agglomeration,
    adjacency,
    edge_between,
    link,
    price,
    unlink,
    ward_growth,
    weighted_means,
    without_outdated,
)
from pixtree.vector.tracing import pixel_edges


def test_means_of_regions_are_weighted_means():
    generator = np.random.default_rng(0)
    labels = np.array([[0, 0, 1], [2, -1, 1]], np.int32)
    planes, weights = generator.uniform(0, 255, (3, 2, 3)).astype(np.float32), generator.uniform(0.5, 2, (2, 3)).astype(np.float32)
    weight, mean = weighted_means(labels, planes, weights, 3)
    for region in range(3):
        inside = labels == region
        np.testing.assert_allclose(weight[region], weights[inside].sum(), rtol=1e-6)
        np.testing.assert_allclose(mean[region], np.average(planes[:, inside], axis=1, weights=weights[inside]), rtol=1e-5)


def test_outdated_entries_leave_the_heap():
    cost = np.array([3.0, 1.0, 2.0, 5.0], np.float32)  # what is true, by edge
    heap_cost = np.array([1.0, 2.0, 9.0, 3.0, 4.0, 0.0], np.float32)
    heap_edge = np.array([1, 2, 0, 0, 3, 0], np.int32)
    assert without_outdated(heap_cost, heap_edge, 5, cost) == 3
    assert sorted(heap_cost[:3].tolist()) == [1.0, 2.0, 3.0]
    assert heap_cost[0] == 1.0


def test_the_variance_around_a_pixel_is_that_of_its_window():
    planes = np.random.default_rng(1).uniform(0, 255, (3, 9, 11)).astype(np.float32)
    found = local_variance(planes, 2)
    for y, x in ((0, 0), (4, 5), (8, 10), (7, 1)):
        window = planes[:, max(y - 2, 0) : y + 3, max(x - 2, 0) : x + 3]
        np.testing.assert_allclose(found[y, x], window.var(axis=(1, 2), dtype=np.float64).mean(), rtol=1e-4)


def test_colours_stand_out_that_have_most_of_the_pixels_near_them():
    generator = np.random.default_rng(2)
    colours = generator.integers(0, 60, (300, 3)).astype(np.float32)
    counts = np.sort((generator.pareto(0.5, 300) + 1).astype(np.int64))[::-1]
    distance = np.abs(colours[:, None] - colours).max(axis=2)
    equal, near = ((distance <= reach) @ counts for reach in (SAME, NEAR))
    expected = []
    for k in np.flatnonzero((equal >= FEWEST) & (equal >= PEAK * near)).tolist():
        if not (distance[k, expected] <= NEAR).any():
            expected.append(k)
    assert 2 < len(expected) < 100
    assert outstanding(colours, counts, 300, NEVER).tolist() == expected
    assert outstanding(colours, counts, 2, NEVER).tolist() == expected[:2]
    assert outstanding(colours[:0], counts[:0], 2, NEVER).tolist() == []


def test_a_large_colour_near_a_larger_one_stands_out_too():
    colours = np.array([[250, 250, 250], [245, 246, 247], [251, 250, 250], [244, 238, 240], [10, 10, 10]], np.float32)
    counts = np.array([900, 500, 400, 60, 50])
    assert outstanding(colours, counts, 9, NEVER).tolist() == [0, 4]
    assert outstanding(colours, counts, 9, 300).tolist() == [0, 1, 4]  # the third equals the first but for rounding,
    assert outstanding(colours, counts, 9, 200).tolist() == [0, 1, 2, 4]  # unless it is twice as large as others must be
    assert outstanding(colours, counts, 9, 60).tolist() == [0, 1, 2, 3, 4]


def test_edges_between_pixels_of_different_regions_and_of_the_border_are_counted():
    labels = np.array([[0, 0, 1], [0, 1, 1]])
    assert pixel_edges(labels) == 1 + 2 + 10  # below, to the right, and around


def test_pairs_of_touching_regions_are_found_with_the_edges_they_share():
    labels = np.array([[0, 0, 1, 1], [2, 2, 2, 1], [2, 0, -1, 1], [3, 3, -1, 3]], np.int32)
    first, second, length = adjacency(labels, 4)
    found = dict(zip(zip(first.tolist(), second.tolist(), strict=True), length.tolist(), strict=True))
    assert found == {(0, 1): 1, (0, 2): 4, (0, 3): 1, (1, 2): 2, (1, 3): 1, (2, 3): 1}
    assert len(first) == 6
    single = adjacency(np.zeros((3, 3), np.int32), 1)
    assert [len(one) for one in single] == [0, 0, 0]


def test_the_price_of_a_pair_is_the_growth_of_its_error_over_a_power_of_the_shared_length():
    weight, mean = np.array([2.0, 6.0]), np.array([[10.0, 0.0], [13.0, 4.0]])
    growth = 2 * 6 / 8 * 25
    assert ward_growth(0, 1, weight, mean) == pytest.approx(growth)
    for exponent in (0.0, 0.25, 0.5, 1.0):
        assert price(0, 1, 9.0, weight, mean, exponent) == pytest.approx(growth / 9**exponent)


def test_a_half_edge_leaves_its_list_wherever_it_stands():
    for gone in range(4):
        head, degree = np.array([-1, -1], np.int32), np.zeros(2, np.int32)
        following, before = np.full(4, -9, np.int32), np.full(4, -9, np.int32)
        for half in range(4):
            link(half, 1, head, following, before, degree)
        assert (degree.tolist(), chained(head[1], following)) == ([0, 4], [3, 2, 1, 0])
        unlink(gone, 1, head, following, before, degree)
        left = [half for half in (3, 2, 1, 0) if half != gone]
        assert (degree.tolist(), chained(head[1], following)) == ([0, 3], left)
        assert [before[half] for half in left] == [-1, *left[:-1]]
        assert head[0] == -1


def chained(half, following):
    """The list that begins with a half-edge."""
    found = []
    while half >= 0:
        found.append(int(half))
        half = following[half]
    return found


def test_the_edge_between_two_regions_is_found_from_either_side():
    ends = np.array([0, 1, 0, 2, 1, 3], np.int32)  # edges 0-1, 0-2 and 1-3
    head, degree = np.full(4, -1, np.int32), np.zeros(4, np.int32)
    following, before = np.full(6, -1, np.int32), np.full(6, -1, np.int32)
    for half in range(6):
        link(half, ends[half], head, following, before, degree)
    wanted = {(0, 1): 0, (0, 2): 1, (1, 3): 2, (2, 3): -1, (0, 3): -1, (1, 2): -1}
    for (a, b), edge in wanted.items():
        assert edge_between(a, b, ends, head, following, degree) == edge
        assert edge_between(b, a, ends, head, following, degree) == edge


def test_the_slope_is_the_mean_growth_of_the_merges_around_a_count():
    growth = np.arange(1.0, 100.0) ** 2
    regions = Agglomeration(np.zeros((1, 1), np.int32), 100, np.zeros(99, np.int32), np.zeros(99, np.int32), growth)
    assert regions.slope(60) == pytest.approx(growth[35:45].mean())  # merge 40 leads from 60 regions to 59
    assert regions.slope(2) == pytest.approx(growth[93:].mean())
    assert regions.slope(100) == pytest.approx(growth[:5].mean())
    none = np.empty(0, np.int32)
    assert Agglomeration(np.zeros((1, 1), np.int32), 1, none, none, np.empty(0)).slope(1) == 0


def test_the_most_frequent_colour_of_every_region_is_its_own():
    labels = np.array([[0, 0, 0, 1], [-1, 1, 1, 1], [-1, -1, -1, 2]], np.int32)
    colours = np.array([[1, 9, 9, 9], [7, 3, 3, 9], [7, 7, 7, 200]], float)
    planes = np.stack((colours, 255 - colours, colours + 20.2))
    found = modal_colours(labels, planes, 4)
    assert found[[0, 2, 3]].tolist() == [[9, 246, 29], [200, 55, 220], [0, 0, 0]]
    assert found[1].tolist() in ([9, 246, 29], [3, 252, 23])  # twice each


def test_a_colour_is_one_integer_and_back_in_any_number_of_channels():
    for channels in (1, 3, 4):
        colours = np.random.default_rng(channels).integers(0, 256, (channels, 6, 5))
        keys = packed(colours + 0.3)
        assert keys.shape == (6, 5)
        assert unpacked(keys.ravel(), channels).tolist() == colours.reshape(channels, -1).T.tolist()
    assert packed(np.array([[[-9.0]], [[300.0]]])).tolist() == [[255]]


def test_a_region_is_of_one_colour_if_no_pixel_is_farther_from_it_than_a_grey_level():
    labels = np.array([[0, 0, 1], [-1, 2, 1]], np.int32)
    planes = np.array([[[10, 11, 50], [99, 7, 52]], [[20, 19, 60], [99, 8.5, 60]]], np.float32)
    assert one_coloured(labels, planes, np.array([[10.0, 20], [51, 60], [7, 7]])).tolist() == [True, True, False]
