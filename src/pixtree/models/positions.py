"""Positions of a retrofit: the table of a patch model on the grid of patches that an image has."""

import math

import torch
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.models.timm_import import timm
from pixtree.tokenizer.positions import PositionOptions, Positions
from pixtree.tokenizer.sampling import padded_labels

Grid = tuple[int, int]


def on_grid(values: Tensor, labels: Tensor, patch: int, backend: str = "auto") -> Tensor:
    """Per-region values (B, N, D) averaged over the pixels of each patch of labels (B, H, W), (B, D, rows, columns)."""
    grid = patch_grid(labels, patch)
    counts = kernels_for(backend, labels.device).cell_counts(padded_labels(labels, patch), values.shape[1], grid).to(values.dtype)
    shares = counts / counts.sum(dim=1, keepdim=True).clamp_min(1.0)
    return (values.transpose(1, 2) @ shares).reshape(values.shape[0], values.shape[2], *grid)


def places(labels: Tensor, count: int, patch: int, backend: str = "auto") -> Tensor:
    """Mean row and column of the pixels of each region of labels (B, H, W), in patches, (B, N, 2) float32.

    Patch i has coordinate i. Where the border cuts off a patch, its pixels are spread over the whole of it, as its embedding is.
    """
    batch, height, width = labels.shape
    rows, columns = (_axis(int(size), patch, labels.device) for size in (height, width))
    planes = torch.stack((rows[:, None].expand(height, width), columns.expand(height, width))).flatten(1)
    return kernels_for(backend, labels.device).region_means(planes.expand(batch, -1, -1), labels.flatten(1), count)


def _axis(size: int, patch: int, device: torch.device) -> Tensor:
    """The pixels of one axis in patches, (size,) float32."""
    pixel = torch.arange(size, dtype=torch.float32, device=device)
    start = torch.floor(pixel / patch) * patch
    return start / patch + (pixel - start + 0.5) / (size - start).clamp_max(float(patch)) - 0.5


class PatchPositions(Positions):
    """A patch model's own table (rows·columns, D), resampled to an image's grid of patches as timm does it.

    A region's embedding is the mean over its pixels of their patches' embeddings, pixel (y, x) being in patch (y // q, x // q): for
    square patches exactly the patch model's, at any image size. grid: rows and columns of the table. patch: q, its side in pixels.
    """

    def __init__(self, table: Tensor, grid: Grid, patch: int, backend: str = "auto") -> None:
        super().__init__(table.shape[1], 1, backend=backend)
        self.table = nn.Parameter(table.detach().clone())
        self.grid, self.patch = grid, patch

    def forward(self, labels: Tensor, count: int) -> Tensor:
        """Embeddings (B, N, D) of the regions of labels (B, H, W)."""
        grid = patch_grid(labels, self.patch)
        table = resampled(self.table, self.grid, grid)
        return kernels_for(self.backend, labels.device).embed_cells(padded_labels(labels, self.patch), count, grid, table)


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
    table: Tensor, grid: Grid, patch: int, resolution: int | None, options: PositionOptions, backend: str = "auto"
) -> Positions:
    """Positions that continue a patch model's table (rows·columns, D).

    resolution: None follows the patches of each image; p is a table of p×p cells over whatever image comes, such that coarse
    cells keep their embeddings in the mean, see `resampled_table`.
    """
    if resolution is None and options.position_kernel == "hard":
        return PatchPositions(table, grid, patch, backend)
    side = max(grid)
    square = resampled(table.detach(), grid, (side, side))
    return Positions.from_table(square, resolution or side, options.position_kernel, options.bandwidth, backend)
