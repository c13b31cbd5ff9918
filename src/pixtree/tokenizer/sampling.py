"""Extraction: every region's bounding box becomes q×q samples, its background dimmed. [`alg:features`]

F(S) = (M⁺ + λM⁻) ⊙ x̂(S) + (1 − λ) M⁻ ⊙ β, with M⁺ the bilinear sample of "is in S" and M⁻ = 1 − M⁺.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from pixtree.kernels.segments import region_boxes
from pixtree.tokenizer.boxes import sample_boxes


class Taps(NamedTuple):
    """Bilinear taps along one axis: two indices and the weight of the second, (B, N, q) each."""

    low: Tensor
    high: Tensor
    fraction: Tensor


def frames(boxes: Tensor, shape: tuple[int, int], smallest: int, largest: int | None) -> Tensor:
    """Boxes (B, N, 4) int32 as (top, left, height, width) float32, with sides in smallest..largest.

    Sides change about the centre of the box, which is then shifted inside the image; no side is longer than the image.
    """
    near, far = boxes[..., :2].to(torch.float32), boxes[..., 2:].to(torch.float32)
    limit = torch.tensor(shape, dtype=torch.float32, device=boxes.device)
    side = (far - near).clamp_min(float(smallest))
    side = torch.minimum(side if largest is None else side.clamp_max(float(largest)), limit)
    # Whole pixels, so that a region on the pixel grid is sampled on it.
    start = torch.floor((near + far - side) / 2.0)
    start = torch.minimum(start.clamp_min(0.0), limit - side)
    return torch.cat((start, side), dim=-1)


def taps(start: Tensor, side: Tensor, samples: int, size: int) -> Taps:
    """Where p_i = start + (i + ½) side/q − ½ lies between pixels 0..size − 1; start and side are (B, N)."""
    step = torch.arange(samples, dtype=start.dtype, device=start.device) + 0.5
    position = (start[..., None] + step * (side[..., None] / samples) - 0.5).clamp(0.0, size - 1.0)
    low = position.to(torch.int64)
    return Taps(low, (low + 1).clamp_max(size - 1), position - low)


def extract(image: Tensor, labels: Tensor, frame: Tensor, mix: Tensor, background: Tensor) -> Tensor:
    """F(S) of all regions in plain torch, (B, N, C, q, q); the definition of what `sample_boxes` computes.

    image: x̂ (B, C, H, W). labels: (B, H, W). frame: (B, N, 4) from `frames`; rows with an empty frame give zeros.
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


class Sampler(nn.Module):
    """The extractor with its weights: λ = sigmoid(ℓ), and the background β.

    patch: q. smallest, largest: sides of the sampled boxes in pixels; `largest` None is no limit.
    """

    def __init__(
        self, channels: int = 3, patch: int = 16, smallest: int = 16, largest: int | None = None, mix: float = 0.9
    ) -> None:
        super().__init__()
        if patch < 1 or smallest < 1 or (largest is not None and largest < smallest):
            raise ValueError(
                f"expected patch ≥ 1 and 1 ≤ smallest ≤ largest box, got {patch}, {smallest}, {largest}; 16, 16, None are usual"
            )
        if not 0.0 < mix < 1.0:
            raise ValueError(f"λ starts strictly between 0 and 1, got {mix}; 0.9 suits a retrofit")
        self.smallest, self.largest = smallest, largest
        self.logit = nn.Parameter(torch.logit(torch.tensor(mix)))
        self.background = nn.Parameter(torch.zeros(channels, patch, patch))

    @property
    def mix(self) -> Tensor:
        """λ, a scalar in 0..1: how much of the background shines through."""
        return torch.sigmoid(self.logit)

    def forward(self, image: Tensor, labels: Tensor, count: int) -> Tensor:
        """F(S) of the regions 0..count − 1, (B, N, C, q, q), of images x̂ (B, C, H, W) and labels (B, H, W)."""
        frame = self.frames(labels, count)
        return extract(image, labels, frame, self.mix.to(image.dtype), self.background.to(image.dtype))

    def injected(self, pixels: Tensor, change: Tensor, scale: Tensor, shift: Tensor, labels: Tensor) -> Tensor:
        """F(S) of x̂ = scale · (x + δ) + shift, fused on the CPU: x (B, C, H, W) without gradient, δ (B, N, C) per region."""
        weights = (one.to(pixels.dtype) for one in (self.mix, self.background))
        frame = self.frames(labels, int(change.shape[1]))
        tokens: Tensor = sample_boxes(pixels, change, scale, shift, labels, frame, *weights)[0]
        return tokens

    def frames(self, labels: Tensor, count: int) -> Tensor:
        """What is sampled of the regions 0..count − 1 of labels (B, H, W): see `frames`; empty where there is no region."""
        boxes = region_boxes(labels, count)
        frame = frames(boxes, (int(labels.shape[1]), int(labels.shape[2])), self.smallest, self.largest)
        return frame.masked_fill(boxes[..., 2:3] == 0, 0.0)
