"""Sums, means and boxes of regions in numba, one thread per image; gradients are with the operators."""

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.tokens.segments import definition
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
def paint_rows(rows: Array, labels: Array, planes: Array) -> None:
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


def batch_sums(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Implementation of the operator `region_sums`."""
    planes, numbers = values.detach().contiguous(), labels.contiguous()
    # Sums over many pixels need more digits than the pixels have.
    sums = torch.zeros((values.shape[0], count, values.shape[1]), dtype=torch.float64)

    def of_image(image: int) -> None:
        add_planes(planes[image].numpy(), numbers[image].numpy(), sums[image].numpy())

    each(of_image, range(values.shape[0]))
    return sums.to(values.dtype)


def batch_paint(rows: Tensor, labels: Tensor) -> Tensor:
    """Implementation of the operator `paint`."""
    table, numbers = rows.detach().contiguous(), labels.contiguous()
    planes = rows.new_empty((rows.shape[0], rows.shape[2], labels.shape[1]))

    def of_image(image: int) -> None:
        paint_rows(table[image].numpy(), numbers[image].numpy(), planes[image].numpy())

    each(of_image, range(rows.shape[0]))
    return planes


def batch_means(values: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Implementation of the operator `means_and_sizes`."""
    planes, numbers = values.detach().contiguous(), labels.contiguous()
    batch, channels = values.shape[:2]
    sums, sizes = torch.zeros((batch, count, channels), dtype=torch.float64), torch.zeros((batch, count), dtype=torch.int64)
    means = values.new_empty((batch, count, channels))

    def of_image(image: int) -> None:
        mean_planes(*(one[image].numpy() for one in (planes, numbers, sums, sizes, means)))

    each(of_image, range(batch))
    return means, sizes[..., None].to(values.dtype)


def batch_sizes(labels: Tensor, count: int) -> Tensor:
    """Implementation of the operator `region_sizes`, (B, N) int64."""
    numbers, found = labels.contiguous(), torch.zeros((labels.shape[0], count), dtype=torch.int64)
    each(lambda image: count_pixels(numbers[image].numpy(), found[image].numpy()), range(labels.shape[0]))
    return found


def batch_boxes(labels: Tensor, count: int) -> Tensor:
    """Implementation of the operator `region_boxes`."""
    batch, height, width = labels.shape
    boxes = torch.tensor([height, width, 0, 0], dtype=torch.int32).repeat(batch, count, 1)
    numbers = labels.contiguous()
    each(lambda image: grow_boxes(numbers[image].numpy(), boxes[image].numpy()), range(batch))
    return boxes.masked_fill((boxes[..., 2:3] <= boxes[..., :1]), 0)


def region_sums(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Sums (B, N, C) of planes (B, C, P) over the regions of labels (B, P), N = `count`."""
    sums: Tensor = (operators.region_sums if operators.in_full_precision(values) else definition.region_sums)(values, labels, count)
    return sums


def paint(rows: Tensor, labels: Tensor) -> Tensor:
    """Planes (B, C, P) in which every pixel has its region's row of (B, N, C), 0 outside."""
    planes: Tensor = (operators.paint if operators.in_full_precision(rows) else definition.paint)(rows, labels)
    return planes


def region_means(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Means (B, N, C) of planes (B, C, P) over the regions of labels (B, P); 0 for regions without pixels. [`eq:aggr`]"""
    if not operators.in_full_precision(values):
        return definition.region_means(values, labels, count)
    means: Tensor = operators.means_and_sizes(values, labels, count)[0]
    return means


def region_sizes(labels: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pixels per region, (B, N, 1); 0 for regions without pixels."""
    sizes: Tensor = operators.region_sizes(labels, count)
    return sizes[..., None].to(dtype)


def region_boxes(labels: Tensor, count: int) -> Tensor:
    """Bounding boxes (B, N, 4) int32 of labels (B, H, W): top, left, bottom, right (exclusive); 0 for regions without pixels."""
    boxes: Tensor = operators.region_boxes(labels, count)
    return boxes
