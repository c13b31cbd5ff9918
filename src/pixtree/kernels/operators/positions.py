"""Counts and embeddings of cells as operators; only the table has a gradient."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("pixtree::cell_counts", mutates_args=(), device_types="cpu")
def cell_counts(labels: Tensor, count: int, rows: int, columns: int) -> Tensor:
    """Pixels of each region of labels (B, H, W) per cell of a grid, (B, N, rows·columns) float32."""
    from pixtree.kernels.compiled.positions import count_batch

    return count_batch(labels, count, rows, columns)


@torch.library.custom_op("pixtree::embed_cells", mutates_args=(), device_types="cpu")
def embed_cells(labels: Tensor, count: int, rows: int, columns: int, table: Tensor) -> tuple[Tensor, Tensor]:
    """Means (B, N, D) of a table (rows·columns, D) over the pixels of each region, and their histograms (B, N, rows·columns)."""
    from pixtree.kernels.compiled.positions import embed_batch

    return embed_batch(labels, count, rows, columns, table)


@torch.library.custom_op("pixtree::embed_cells_backward", mutates_args=(), device_types="cpu")
def embed_cells_backward(gradient: Tensor, histogram: Tensor) -> Tensor:
    """The gradient of the table, (cells, D)."""
    from pixtree.kernels.compiled.positions import pull_cells

    return pull_cells(gradient, histogram)


@cell_counts.register_fake
def _(labels: Tensor, count: int, rows: int, columns: int) -> Tensor:
    return labels.new_empty((labels.shape[0], count, rows * columns), dtype=torch.float32)


@embed_cells.register_fake
def _(labels: Tensor, count: int, rows: int, columns: int, table: Tensor) -> tuple[Tensor, Tensor]:
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
