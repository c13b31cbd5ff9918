"""Extraction: every region's bounding box becomes q×q samples, its background dimmed. [`alg:features`]

F(S) = (M⁺ + λM⁻) ⊙ x̂(S) + (1 − λ) M⁻ ⊙ β, with M⁺ the bilinear sample of "is in S" and M⁻ = 1 − M⁺.
"""

from typing import NamedTuple

from torch import Tensor


class Injected(NamedTuple):
    """The image that is sampled, in parts: x̂ = scale · (x + δ) + shift. [`eq:mean_injection`]"""

    pixels: Tensor  # x (B, C, H, W)
    change: Tensor  # δ = W f* − x̄* of each region, (B, N, C); pixels with negative labels keep their colour
    scale: Tensor  # (C,)
    shift: Tensor  # (C,)


class Boxes(NamedTuple):
    """The region of every pixel, and the box of every region."""

    labels: Tensor  # (B, H, W)
    frame: Tensor  # (B, N, 4) as top, left, height, width; a region with an empty frame gets zeros


class Background(NamedTuple):
    """The part of a sample outside its region: λ of the image, 1 − λ of β."""

    mix: Tensor  # λ, a scalar
    colour: Tensor  # β (C, q, q)
