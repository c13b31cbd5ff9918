"""Differentiable sums, means and minima per region of a batch.

Values are planes (B, C, P) over the P pixels of each image, labels (B, P) int32 number each image's own regions (negative:
outside), so nothing crosses images. Results are rows (B, N, C). On the CPU the sums run in numba, elsewhere in torch.
"""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.runtime.jit import kernel
from pixtree.runtime.threads import each

Array = NDArray[Any]


@kernel
def add_planes(values: Array, labels: Array, sums: Array) -> None:
    """sums[n, c] += values[c, p] over the pixels p of region n; values (C, P), sums (N, C) float64."""
    # Neighbours mostly share a region, so sums stay in registers until it changes; four channels do not wait for each other.
    channels = values.shape[0]
    for c in range(0, channels, 4):
        v0, v1 = values[c], values[min(c + 1, channels - 1)]
        v2, v3 = values[min(c + 2, channels - 1)], values[min(c + 3, channels - 1)]
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for p in range(labels.size):
            s0 += v0[p]
            s1 += v1[p]
            s2 += v2[p]
            s3 += v3[p]
            if p + 1 == labels.size or labels[p + 1] != labels[p]:
                if labels[p] >= 0:
                    for k, total in enumerate((s0, s1, s2, s3)):
                        if c + k < channels:
                            sums[labels[p], c + k] += total
                s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0


@kernel
def count_pixels(labels: Array, sizes: Array) -> None:
    """sizes[n] += 1 for every pixel of region n."""
    for p in range(labels.size):
        if labels[p] >= 0:
            sizes[labels[p]] += 1


@kernel
def mean_planes(values: Array, labels: Array, sums: Array, sizes: Array, means: Array) -> None:
    """means (N, C) of values (C, P) over the pixels of each region, 0 if it has none; sums (N, C) and sizes (N,) start at 0."""
    add_planes(values, labels, sums)
    count_pixels(labels, sizes)
    for region in range(sizes.size):
        for c in range(values.shape[0]):
            means[region, c] = sums[region, c] / max(sizes[region], 1)


@kernel
def spread_rows(rows: Array, labels: Array, planes: Array) -> None:
    """planes[c, p] = rows[label of p, c], 0 outside; rows (N, C), planes (C, P)."""
    for c in range(planes.shape[0]):
        for p in range(labels.size):
            planes[c, p] = rows[labels[p], c] if labels[p] >= 0 else 0.0


@kernel
def grow_boxes(labels: Array, boxes: Array) -> None:
    """boxes (N, 4) int32 grow to hold the pixels of their regions; labels (H, W)."""
    height, width = labels.shape
    for y in range(height):
        start = 0
        for x in range(width):
            region = labels[y, x]
            if x + 1 < width and labels[y, x + 1] == region:
                continue  # rows of one region count at their end
            if region >= 0:
                boxes[region, 0] = min(boxes[region, 0], y)
                boxes[region, 1] = min(boxes[region, 1], start)
                boxes[region, 2] = max(boxes[region, 2], y + 1)
                boxes[region, 3] = max(boxes[region, 3], x + 1)
            start = x + 1


@torch.library.custom_op("pixtree::region_sums", mutates_args=())
def region_sums(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Sums (B, N, C) of planes (B, C, P) over the regions of labels (B, P), N = `count`."""
    rows = values.new_zeros((values.shape[0], count + 1, values.shape[1]))
    index = torch.where(labels < 0, count, labels).to(torch.int64)[..., None].expand(-1, -1, values.shape[1])
    return rows.scatter_add_(1, index, values.transpose(1, 2))[:, :count].contiguous()


@torch.library.custom_op("pixtree::paint", mutates_args=())
def paint(rows: Tensor, labels: Tensor) -> Tensor:
    """Planes (B, C, P) in which every pixel has its region's row of (B, N, C), 0 outside: the transpose of `region_sums`."""
    index = labels.clamp_min(0).to(torch.int64)[..., None].expand(-1, -1, rows.shape[2])
    planes = rows.gather(1, index).masked_fill(labels[..., None] < 0, 0.0)
    return planes.transpose(1, 2).contiguous()


@region_sums.register_kernel("cpu")
def _sums_on_cpu(values: Tensor, labels: Tensor, count: int) -> Tensor:
    planes, numbers = values.detach().contiguous(), labels.contiguous()
    # Sums over many pixels need more digits than the pixels have.
    sums = torch.zeros((values.shape[0], count, values.shape[1]), dtype=torch.float64)

    def of_image(image: int) -> None:
        add_planes(planes[image].numpy(), numbers[image].numpy(), sums[image].numpy())

    each(of_image, range(values.shape[0]))
    return sums.to(values.dtype)


@paint.register_kernel("cpu")
def _paint_on_cpu(rows: Tensor, labels: Tensor) -> Tensor:
    table, numbers = rows.detach().contiguous(), labels.contiguous()
    planes = rows.new_empty((rows.shape[0], rows.shape[2], labels.shape[1]))

    def of_image(image: int) -> None:
        spread_rows(table[image].numpy(), numbers[image].numpy(), planes[image].numpy())

    each(of_image, range(rows.shape[0]))
    return planes


@region_sums.register_fake
def _(values: Tensor, labels: Tensor, count: int) -> Tensor:
    return values.new_empty((values.shape[0], count, values.shape[1]))


@paint.register_fake
def _(rows: Tensor, labels: Tensor) -> Tensor:
    return rows.new_empty((rows.shape[0], rows.shape[2], labels.shape[1]))


def _keep_labels(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[1])
    ctx.count = inputs[0].shape[1]


def _sums_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
    return paint(gradient, ctx.saved_tensors[0]), None, None


def _paint_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return region_sums(gradient, ctx.saved_tensors[0], ctx.count), None


region_sums.register_autograd(_sums_backward, setup_context=_keep_labels)
paint.register_autograd(_paint_backward, setup_context=_keep_labels)


def region_sizes(labels: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pixels per region, (B, N, 1); 0 for rows that no pixel has."""
    batch = labels.shape[0]
    if labels.device.type == "cpu":
        numbers, found = labels.contiguous(), torch.zeros((batch, count), dtype=torch.int64)
        each(lambda image: count_pixels(numbers[image].numpy(), found[image].numpy()), range(batch))
        return found[..., None].to(dtype)
    row = torch.arange(batch, device=labels.device)[:, None] * (count + 1)
    index = torch.where(labels < 0, count, labels) + row
    sizes = torch.bincount(index.flatten(), minlength=batch * (count + 1)).view(batch, count + 1)
    return sizes[:, :count, None].to(dtype)


def region_means(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Means (B, N, C) of planes (B, C, P) over the regions of labels (B, P); 0 for rows that no pixel has. [`eq:aggr`]"""
    means: Tensor = means_and_sizes(values, labels, count)[0]
    return means


@torch.library.custom_op("pixtree::means_and_sizes", mutates_args=())
def means_and_sizes(values: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`region_means` (B, N, C), and the pixels of each region as `region_sizes` has them, (B, N, 1)."""
    sizes = region_sizes(labels, count, values.dtype)
    return region_sums(values, labels, count) / sizes.clamp_min(1.0), sizes


@means_and_sizes.register_kernel("cpu")
def _means_on_cpu(values: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    planes, numbers = values.detach().contiguous(), labels.contiguous()
    batch, channels = values.shape[:2]
    sums, sizes = torch.zeros((batch, count, channels), dtype=torch.float64), torch.zeros((batch, count), dtype=torch.int64)
    means = values.new_empty((batch, count, channels))

    def of_image(image: int) -> None:
        mean_planes(*(one[image].numpy() for one in (planes, numbers, sums, sizes, means)))

    each(of_image, range(batch))
    return means, sizes[..., None].to(values.dtype)


@means_and_sizes.register_fake
def _(values: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    shape = (values.shape[0], count, values.shape[1])
    return values.new_empty(shape), values.new_empty((*shape[:2], 1))


def _keep_sizes(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(inputs[1], output[1])


def _means_backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor, None, None]:
    labels, sizes = ctx.saved_tensors
    return paint(gradient / sizes.clamp_min(1.0), labels), None, None


means_and_sizes.register_autograd(_means_backward, setup_context=_keep_sizes)


def region_minima(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Minima (B, N, C) of planes (B, C, P) over the regions of labels (B, P); +∞ for rows that no pixel has."""
    rows = values.new_full((values.shape[0], count + 1, values.shape[1]), torch.inf)
    index = torch.where(labels < 0, count, labels).to(torch.int64)[..., None].expand(-1, -1, values.shape[1])
    return rows.scatter_reduce(1, index, values.transpose(1, 2), "amin")[:, :count]


def region_boxes(labels: Tensor, count: int) -> Tensor:
    """Bounding boxes (B, N, 4) int32 of labels (B, H, W): top, left, bottom, right, the last two exclusive; 0 for empty rows."""
    batch, height, width = labels.shape
    if labels.device.type == "cpu":
        boxes = torch.tensor([height, width, 0, 0], dtype=torch.int32).repeat(batch, count, 1)
        numbers = labels.contiguous()
        each(lambda image: grow_boxes(numbers[image].numpy(), boxes[image].numpy()), range(batch))
    else:
        rows = torch.arange(height, device=labels.device, dtype=torch.float32).repeat_interleave(width)
        columns = torch.arange(width, device=labels.device, dtype=torch.float32).repeat(height)
        corners = torch.stack((rows, columns, -rows - 1, -columns - 1)).expand(batch, -1, -1)
        least = region_minima(corners, labels.flatten(1), count)
        boxes = torch.where(least.isinf(), 0, torch.cat((least[..., :2], -least[..., 2:]), dim=-1)).to(torch.int32)
    return boxes.masked_fill((boxes[..., 2:3] <= boxes[..., :1]), 0)


__all__ = ["paint", "region_boxes", "region_means", "region_minima", "region_sizes", "region_sums"]
