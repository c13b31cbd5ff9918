"""Boundaries on cells finer than the pixel."""

import numpy as np
import pytest
from pictures import photo

from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.trees.partition import Partition
from pixtree.vector.regions.growing import grow_regions, local_variance
from pixtree.vector.regions.refinement import SWEEPS, can_leave, enlarged, give_to_nearer, look_around, price_of, refined


def test_a_boundary_moves_to_where_the_colours_part():
    planes = np.zeros((3, 6, 8), np.float32)
    planes[:, :, 5:] = 200.0
    labels = np.zeros((6, 8), np.int32)
    labels[:, 4:] = 1  # one column too early
    assert (refined(labels, planes, 1, 1.0) == (planes[0] > 100)).all()


def test_regions_keep_their_numbers_and_stay_connected():
    planes = photo(height=40, width=50).float()
    labels = grow_regions(planes, most=60).labels(60)
    fine = refined(labels, enlarged(planes, 2).numpy(), 2, 0.0)
    assert fine.shape == (80, 100)
    assert set(np.unique(fine)) == set(range(60))
    assert Partition.from_labels(fine).numpy().max() + 1 == 60  # one piece each


def test_the_outside_stays_outside():
    planes = photo(height=20, width=20).float()
    labels = np.where(np.arange(20) < 12, 0, -1).astype(np.int32)[None].repeat(20, axis=0)
    labels[10:, :12] = 1
    fine = refined(labels, enlarged(planes, 2).numpy(), 2, 0.0)
    assert ((fine < 0) == np.kron(labels < 0, np.ones((2, 2), bool))).all()


def test_what_lies_beside_the_picture_in_memory_is_not_looked_at():
    planes = photo(height=20, width=24).float()
    labels = grow_regions(planes, most=30).labels(30)
    expected = refined(labels, planes.numpy(), 1, 100.0)
    for beside in range(30):
        held = np.full((22, 24), beside, np.int32)
        held[1:-1] = labels
        give_to_nearer(held[1:-1], planes.numpy(), 30, 100.0, SWEEPS)
        np.testing.assert_array_equal(held[1:-1], expected)


def test_stiff_boundaries_are_shorter():
    planes = photo(height=40, width=50).float()
    labels = grow_regions(planes, most=40).labels(40)
    fine = enlarged(planes, 2).numpy()
    lengths = [
        int((m[1:] != m[:-1]).sum() + (m[:, 1:] != m[:, :-1]).sum()) for m in (refined(labels, fine, 2, s) for s in (0, 300))
    ]
    assert lengths[1] < lengths[0]


def test_finer_cells_come_nearer_to_the_image_between_its_pixels():
    image = photo(height=64, width=80)
    double = enlarged(image.float(), 2).permute(1, 2, 0).numpy()
    errors = []
    for fast in (True, False):
        text = str(vectorize(image.permute(1, 2, 0).numpy(), paths=150, fast=fast))
        shown = rendered(text.replace('width="80" height="64"', 'width="160" height="128"'))
        errors.append(float(((shown - double) ** 2).mean()))
    assert errors[1] < 0.9 * errors[0]


def test_the_variance_of_a_window_is_that_of_its_pixels():
    planes = np.random.default_rng(0).uniform(0, 255, (3, 9, 11)).astype(np.float32)
    found = local_variance(planes, 3)
    for y, x in np.ndindex(9, 11):
        window = planes[:, max(y - 3, 0) : y + 4, max(x - 3, 0) : x + 4].astype(np.float64)
        np.testing.assert_allclose(found[y, x], window.var(axis=(1, 2)).mean(), rtol=1e-4)


def test_a_cell_sees_all_eight_neighbours_and_none_beyond_the_image():
    labels = np.arange(1, 13, dtype=np.int32).reshape(3, 4)
    padded = np.pad(labels, 1, constant_values=-1)
    for y, x in np.ndindex(3, 4):
        ring = np.full(8, -9, np.int32)
        assert look_around(labels, y, x, ring)
        around = padded[y : y + 3, x : x + 3]
        assert ring.tolist() == [*around[0, 1:], around[1, 2], *around[2, ::-1], *around[1::-1, 0]]
    assert not look_around(np.zeros((3, 3), np.int32), 1, 1, np.empty(8, np.int32))
    assert not look_around(np.array([[0, 0, -1], [0, 0, -1]], np.int32), 0, 1, np.empty(8, np.int32))  # the outside takes nothing


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        ("x.......", True),  # clockwise from above: one direct neighbour,
        ("xxx.....", True),  # two with the corner between them,
        ("x.x.....", False),  # or without it
        ("x...x...", False),
        ("xxxxx...", True),
        ("xxx.x...", False),
        ("x.....xx", True),
        ("xxxxxxxx", False),  # in the middle of its region
        (".x.x.x.x", False),  # none
        ("........", False),
    ],
)
def test_a_cell_may_leave_if_its_region_stays_whole_without_it(around, expected):
    for turn in range(0, 8, 2):
        ring = np.array([5 if one == "x" else 2 for one in around[turn:] + around[:turn]], np.int32)
        assert can_leave(ring, 5) == expected


def test_the_price_of_a_cell_is_its_distance_from_the_mean_and_the_length_of_the_boundary_it_would_have():
    planes = np.array([[[10.0]], [[20.0]]], np.float32)
    total, size = np.array([[30.0, 30.0], [8.0, 40.0]]), np.array([3.0, 2.0])
    ring = np.array([0, 1, 1, 0, -1, -1, 0, 1], np.int32)
    assert price_of(0, planes, 0, 0, total, size, ring, 0.0) == pytest.approx(0 + 100)
    assert price_of(1, planes, 0, 0, total, size, ring, 0.0) == pytest.approx(36)
    assert price_of(0, planes, 0, 0, total, size, ring, 10.0) == pytest.approx(100 + 10 * (1 + 0.7 + 0.7))
    assert price_of(1, planes, 0, 0, total, size, ring, 10.0) == pytest.approx(36 + 10 * (1 + 0.7 + 1))


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_regions_of_all_numbers_take_cells_from_each_other(numbers):
    planes = np.zeros((3, 6, 8), np.float32)
    planes[:, :, 5:] = 200.0
    for column in (3, 4, 6, 7):  # too early and too late
        labels = np.full((6, 8), numbers[0], np.int32)
        labels[:, column:] = numbers[1]
        found = refined(labels, planes, 1, 1.0)
        assert (found == np.where(planes[0] > 100, numbers[1], numbers[0])).all()


def test_the_cheapest_of_several_neighbours_takes_a_cell():
    labels = np.array([[0, 0, 0, 0], [1, 1, 3, 2], [1, 1, 3, 2]], np.int32)
    values = {0: 10.0, 1: 100.0, 2: 200.0, 3: 150.0}
    for wanted in (0, 1, 2):
        planes = np.vectorize(values.get)(labels)[None].astype(np.float32)
        planes[0, 1, 2] = values[wanted]  # looks like one of the three that it touches
        found = refined(labels, planes, 1, 0.0)
        assert found[1, 2] == wanted
        found[1, 2] = 3
        assert (found == labels).all()
