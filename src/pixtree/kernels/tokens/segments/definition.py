"""Sums, means, minima and boxes of regions, and the way back to pixels.

Values are planes (B, C, P) over the P pixels of each image, labels (B, P) int32 number each image's own regions (negative:
outside), so nothing crosses images. Results are (B, N, C), with N = `count`.
"""

import torch
from torch import Tensor


def region_sums(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Sums (B, N, C) of planes (B, C, P) over the regions of labels (B, P)."""
    rows = values.new_zeros((values.shape[0], count + 1, values.shape[1]))
    index = torch.where(labels < 0, count, labels).to(torch.int64)[..., None].expand(-1, -1, values.shape[1])
    return rows.scatter_add(1, index, values.transpose(1, 2))[:, :count].contiguous()


def paint(rows: Tensor, labels: Tensor) -> Tensor:
    """Planes (B, C, P) in which every pixel has its region's row of (B, N, C), 0 outside: the transpose of `region_sums`."""
    index = labels.clamp_min(0).to(torch.int64)[..., None].expand(-1, -1, rows.shape[2])
    planes = rows.gather(1, index).masked_fill(labels[..., None] < 0, 0.0)
    return planes.transpose(1, 2).contiguous()


def region_sizes(labels: Tensor, count: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Pixels per region, (B, N, 1); 0 for regions without pixels."""
    index = torch.where(labels < 0, count, labels).to(torch.int64)
    sizes = index.new_zeros((labels.shape[0], count + 1))  # not by bincount, which asks the device for the largest label
    return sizes.scatter_add(1, index, torch.ones_like(index))[:, :count, None].to(dtype)


def region_means(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Means (B, N, C) of planes (B, C, P) over the regions of labels (B, P); 0 for regions without pixels. [`eq:aggr`]"""
    return region_sums(values, labels, count) / region_sizes(labels, count, values.dtype).clamp_min(1.0)


def region_minima(values: Tensor, labels: Tensor, count: int) -> Tensor:
    """Minima (B, N, C) of planes (B, C, P) over the regions of labels (B, P); +∞ for regions without pixels."""
    rows = values.new_full((values.shape[0], count + 1, values.shape[1]), torch.inf)
    index = torch.where(labels < 0, count, labels).to(torch.int64)[..., None].expand(-1, -1, values.shape[1])
    return rows.scatter_reduce(1, index, values.transpose(1, 2), "amin")[:, :count]


def region_boxes(labels: Tensor, count: int) -> Tensor:
    """Bounding boxes (B, N, 4) int32 of labels (B, H, W): top, left, bottom, right (exclusive); 0 for regions without pixels."""
    batch, height, width = labels.shape
    rows = torch.arange(height, device=labels.device, dtype=torch.float32).repeat_interleave(width)
    columns = torch.arange(width, device=labels.device, dtype=torch.float32).repeat(height)
    corners = torch.stack((rows, columns, -rows - 1, -columns - 1)).expand(batch, -1, -1)
    least = region_minima(corners, labels.flatten(1), count)
    return torch.where(least.isinf(), 0, torch.cat((least[..., :2], -least[..., 2:]), dim=-1)).to(torch.int32)
