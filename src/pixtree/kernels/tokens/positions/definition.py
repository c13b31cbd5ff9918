"""Positions of the pixels of a region, as histograms over cells. [Section *Positional Embedding*, `tab:kernelpos`]"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.tokens.segments.definition import region_sizes

KERNELS = ("hard", "gaussian", "hat")


class Bins(NamedTuple):
    """Which bins each coordinate falls into, and how much: (size, taps) int64 and float32; weights of a row add up to 1."""

    cell: Tensor
    weight: Tensor


def axis_bins(size: int, bins: int, kernel: str = "hard", bandwidth: float = 0.3, device: torch.device | None = None) -> Bins:
    """Bins of the coordinates 0..size − 1 of one axis.

    hard: the one bin i·p // size. hat: linear between the two nearest bin centres. gaussian: exp(−d²/2σ²), d in bins,
    σ = `bandwidth`, cut at 3σ. Kernels are renormalised at the border.
    """
    if kernel not in KERNELS:
        raise ValueError(f"a kernel of positions is one of {', '.join(KERNELS)}, got {kernel!r}; choose one of these")
    coordinate = torch.arange(size, device=device)
    own = coordinate * bins // size
    if kernel == "hard":
        return Bins(own[:, None], torch.ones((size, 1), device=device))
    reach = 1 if kernel == "hat" else max(1, math.ceil(3.0 * bandwidth))
    offsets = torch.arange(-reach, reach + 1, device=device)
    index = own[:, None] + offsets
    distance = (coordinate + 0.5)[:, None] * bins / size - (index + 0.5)
    weight = (1.0 - distance.abs()).clamp_min(0.0) if kernel == "hat" else torch.exp(-0.5 * (distance / bandwidth) ** 2)
    weight = weight.masked_fill((index < 0) | (index >= bins), 0.0)
    return Bins(index.clamp(0, bins - 1), (weight / weight.sum(dim=1, keepdim=True)).to(torch.float32))


def joint_histogram(labels: Tensor, count: int, bins: int, kernel: str = "hard", bandwidth: float = 0.3) -> Tensor:
    """P(S) (B, N, p·p) float32 of labels (B, H, W): the share of each region's pixels in each cell; sums to 1, or 0 if empty.

    Exactly one-hot for square patches on their own grid with the hard kernel. O(pixels · taps²).
    """
    batch, height, width = labels.shape
    sizes = region_sizes(labels.flatten(1), count).clamp_min(1.0)
    rows = axis_bins(height, bins, kernel, bandwidth, labels.device)
    columns = axis_bins(width, bins, kernel, bandwidth, labels.device)
    start = torch.arange(batch, device=labels.device)[:, None, None] * (count + 1)
    region = (torch.where(labels < 0, count, labels) + start) * (bins * bins)
    total = torch.zeros(batch * (count + 1) * bins * bins, device=labels.device)
    for i in range(rows.cell.shape[1]):
        for j in range(columns.cell.shape[1]):
            cell = rows.cell[:, i, None] * bins + columns.cell[:, j]
            share = (rows.weight[:, i, None] * columns.weight[:, j]).expand(batch, -1, -1)
            total.scatter_add_(0, (region + cell).flatten(), share.flatten())
    return total.view(batch, count + 1, bins * bins)[:, :count] / sizes


def cell_counts(labels: Tensor, count: int, grid: tuple[int, int]) -> Tensor:
    """Pixels of each region of labels (B, H, W) per cell of a grid of rows × columns, (B, N, rows·columns) float32."""
    batch, height, width = labels.shape
    rows, columns = (axis_bins(size, bins, device=labels.device).cell[:, 0] for size, bins in ((height, grid[0]), (width, grid[1])))
    cells = grid[0] * grid[1]
    index = (torch.where(labels < 0, count, labels) * cells + rows[:, None] * grid[1] + columns).flatten(1)
    total = index.new_zeros((batch, (count + 1) * cells)).scatter_add(1, index, torch.ones_like(index))
    return total.view(batch, count + 1, cells)[:, :count].to(torch.float32)


def embed_cells(labels: Tensor, count: int, grid: tuple[int, int], table: Tensor) -> Tensor:
    """Means (B, N, D) of a table (rows·columns, D) over the pixels of each region of labels (B, H, W), by their cells."""
    sizes = region_sizes(labels.flatten(1), count).clamp_min(1.0)
    return (cell_counts(labels, count, grid) / sizes).to(table.dtype) @ table
