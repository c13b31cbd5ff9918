"""Sums, means and boxes of regions as operators; labels have no gradient."""

from typing import Any

import torch
from torch import Tensor


@torch.library.custom_op("pixtree::region_sums", mutates_args=(), device_types="cpu")
def region_sums(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Sums (B, N, C) of planes (B, C, P) over the regions of labels (B, P), N = `count`."""
    from pixtree.kernels.compiled.segments import batch_sums

    return batch_sums(values, labels, count)


@torch.library.custom_op("pixtree::paint", mutates_args=(), device_types="cpu")
def paint(rows: Tensor, labels: Tensor) -> Tensor:
    """Planes (B, C, P) in which every pixel has its region's row of (B, N, C), 0 outside: the transpose of `region_sums`."""
    from pixtree.kernels.compiled.segments import batch_paint

    return batch_paint(rows, labels)


@torch.library.custom_op("pixtree::means_and_sizes", mutates_args=(), device_types="cpu")
def means_and_sizes(values: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Means (B, N, C) of planes (B, C, P) over the regions of labels (B, P), and the pixels of each region, (B, N, 1)."""
    from pixtree.kernels.compiled.segments import batch_means

    return batch_means(values, labels, count)


@torch.library.custom_op("pixtree::region_sizes", mutates_args=(), device_types="cpu")
def region_sizes(labels: Tensor, count: int) -> Tensor:
    """Pixels per region, (B, N) int64."""
    from pixtree.kernels.compiled.segments import batch_sizes

    return batch_sizes(labels, count)


@torch.library.custom_op("pixtree::region_boxes", mutates_args=(), device_types="cpu")
def region_boxes(labels: Tensor, count: int) -> Tensor:
    """Bounding boxes (B, N, 4) int32 of labels (B, H, W); 0 for empty rows."""
    from pixtree.kernels.compiled.segments import batch_boxes

    return batch_boxes(labels, count)


@region_sums.register_fake
def _(values: Tensor, labels: Tensor, count: int) -> Tensor:
    return values.new_empty((values.shape[0], count, values.shape[1]))


@paint.register_fake
def _(rows: Tensor, labels: Tensor) -> Tensor:
    return rows.new_empty((rows.shape[0], rows.shape[2], labels.shape[1]))


@means_and_sizes.register_fake
def _(values: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    shape = (values.shape[0], count, values.shape[1])
    return values.new_empty(shape), values.new_empty((*shape[:2], 1))


@region_sizes.register_fake
def _(labels: Tensor, count: int) -> Tensor:
    return labels.new_empty((labels.shape[0], count), dtype=torch.int64)


@region_boxes.register_fake
def _(labels: Tensor, count: int) -> Tensor:
    return labels.new_empty((labels.shape[0], count, 4), dtype=torch.int32)


def _keep_labels(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.count = inputs[0].shape[1]


def _sums_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    return paint(gradient, ctx.saved_tensors[0]), None, None


def _paint_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return region_sums(gradient, ctx.saved_tensors[0], ctx.count), None


def _keep_sizes(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[1], output[1])


def _means_backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    labels, sizes = ctx.saved_tensors
    return paint(gradient / sizes.clamp_min(1.0), labels), None, None


region_sums.register_autograd(_sums_backward, setup_context=_keep_labels)
paint.register_autograd(_paint_backward, setup_context=_keep_labels)
means_and_sizes.register_autograd(_means_backward, setup_context=_keep_sizes)
