"""Positions of the pixels of a region, counted in numba; a region touches few cells, so its product with a table is a short sum."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.tokens.positions import definition
from pixtree.kernels.tokens.positions.definition import axis_bins
from pixtree.kernels.tokens.segments.compiled import region_sizes
from pixtree.runtime.jit import kernel, tolerant
from pixtree.runtime.threads import each

Array = NDArray[Any]


def joint_histogram(labels: Tensor, count: int, bins: int, kernel: str = "hard", bandwidth: float = 0.3) -> Tensor:
    """P(S) (B, N, p·p) float32 of labels (B, H, W); see the definition."""
    sizes = region_sizes(labels.flatten(1), count).clamp_min(1.0)
    if kernel == "hard":
        return cell_counts(labels, count, (bins, bins)) / sizes
    shares: Tensor = operators.cell_shares(labels, count, bins, kernel, bandwidth)
    return shares / sizes


def cell_counts(labels: Tensor, count: int, grid: tuple[int, int]) -> Tensor:
    """Pixels of each region of labels (B, H, W) per cell of a grid of rows × columns, (B, N, rows·columns) float32."""
    counts: Tensor = operators.cell_counts(labels, count, *grid)
    return counts


def embed_cells(labels: Tensor, count: int, grid: tuple[int, int], table: Tensor) -> Tensor:
    """Means (B, N, D) of a table (rows·columns, D) over the pixels of each region of labels (B, H, W), by their cells."""
    if torch.is_autocast_enabled("cpu") or not operators.in_full_precision(table):
        return definition.embed_cells(labels, count, grid, table)
    means: Tensor = operators.embed_cells(labels, count, *grid, table)[0]
    return means


def _cells(labels: Tensor, rows: int, columns: int) -> tuple[Array, Array]:
    """The row and the column of cells that each row and each column of pixels falls into."""
    found = (axis_bins(int(size), bins).cell[:, 0].numpy() for size, bins in zip(labels.shape[1:], (rows, columns), strict=True))
    down, along = found
    return down, along


def count_batch(labels: Tensor, count: int, rows: int, columns: int) -> Tensor:
    """Implementation of the operator `cell_counts`."""
    numbers, counts = labels.contiguous(), torch.zeros((labels.shape[0], count, rows * columns))
    cells = _cells(labels, rows, columns)
    each(lambda image: count_cells(numbers[image].numpy(), *cells, columns, counts[image].numpy()), range(len(labels)))
    return counts


def share_batch(labels: Tensor, count: int, bins: int, kernel: str, bandwidth: float) -> Tensor:
    """Implementation of the operator `cell_shares`."""
    numbers, shares = labels.contiguous(), torch.zeros((labels.shape[0], count, bins * bins))
    down, along = (axis_bins(int(size), bins, kernel, bandwidth) for size in labels.shape[1:])
    taps = [one.numpy() for axis in (down, along) for one in (axis.cell, axis.weight)]
    each(lambda image: add_shares(numbers[image].numpy(), *taps, bins, shares[image].numpy()), range(len(labels)))
    return shares


def embed_batch(labels: Tensor, count: int, rows: int, columns: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """Implementation of the operator `embed_cells`."""
    shape = (labels.shape[0], count)
    means, histogram = table.new_zeros((*shape, table.shape[1])), torch.zeros((*shape, table.shape[0]))
    numbers, values = labels.contiguous(), table.detach().contiguous().numpy()
    down, along = _cells(labels, rows, columns)

    def of_image(image: int) -> None:
        mean_cells(numbers[image].numpy(), down * columns, along, values, histogram[image].numpy(), means[image].numpy())

    each(of_image, range(len(labels)))
    return means, histogram


def embed_batch_backward(gradient: Tensor, histogram: Tensor) -> Tensor:
    """Implementation of the operator `embed_cells_backward`."""
    total = gradient.new_zeros((histogram.shape[2], gradient.shape[2]))
    add_cells(histogram.flatten(0, 1).numpy(), gradient.detach().flatten(0, 1).contiguous().numpy(), total.numpy())
    return total


@kernel
def count_cells(labels: Array, row: Array, column: Array, bins: int, histogram: Array) -> None:
    """histogram[n, cell] += 1 for every pixel of region n."""
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            if labels[y, x] >= 0:
                histogram[labels[y, x], row[y] * bins + column[x]] += 1


@kernel
def add_shares(labels: Array, row: Array, down: Array, column: Array, along: Array, bins: int, shares: Array) -> None:
    """shares[n, cell] += weight for every cell of every pixel of region n; row and column are (size, taps), weights alike."""
    for i in range(row.shape[1]):
        for j in range(column.shape[1]):
            for y in range(labels.shape[0]):
                first, weight = row[y, i] * bins, down[y, i]
                for x in range(labels.shape[1]):
                    if labels[y, x] >= 0:
                        shares[labels[y, x], first + column[x, j]] += weight * along[x, j]


@tolerant
def mean_cells(labels: Array, row: Array, column: Array, table: Array, histogram: Array, rows: Array) -> None:
    """One image: histogram (N, cells), which starts at 0, as shares of each region's pixels; rows (N, D) += histogram · table."""
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            if labels[y, x] >= 0:
                histogram[labels[y, x], row[y] + column[x]] += 1
    for n in range(histogram.shape[0]):
        size = max(histogram[n].sum(), np.float32(1))
        for cell in range(histogram.shape[1]):
            if histogram[n, cell] > 0:
                histogram[n, cell] /= size
                share = table.dtype.type(histogram[n, cell])
                for k in range(table.shape[1]):
                    rows[n, k] += share * table[cell, k]


@tolerant
def add_cells(histogram: Array, rows: Array, table: Array) -> None:
    """table[cell] += Σ_n histogram[n, cell] rows[n]."""
    for n in range(histogram.shape[0]):
        for cell in range(histogram.shape[1]):
            if histogram[n, cell] > 0:
                share = table.dtype.type(histogram[n, cell])
                for k in range(table.shape[1]):
                    table[cell, k] += share * rows[n, k]
