"""Positions of a retrofit: the table of a patch model on the grid of patches that an image has."""

import math

import torch
from torch import Tensor, nn

from pixtree.kernels.segments import region_means, region_sizes
from pixtree.models.timm_import import timm
from pixtree.runtime.threads import each
from pixtree.tokenizer.positions import Positions, axis_bins, count_cells, embedded_on_grid, is_fused

Grid = tuple[int, int]


def cell_counts(labels: Tensor, count: int, grid: Grid) -> Tensor:
    """Pixels of each region of labels (B, H, W) per cell of a grid, (B, N, rows·columns) float32."""
    batch, height, width = labels.shape
    rows, columns = (axis_bins(size, bins, device=labels.device).cell[:, 0] for size, bins in ((height, grid[0]), (width, grid[1])))
    cells = grid[0] * grid[1]
    if labels.device.type == "cpu":
        counts, numbers = torch.zeros((batch, count, cells)), labels.contiguous()
        row, column = rows.numpy(), columns.numpy()
        each(lambda image: count_cells(numbers[image].numpy(), row, column, grid[1], counts[image].numpy()), range(batch))
        return counts
    start = torch.arange(batch, device=labels.device)[:, None, None] * (count + 1)
    index = (torch.where(labels < 0, count, labels) + start) * cells + rows[:, None] * grid[1] + columns
    total = torch.bincount(index.flatten(), minlength=batch * (count + 1) * cells)
    return total.view(batch, count + 1, cells)[:, :count].to(torch.float32)


def on_grid(values: Tensor, labels: Tensor, grid: Grid) -> Tensor:
    """Per-region values (B, N, D) averaged over the pixels of each cell of a grid, (B, D, rows, columns)."""
    counts = cell_counts(labels, values.shape[1], grid).to(values.dtype)
    shares = counts / counts.sum(dim=1, keepdim=True).clamp_min(1.0)
    return (values.transpose(1, 2) @ shares).reshape(values.shape[0], values.shape[2], *grid)


def centroids(labels: Tensor, count: int) -> Tensor:
    """Mean row and column of the pixels of each region of labels (B, H, W), (B, N, 2) float32."""
    batch, height, width = labels.shape
    rows = torch.arange(height, dtype=torch.float32, device=labels.device).repeat_interleave(width)
    columns = torch.arange(width, dtype=torch.float32, device=labels.device).repeat(height)
    planes = torch.stack((rows, columns)).expand(batch, -1, -1)
    return region_means(planes, labels.flatten(1), count)


class PatchPositions(Positions):
    """A patch model's own table (rows·columns, D), resampled to an image's grid of patches as timm does it.

    A region's embedding is the mean over its pixels of their cells' embeddings: exactly the patch model's for square patches,
    at any image size. grid: rows and columns of the table. patch: side of a patch in pixels.
    """

    def __init__(self, table: Tensor, grid: Grid, patch: int) -> None:
        super().__init__(table.shape[1], 1)
        self.table = nn.Parameter(table.detach().clone())
        self.grid, self.patch = grid, patch

    def forward(self, labels: Tensor, count: int) -> Tensor:
        """Embeddings (B, N, D) of the regions of labels (B, H, W)."""
        grid = patch_grid(labels, self.patch)
        table = resampled(self.table, self.grid, grid)
        if is_fused(labels, table):
            return embedded_on_grid(labels, count, grid, table)
        sizes = region_sizes(labels.flatten(1), count).clamp_min(1.0)
        return (cell_counts(labels, count, grid) / sizes).to(table.dtype) @ table


def patch_grid(labels: Tensor, patch: int) -> Grid:
    """Rows and columns of the patches that cover labels (B, H, W)."""
    return math.ceil(labels.shape[1] / patch), math.ceil(labels.shape[2] / patch)


def resampled(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """A table (rows·columns, D) for another grid, by timm's own interpolation."""
    if old == new:
        return table
    other: Tensor = timm.layers.resample_abs_pos_embed(table[None], new, old, num_prefix_tokens=0)[0]
    return other


def positions_of(
    table: Tensor, grid: Grid, patch: int, resolution: int | None = None, kernel: str = "hard", bandwidth: float = 0.3
) -> Positions:
    """Positions that continue a patch model's table (rows·columns, D).

    resolution: None follows the patches of each image; p is a table of p×p cells over whatever image comes, such that coarse
    cells keep their embeddings in the mean, see `resampled_table`.
    """
    if resolution is None and kernel == "hard":
        return PatchPositions(table, grid, patch)
    side = max(grid)
    square = resampled(table.detach(), grid, (side, side))
    return Positions.from_table(square, resolution or side, kernel, bandwidth)
