"""Positions: where the pixels of a region lie, as a joint histogram at p×p. [Section *Positional Embedding*, `tab:kernelpos`]"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import Tensor, nn

from pixtree.kernels.segments import region_sizes
from pixtree.runtime.jit import kernel as compiled
from pixtree.runtime.jit import tolerant
from pixtree.runtime.threads import each

Array = NDArray[Any]

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
    if kernel == "hard" and labels.device.type == "cpu":
        return _counted(labels.contiguous(), count, bins).div_(sizes)
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


def _counted(labels: Tensor, count: int, bins: int) -> Tensor:
    """Pixels of each region per cell, (B, N, p·p) float32, on the CPU."""
    batch, height, width = labels.shape
    row, column = (axis_bins(size, bins).cell[:, 0].numpy() for size in (height, width))
    histogram = torch.zeros((batch, count, bins * bins))
    each(lambda image: count_cells(labels[image].numpy(), row, column, bins, histogram[image].numpy()), range(batch))
    return histogram


@compiled
def count_cells(labels: Array, row: Array, column: Array, bins: int, histogram: Array) -> None:
    """histogram[n, cell] += 1 for every pixel of region n."""
    for y in range(labels.shape[0]):
        for x in range(labels.shape[1]):
            if labels[y, x] >= 0:
                histogram[labels[y, x], row[y] * bins + column[x]] += 1


@torch.library.custom_op("pixtree::embed_cells", mutates_args=(), device_types="cpu")
def embed_cells(labels: Tensor, count: int, row: Tensor, column: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """Means (B, N, D) of table[row[y] + column[x]] over the pixels (y, x) of each region, and their histograms (B, N, cells).

    labels: (B, H, W). row, column: (H,) and (W,) int64. table: (cells, D), the only one with a gradient. As regions touch few
    cells, this is far cheaper than the product of histogram and table.
    """
    shape = (labels.shape[0], count)
    rows, histogram = table.new_zeros((*shape, table.shape[1])), torch.zeros((*shape, table.shape[0]))
    numbers, values = labels.contiguous(), table.detach().contiguous().numpy()
    cells = row.numpy(), column.numpy()

    def of_image(image: int) -> None:
        mean_cells(numbers[image].numpy(), *cells, values, histogram[image].numpy(), rows[image].numpy())

    each(of_image, range(len(labels)))
    return rows, histogram


@torch.library.custom_op("pixtree::embed_cells_backward", mutates_args=(), device_types="cpu")
def embed_cells_backward(gradient: Tensor, histogram: Tensor) -> Tensor:
    """The gradient of the table, (cells, D)."""
    total = gradient.new_zeros((histogram.shape[2], gradient.shape[2]))
    add_cells(histogram.flatten(0, 1).numpy(), gradient.detach().flatten(0, 1).contiguous().numpy(), total.numpy())
    return total


@embed_cells.register_fake
def _(labels: Tensor, count: int, row: Tensor, column: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    shape = (labels.shape[0], count)
    return table.new_empty((*shape, table.shape[1])), table.new_empty((*shape, table.shape[0]), dtype=torch.float32)


@embed_cells_backward.register_fake
def _(gradient: Tensor, histogram: Tensor) -> Tensor:
    return gradient.new_empty((histogram.shape[2], gradient.shape[2]))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return None, None, None, None, embed_cells_backward(gradient, ctx.saved_tensors[0])


embed_cells.register_autograd(_backward, setup_context=_keep)


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


def embedded_on_grid(labels: Tensor, count: int, grid: tuple[int, int], table: Tensor) -> Tensor:
    """Means (B, N, D) of a table (rows·columns, D) over the pixels of each region of labels (B, H, W), on the CPU; hard bins."""
    row, column = (axis_bins(int(size), bins).cell[:, 0] for size, bins in zip(labels.shape[1:], grid, strict=True))
    means: Tensor = embed_cells(labels, count, row * grid[1], column, table)[0]
    return means


def resampled_table(table: Tensor, bins: int) -> Tensor:
    """A trained table (g·g, D) for another resolution, (p·p, D), such that coarse cells keep their embeddings in the mean.

    u + up(old − mean(u)), u the bicubic interpolation: at p = k·g the mean over each old cell's new cells is exactly the old
    embedding, so a patch on the old grid embeds as before. At other ratios the same correction holds to first order.
    """
    side = math.isqrt(table.shape[0])
    if side * side != table.shape[0]:
        raise ValueError(f"a table of positions has g·g rows, got {table.shape[0]}; leave out the rows of prefix tokens")
    if side == bins:
        return table.clone()
    grid = table.T.reshape(1, -1, side, side).to(torch.float32)
    smooth = functional.interpolate(grid, size=(bins, bins), mode="bicubic", align_corners=False)
    missing = grid - functional.adaptive_avg_pool2d(smooth, (side, side))
    smooth = smooth + functional.interpolate(missing, size=(bins, bins), mode="nearest")
    return smooth.reshape(-1, bins * bins).T.to(table.dtype)


def is_fused(labels: Tensor, table: Tensor) -> bool:
    """Whether `embedded_on_grid` serves: on the CPU, in float32 or float64."""
    full = table.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")
    return labels.device.type == "cpu" and full


class Positions(nn.Module):
    """Embeddings of positions: P(S) times a table (p·p, D)."""

    def __init__(self, width: int, bins: int = 16, kernel: str = "hard", bandwidth: float = 0.3) -> None:
        super().__init__()
        if bins < 1 or not bandwidth > 0:
            raise ValueError(
                f"positions need at least 1 bin and a bandwidth above 0, got {bins} and {bandwidth}; 16 and 0.3 are usual"
            )
        axis_bins(1, 1, kernel, bandwidth)
        self.bins, self.kernel, self.bandwidth = bins, kernel, bandwidth
        self.table = nn.Parameter(torch.randn(bins * bins, width) * 0.02)

    def forward(self, labels: Tensor, count: int) -> Tensor:
        """Embeddings (B, N, D) of the regions of labels (B, H, W)."""
        if self.kernel == "hard" and is_fused(labels, self.table):
            return embedded_on_grid(labels, count, (self.bins, self.bins), self.table)
        return joint_histogram(labels, count, self.bins, self.kernel, self.bandwidth).to(self.table.dtype) @ self.table

    @classmethod
    def from_table(cls, table: Tensor, bins: int | None = None, kernel: str = "hard", bandwidth: float = 0.3) -> "Positions":
        """Positions that continue a trained table (g·g, D), resampled to `bins` if that is given."""
        weights = table.detach() if bins is None else resampled_table(table.detach(), bins)
        positions = cls(table.shape[1], math.isqrt(weights.shape[0]), kernel, bandwidth)
        with torch.no_grad():
            positions.table.copy_(weights)
        return positions
