"""Extraction: every region's bounding box becomes q×q samples, its background dimmed. [`alg:features`]

F(S) = (M⁺ + λM⁻) ⊙ x̂(S) + (1 − λ) M⁻ ⊙ β, with M⁺ the bilinear sample of "is in S" and M⁻ = 1 − M⁺.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.reference.segments import paint


class Taps(NamedTuple):
    """Bilinear taps along one axis: two indices and the weight of the second, (B, N, q) each."""

    low: Tensor
    high: Tensor
    fraction: Tensor


def taps(start: Tensor, side: Tensor, samples: int, size: int) -> Taps:
    """Where p_i = start + (i + ½) side/q − ½ lies between pixels 0..size − 1; start and side are (B, N)."""
    step = torch.arange(samples, dtype=start.dtype, device=start.device) + 0.5
    position = (start[..., None] + step * (side[..., None] / samples) - 0.5).clamp(0.0, size - 1.0)
    low = position.to(torch.int64)
    return Taps(low, (low + 1).clamp_max(size - 1), position - low)


def extract(image: Tensor, labels: Tensor, frame: Tensor, mix: Tensor, background: Tensor) -> Tensor:
    """F(S) of all regions in plain torch, (B, N, C, q, q); without mean injection.

    image: x̂ (B, C, H, W). labels: (B, H, W). frame: (B, N, 4) as top, left, height, width; rows with an empty frame give zeros.
    mix: λ, a scalar. background: β (C, q, q). Memory O(B N C q²), no loop over regions.
    """
    batch, channels, height, width = image.shape
    count, samples = frame.shape[1], background.shape[-1]
    rows = taps(frame[..., 0], frame[..., 2], samples, height)
    columns = taps(frame[..., 1], frame[..., 3], samples, width)
    region = torch.arange(count, device=labels.device)[:, None, None]
    sampled = image.new_zeros((batch, channels, count, samples, samples))
    inside = image.new_zeros((batch, count, samples, samples))
    for row, row_weight in ((rows.low, 1.0 - rows.fraction), (rows.high, rows.fraction)):
        for column, column_weight in ((columns.low, 1.0 - columns.fraction), (columns.high, columns.fraction)):
            index = (row[..., :, None] * width + column[..., None, :]).flatten(1)
            weight = (row_weight[..., :, None] * column_weight[..., None, :]).to(image.dtype)
            values = image.flatten(2).gather(2, index[:, None].expand(-1, channels, -1))
            sampled = sampled + weight[:, None] * values.view_as(sampled)
            inside = inside + weight * (labels.flatten(1).gather(1, index).view_as(inside) == region)
    keep, outside = inside[:, None] + mix * (1.0 - inside[:, None]), 1.0 - inside[:, None]
    tokens = keep * sampled + (1.0 - mix) * outside * background[None, :, None]
    filled = (frame[..., 2] > 0)[:, :, None, None, None]
    return torch.where(filled, tokens.transpose(1, 2), 0.0)


def sample(
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
) -> Tensor:
    """F(S) (B, N, C, q, q) of the injected and normalised picture scale · (x + δ) + shift. [`eq:mean_injection`]

    pixels: x (B, C, H, W). change: δ of each region, (B, N, C), which negative labels do not get. scale, shift: (C,).
    labels: (B, H, W). frame, mix, background: as in `extract`.
    """
    injected = pixels.flatten(2) + paint(change, labels.flatten(1))
    normal = torch.addcmul(shift[:, None], injected, scale[:, None])
    return extract(normal.view_as(pixels), labels, frame, mix, background)
