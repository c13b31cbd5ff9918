"""Boundary polishing: its logarithm, its cost, and that both backends take the same steps."""

import math

import numba
import numpy as np
import pytest
import torch
from pictures import noise, photo

from pixtree.kernels import kernels_for
from pixtree.kernels.image.polish import definition
from pixtree.kernels.tree import FLOOR
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.cuts import SMOOTHNESS, SWEEPS
from pixtree.trees.partition import Partition

BACKENDS = ("torch", "numba")


def polished(labels, features, backend, sweeps=SWEEPS, smoothness=SMOOTHNESS, floor=FLOOR):
    return kernels_for(backend).relax(labels, features, sweeps, smoothness, floor)


def test_the_logarithm_is_that_of_the_library_and_compiled_it_has_the_same_bits():
    compiled = numba.njit(definition.logarithm)
    values = np.concatenate((np.geomspace(1e-30, 1e30, 999), np.linspace(0.4, 2.1, 999))).tolist()
    for x in values:
        assert definition.logarithm(x) == pytest.approx(math.log(x), rel=1e-12, abs=1e-12)
        assert compiled(x) == definition.logarithm(x)


@pytest.mark.parametrize("image", [photo(height=48, width=56), noise(30, 31)])
def test_both_backends_polish_alike(image):
    labels = hierarchy_of_image(image).cut(tokens=20).labels[0]
    features = kernels_for("numba").lab(image).view(3, *image.shape[1:])
    assert torch.equal(polished(labels, features, "torch"), polished(labels, features, "numba"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pixel_between_a_flat_and_a_textured_region_belongs_to_the_texture(backend):
    """Its value is nearer to the mean of the flat region, which varies too little to explain it."""
    features = torch.zeros(1, 8, 16)
    features[0, :, 8:] = torch.tensor([20.0, 60.0]).repeat(8, 4)
    features[0, 4, 7] = 19.0
    labels = torch.zeros(8, 16, dtype=torch.int32)
    labels[:, 8:] = 1
    moved = polished(labels, features, backend)
    labels[4, 7] = 1
    assert torch.equal(moved, labels)


def test_polishing_lowers_the_energy_of_a_photo():
    tree = hierarchy_of_image(photo())
    pixels = tree.features.T.to(torch.float64)

    def energy(partition: Partition) -> float:
        labels, areas = partition.labels.flatten().to(torch.int64), partition.areas()[:, None]
        zeros = torch.zeros(int(partition.counts), 3, dtype=torch.float64)
        means = zeros.index_add(0, labels, pixels) / areas
        variances = zeros.index_add(0, labels, (pixels - means[labels]).square()) / areas
        return float((areas * torch.log1p(variances / FLOOR)).sum())

    assert energy(tree.cut(tokens=60, relax=True)) < 0.97 * energy(tree.cut(tokens=60))


@pytest.mark.parametrize("backend", BACKENDS)
def test_pixels_outside_a_mask_stay_outside_and_regions_stay_whole(backend):
    mask = torch.ones(24, 24, dtype=torch.bool)
    mask[8:12, 3:20] = False
    tree = hierarchy_of_image(photo(height=24, width=24), mask=mask, backend=backend)
    relaxed = tree.cut(tokens=9, relax=True)
    assert int(relaxed.counts) == 9
    assert torch.equal(relaxed.labels[0] >= 0, mask)
    assert Partition.from_labels(relaxed.labels) == relaxed


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_sweeps_nothing_moves(backend):
    labels = hierarchy_of_image(noise(12, 13)).cut(tokens=7).labels[0]
    assert torch.equal(polished(labels, torch.rand(2, 12, 13), backend, sweeps=0), labels)
