"""Extraction: every region's bounding box becomes q×q samples, its background dimmed. [`alg:features`]"""

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.sample import Background, Boxes, Injected
from pixtree.runtime.transfer import filled


@dataclass(frozen=True)
class SamplingOptions:
    """How regions are sampled, see `Sampler`.

    patch: q, samples per side of a token.
    smallest_box: the shortest side of a sampled box in pixels; None is the patch.
    largest_box: the longest side; 0 means no limit. None means no limit too, except in a retrofit: two patches.
    mix: where λ starts; 0 and 1 are not learned. background: β starts as normal noise of this standard deviation.
    """

    patch: int = 16
    smallest_box: int | None = None
    largest_box: int | None = None
    mix: float = 0.9
    background: float = 0.0

    @property
    def boxes(self) -> tuple[int, int | None]:
        """Shortest and longest side of a box as `Sampler` takes them."""
        return self.patch if self.smallest_box is None else self.smallest_box, self.largest_box or None


def padding(shape: tuple[int, int], patch: int) -> tuple[int, int]:
    """Rows and columns that an image of `shape` lacks to whole patches, as timm pads it below and to the right."""
    return -shape[0] % patch, -shape[1] % patch


def padded_labels(labels: Tensor, patch: int) -> Tensor:
    """Labels (B, H, W) on whole patches, −1 in the padding; cell (i, j) of the patch grid is then exactly a patch."""
    down, right = padding((int(labels.shape[1]), int(labels.shape[2])), patch)
    return functional.pad(labels, (0, right, 0, down), value=-1) if down or right else labels


def padded_pixels(pixels: Tensor, patch: int, fill: Tensor) -> Tensor:
    """Pixels (B, C, H, W) on whole patches; `fill` (C,) is the colour of the padding."""
    batch, channels, height, width = pixels.shape
    down, right = padding((int(height), int(width)), patch)
    if not (down or right):
        return pixels
    canvas = fill[:, None, None].expand(batch, channels, height + down, width + right).clone()
    canvas[..., :height, :width] = pixels
    return canvas


def frames(boxes: Tensor, shape: tuple[int, int], smallest: int, largest: int | None, patch: int = 1) -> Tensor:
    """Boxes (B, N, 4) int32 as (top, left, height, width) float32, with sides in smallest..largest.

    Sides change about the centre of the box, which is then shifted inside the image; no side is longer than the image. Only a box
    at the lower or right border may reach beyond it, into the padding to whole patches: there it grows first, so that the patches
    of a size that is not a multiple of the patch are those of timm.
    """
    near, far = boxes[..., :2].to(torch.float32), boxes[..., 2:].to(torch.float32)
    border, missing = filled(shape, near), filled(padding(shape, patch), near)
    side = (far - near).clamp_min(float(smallest))
    side = side if largest is None else side.clamp_max(float(largest))
    beyond = torch.minimum(side - (far - near), missing).clamp_min(0.0) * (far == border)
    limit = border + beyond
    side = torch.minimum(side, limit)
    # Whole pixels, so that a region on the pixel grid is sampled on it.
    start = torch.floor((near + far + beyond - side) / 2.0)
    start = torch.minimum(start.clamp_min(0.0), limit - side)
    return torch.cat((start, side), dim=-1)


class Sampler(nn.Module):
    """The extractor with its weights: λ = sigmoid(ℓ), and the background β.

    patch: q. smallest, largest: sides of the sampled boxes in pixels; `largest` None means no limit. mix: where λ starts; 0, which
    hides the background, and 1, which shows it, are not learned. background: the standard deviation with which β starts.
    """

    def __init__(
        self,
        channels: int = 3,
        patch: int = 16,
        smallest: int = 16,
        largest: int | None = None,
        mix: float = 0.9,
        backend: str = "auto",
        background: float = 0.0,
    ) -> None:
        super().__init__()
        if patch < 1 or smallest < 1 or (largest is not None and largest < smallest):
            raise ValueError(
                f"expected patch ≥ 1 and 1 ≤ smallest ≤ largest box, got {patch}, {smallest}, {largest}; 16, 16, None are usual"
            )
        if not 0.0 <= mix <= 1.0:
            raise ValueError(f"λ lies between 0 and 1, got {mix}; 0.9 suits a retrofit, and 0 and 1 are not learned")
        self.smallest, self.largest, self.backend = smallest, largest, backend
        start = torch.tensor(float(mix))
        self.logit = nn.Parameter(torch.logit(start)) if 0.0 < mix < 1.0 else None
        self.register_buffer("fixed_mix", None if self.logit is not None else start, persistent=False)
        if not background >= 0.0:
            raise ValueError(f"β starts with a standard deviation of 0 or more, got {background}; 0 suits a retrofit")
        shape = (channels, patch, patch)
        self.background = nn.Parameter(background * torch.randn(shape) if background else torch.zeros(shape))

    fixed_mix: Tensor | None

    @property
    def mix(self) -> Tensor:
        """λ, a scalar in 0..1: how much of the background shines through."""
        if self.logit is not None:
            return torch.sigmoid(self.logit)
        assert self.fixed_mix is not None
        return self.fixed_mix

    def forward(self, image: Injected, labels: Tensor) -> Tensor:
        """F(S) (B, N, C, q, q) of the regions of labels (B, H, W).

        Where q does not divide the size, the image is continued by the colour that x̂ = 0 has.
        """
        patch, pixels = int(self.background.shape[-1]), image.pixels
        boxes = Boxes(padded_labels(labels, patch), self.frames(labels, int(image.change.shape[1])))
        background = Background(self.mix.to(pixels.dtype), self.background.to(pixels.dtype))
        padded = image._replace(pixels=padded_pixels(pixels, patch, -image.shift / image.scale))
        return kernels_for(self.backend, pixels.device).sample(padded, boxes, background)

    def frames(self, labels: Tensor, count: int) -> Tensor:
        """The sampled boxes of the regions 0..count − 1 of labels (B, H, W), see `frames`; empty where there is no region."""
        boxes = kernels_for(self.backend, labels.device).region_boxes(labels, count)
        shape = (int(labels.shape[1]), int(labels.shape[2]))
        frame = frames(boxes, shape, self.smallest, self.largest, int(self.background.shape[-1]))
        return frame.masked_fill(boxes[..., 2:3] == 0, 0.0)
