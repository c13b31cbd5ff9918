"""Positions: histograms that sum to one, one-hot patches, tables that survive a change of resolution."""

import pytest
import torch
from torch.library import opcheck

from pixtree.kernels import kernels_for, operators
from pixtree.kernels.tokens.positions.definition import KERNELS
from pixtree.tokenizer.positions import Positions, resampled_table

joint_histogram = kernels_for().joint_histogram

PATCHES = (torch.arange(64)[:, None] // 16 * 4 + torch.arange(64) // 16).to(torch.int32)[None]


def test_patches_on_their_own_grid_are_one_hot():
    assert torch.equal(joint_histogram(PATCHES, 16, 4), torch.eye(16)[None])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("bins", [16, 24, 32, 48])
def test_every_histogram_sums_to_one(kernel, bins):
    labels = (torch.arange(50)[:, None] // 7 * 9 + torch.arange(63) // 7).to(torch.int32)[None]
    histogram = joint_histogram(labels, 73, bins, kernel)
    assert torch.allclose(histogram[0, :72].sum(1), torch.ones(72), atol=1e-5)
    assert bool((histogram[0, 72] == 0).all())


def test_the_hard_histogram_counts_pixels():
    labels = torch.tensor([[[0, 0, 0, 1], [0, 0, 1, 1]]], dtype=torch.int32)
    expected = torch.tensor([[0.4, 0.2, 0.4, 0.0], [0.0, 1 / 3, 0.0, 2 / 3]])
    assert torch.allclose(joint_histogram(labels, 2, 2)[0], expected)


def test_the_narrow_gaussian_keeps_most_of_a_patch_in_its_cell():
    own = joint_histogram(PATCHES, 16, 4, "gaussian", 0.2).diagonal(dim1=1, dim2=2)
    assert bool((own > 0.8).all())
    assert bool((own < 1.0).any())


@pytest.mark.parametrize("factor", [2, 3])
def test_a_resampled_table_embeds_patches_exactly_as_before(factor):
    old = Positions.from_table(torch.randn(16, 8))
    new = Positions.from_table(old.table, bins=4 * factor)
    assert torch.allclose(new(PATCHES.repeat_interleave(3, 1).repeat_interleave(3, 2), 16), old(PATCHES, 16), atol=1e-5)


def test_resampling_smooths_within_cells_and_refuses_odd_tables():
    table = torch.arange(16.0)[:, None]
    assert float(resampled_table(table, 8).var()) > 0
    assert torch.equal(resampled_table(table, 4), table)
    with pytest.raises(ValueError, match="g·g rows"):
        resampled_table(torch.zeros(17, 2), 8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_of_the_table_agree_with_finite_differences(kernel):
    labels = torch.tensor([[[0, 0, 1], [2, 1, 1]]], dtype=torch.int32)
    positions = Positions(3, 2, kernel).double()

    def embedded(table):
        return torch.func.functional_call(positions, {"table": table}, (labels, 3))

    assert torch.autograd.gradcheck(embedded, positions.table.detach().requires_grad_())


@pytest.mark.parametrize("grid", [(5, 5), (3, 7)])
def test_the_fused_embedding_is_histogram_times_table(grid):
    labels = torch.stack((PATCHES[0], PATCHES[0].T - 1))
    table = torch.randn(grid[0] * grid[1], 6, requires_grad=True)
    fused = kernels_for("numba").embed_cells(labels, 17, grid, table)
    kernels = kernels_for("torch")
    plain = (kernels.cell_counts(labels, 17, grid) / kernels.region_sizes(labels.flatten(1), 17).clamp_min(1.0)) @ table
    assert torch.allclose(fused, plain, atol=1e-6)
    weights = torch.randn_like(plain)
    found, expected = (torch.autograd.grad((one * weights).sum(), table)[0] for one in (fused, plain))
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.bfloat16
def test_positions_follow_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        assert Positions(6, 4)(PATCHES, 16).dtype == torch.bfloat16


def test_the_operator_is_well_behaved():
    opcheck(operators.embed_cells, (PATCHES, 16, 4, 4, torch.randn(16, 6, requires_grad=True)))
    opcheck(operators.cell_counts, (PATCHES, 16, 4, 4))
    opcheck(operators.cell_shares, (PATCHES, 16, 4, "gaussian", 0.3))


def test_unknown_kernels_are_refused():
    with pytest.raises(ValueError, match="hard, gaussian, hat"):
        Positions(4, kernel="box")


@pytest.mark.bfloat16
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_tables_of_low_precision_work(dtype):
    labels = torch.zeros(1, 8, 8, dtype=torch.int32)
    positions = Positions(6, 4)
    found = positions.to(dtype)(labels, 1)
    assert found.dtype == dtype
    assert torch.allclose(found.float(), positions.table.float().mean(0).expand(1, 1, 6), atol=2e-2)
