"""Flat zones: 4-connected pixels of exactly one colour, which the first round of a tree takes as wholes.

Without them every pixel of a flat area merges with some neighbour in every round, so a shape that is complete joins a piece of its
background before the background is complete. Photographs have next to no flat zones, and noise should not start regions, so zones
count only where large ones cover a good part of the image: screenshots, charts, logos, drawings.

Edges of such images are anti-aliased: between two zones lie pixels whose values lie between those of the zones. Such a pixel joins
the nearer zone at once, instead of growing a thin region of its own along the edge.
"""

import math
from fractions import Fraction
from typing import NamedTuple

from torch import Tensor

LARGE = 16  # pixels of a zone that speaks for a drawn image
SHARE = Fraction(2, 5)  # of the pixels that such zones cover in drawn images; the most of the 100 photos of BSDS500's val is .32


class Zones(NamedTuple):
    """The flat zones of an image with M pixels inside its mask, in raster order."""

    root: Tensor  # (M,) int32: the first pixel of the zone that a pixel is in, −1 where it is in none
    joins: Tensor  # (M,) int32: the 4-neighbour in a zone that a blended pixel joins, −1 where it is not blended
    solid: Tensor  # (M,) bool: whether the pixel is in a zone that contains a block of 2 × 2 pixels


def fewest_in_zones(pixels: int) -> int:
    """How many pixels of a drawn image are in large zones, at least."""
    return math.ceil(SHARE * pixels)
