"""Boundaries on cells finer than the pixel."""

import numpy as np
from pictures import photo

from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.trees.partition import Partition
from pixtree.vector.regions.growing import grow_regions, local_variance
from pixtree.vector.regions.refinement import SWEEPS, enlarged, give_to_nearer, refined


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
