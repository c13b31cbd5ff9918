"""Small kernels of regions, against the same in a line of numpy."""

import numpy as np

from pixtree.vector.regions.flat import FEWEST, NEAR, PEAK, SAME, outstanding
from pixtree.vector.regions.growing import local_variance
from pixtree.vector.regions.merging import weighted_means, without_outdated
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
    assert outstanding(colours, counts, 300).tolist() == expected
    assert outstanding(colours, counts, 2).tolist() == expected[:2]
    assert outstanding(colours[:0], counts[:0], 2).tolist() == []


def test_edges_between_pixels_of_different_regions_and_of_the_border_are_counted():
    labels = np.array([[0, 0, 1], [0, 1, 1]])
    assert pixel_edges(labels) == 1 + 2 + 10  # below, to the right, and around
