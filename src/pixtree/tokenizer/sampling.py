"""Extraction: every region's bounding box becomes q×q samples, its background dimmed. [`alg:features`]"""

import torch
from torch import Tensor, nn

from pixtree.kernels import kernels_for


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


class Sampler(nn.Module):
    """The extractor with its weights: λ = sigmoid(ℓ), and the background β.

    patch: q. smallest, largest: sides of the sampled boxes in pixels; `largest` None is no limit.
    """

    def __init__(
        self,
        channels: int = 3,
        patch: int = 16,
        smallest: int = 16,
        largest: int | None = None,
        mix: float = 0.9,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if patch < 1 or smallest < 1 or (largest is not None and largest < smallest):
            raise ValueError(
                f"expected patch ≥ 1 and 1 ≤ smallest ≤ largest box, got {patch}, {smallest}, {largest}; 16, 16, None are usual"
            )
        if not 0.0 < mix < 1.0:
            raise ValueError(f"λ starts strictly between 0 and 1, got {mix}; 0.9 suits a retrofit")
        self.smallest, self.largest, self.backend = smallest, largest, backend
        self.logit = nn.Parameter(torch.logit(torch.tensor(mix)))
        self.background = nn.Parameter(torch.zeros(channels, patch, patch))

    @property
    def mix(self) -> Tensor:
        """λ, a scalar in 0..1: how much of the background shines through."""
        return torch.sigmoid(self.logit)

    def forward(self, pixels: Tensor, change: Tensor, scale: Tensor, shift: Tensor, labels: Tensor) -> Tensor:
        """F(S) (B, N, C, q, q) of x̂ = scale · (x + δ) + shift: x (B, C, H, W), δ (B, N, C) per region, labels (B, H, W)."""
        weights = (one.to(pixels.dtype) for one in (self.mix, self.background))
        frame = self.frames(labels, int(change.shape[1]))
        return kernels_for(self.backend, pixels.device).sample(pixels, change, scale, shift, labels, frame, *weights)

    def frames(self, labels: Tensor, count: int) -> Tensor:
        """What is sampled of the regions 0..count − 1 of labels (B, H, W): see `frames`; empty where there is no region."""
        boxes = kernels_for(self.backend, labels.device).region_boxes(labels, count)
        frame = frames(boxes, (int(labels.shape[1]), int(labels.shape[2])), self.smallest, self.largest)
        return frame.masked_fill(boxes[..., 2:3] == 0, 0.0)
