"""Sums, means, minima and boxes per region: values, gradients, and nothing across images."""

import pytest
import torch
from torch.library import opcheck

from pixtree.kernels import kernels_for, operators

DEFINITIONS, COMPILED = kernels_for("torch"), kernels_for("numba")
both = pytest.mark.parametrize("kernels", [DEFINITIONS, COMPILED], ids=["torch", "numba"])

LABELS = torch.tensor([[0, 0, 1, -1], [2, 1, 1, 0]], dtype=torch.int32)
VALUES = torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], [[1.0, 1.0, 1.0, 1.0], [0.0, 2.0, 4.0, 6.0]]])


@both
def test_sums_means_and_sizes_of_a_small_example(kernels):
    assert kernels.region_sums(VALUES, LABELS, 3).tolist() == [[[3, 11], [3, 7], [0, 0]], [[1, 6], [2, 6], [1, 0]]]
    assert kernels.region_sizes(LABELS, 3)[..., 0].tolist() == [[2, 1, 0], [1, 2, 1]]
    assert kernels.region_means(VALUES, LABELS, 3).tolist() == [[[1.5, 5.5], [3, 7], [0, 0]], [[1, 6], [1, 3], [1, 0]]]


def test_minima_are_infinite_where_a_region_is_empty():
    minima = DEFINITIONS.region_minima(VALUES, LABELS, 3)
    assert minima[1].tolist() == [[1, 6], [1, 2], [1, 0]]
    assert bool(minima[0, 2].isinf().all())


@both
def test_paint_gives_every_pixel_its_row_and_outside_zero(kernels):
    rows = torch.arange(12.0).view(2, 3, 2)
    assert kernels.paint(rows, LABELS)[0].tolist() == [[0, 0, 2, 0], [1, 1, 3, 0]]


@both
def test_boxes_hold_their_regions(kernels):
    labels = torch.tensor([[[0, 0, 1], [0, 1, 1]], [[0, 0, 0], [0, 0, 0]]], dtype=torch.int32)
    assert kernels.region_boxes(labels, 2).tolist() == [[[0, 0, 2, 2], [0, 1, 2, 3]], [[0, 0, 2, 3], [0, 0, 0, 0]]]


@both
@pytest.mark.parametrize("name", ["region_sums", "region_means"])
def test_gradients_of_sums_and_means(kernels, name):
    assert torch.autograd.gradcheck(lambda v: getattr(kernels, name)(v, LABELS, 3), VALUES.double().requires_grad_())


@both
def test_gradients_of_minima_and_paint(kernels):
    values = torch.randn(2, 2, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: kernels.region_minima(v, LABELS, 3)[1], values)
    assert torch.autograd.gradcheck(
        lambda r: kernels.paint(r, LABELS), torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    )


def test_the_operators_are_well_behaved():
    opcheck(operators.region_sums, (VALUES.clone().requires_grad_(), LABELS, 3))
    opcheck(operators.means_and_sizes, (VALUES.clone().requires_grad_(), LABELS, 3))
    opcheck(operators.paint, (torch.randn(2, 3, 2, requires_grad=True), LABELS))
    opcheck(operators.region_sizes, (LABELS, 3))
    opcheck(operators.region_boxes, (LABELS.view(2, 2, 2), 3))


def test_sums_of_many_pixels_keep_their_digits():
    values = torch.full((1, 1, 300_000), 0.1)
    labels = torch.zeros((1, 300_000), dtype=torch.int32)
    assert float(COMPILED.region_means(values, labels, 1)) == pytest.approx(0.1, rel=1e-6)
