"""Extraction in plain torch, for any device."""

from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.tokens.sample import Background, Boxes, Injected
from pixtree.kernels.tokens.segments.definition import paint


class Taps(NamedTuple):
    """Bilinear taps along one axis: two indices and the weight of the second, (B, N, q) each."""

    low: Tensor
    high: Tensor
    fraction: Tensor


def taps(start: Tensor, side: Tensor, samples: int, size: int) -> Taps:
    """Position of p_i = start + (i + ½) side/q − ½ between the pixels 0..size − 1; start and side are (B, N)."""
    step = torch.arange(samples, dtype=start.dtype, device=start.device) + 0.5
    position = (start[..., None] + step * (side[..., None] / samples) - 0.5).clamp(0.0, size - 1.0)
    low = position.to(torch.int64)
    return Taps(low, (low + 1).clamp_max(size - 1), position - low)


def extract(image: Tensor, boxes: Boxes, background: Background) -> Tensor:
    """F(S) (B, N, C, q, q) of an image x̂ (B, C, H, W) that is injected and normalised already.

    Memory O(B N C q²), no loop over regions.
    """
    (labels, frame), (mix, colour) = boxes, background
    batch, channels, height, width = image.shape
    count, samples = frame.shape[1], colour.shape[-1]
    rows = taps(frame[..., 0], frame[..., 2], samples, height)
    columns = taps(frame[..., 1], frame[..., 3], samples, width)
    region = torch.arange(count, device=labels.device)[:, None, None]
    sampled = image.new_zeros((batch, channels, count, samples, samples))
    inside = image.new_zeros((batch, count, samples, samples))
    down, along = rows.fraction.to(image.dtype), columns.fraction.to(image.dtype)
    for row, row_weight in ((rows.low, 1.0 - down), (rows.high, down)):
        for column, column_weight in ((columns.low, 1.0 - along), (columns.high, along)):
            index = (row[..., :, None] * width + column[..., None, :]).flatten(1)
            weight = row_weight[..., :, None] * column_weight[..., None, :]
            values = image.flatten(2).gather(2, index[:, None].expand(-1, channels, -1))
            sampled = sampled + weight[:, None] * values.view_as(sampled)
            inside = inside + weight * (labels.flatten(1).gather(1, index).view_as(inside) == region)
    keep, outside = inside[:, None] + mix * (1.0 - inside[:, None]), 1.0 - inside[:, None]
    tokens = keep * sampled + (1.0 - mix) * outside * colour[None, :, None]
    filled = (frame[..., 2] > 0)[:, :, None, None, None]
    return torch.where(filled, tokens.transpose(1, 2), 0.0)


def injected(image: Injected, labels: Tensor) -> Tensor:
    """x̂ (B, C, H, W): the learned colour W f* of a region takes the place of its mean colour x̄*. [`eq:mean_injection`]"""
    changed = image.pixels.flatten(2) + paint(image.change, labels.flatten(1))
    return torch.addcmul(image.shift[:, None], changed, image.scale[:, None]).view_as(image.pixels)


def sample(image: Injected, boxes: Boxes, background: Background) -> Tensor:
    """F(S) (B, N, C, q, q) of all regions."""
    return extract(injected(image, boxes.labels), boxes, background)
