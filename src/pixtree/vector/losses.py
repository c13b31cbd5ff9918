"""What a drawing lost: areas of its image that it shows in another colour, further off than its other areas explain."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pixtree.vector.regions.colours import perceptual
from pixtree.vector.svg import hexadecimal

Array = NDArray[Any]
BLOCK = 4  # pixels of a side of the squares that are compared: the colour of an area counts, not its grain
LEAST = 10.0  # ΔE of an area that is lost
USUAL = 3.0  # times the median ΔE of photographs, which their budget explains, on top of that
SHARE = 0.01  # of the image


@dataclass(frozen=True)
class Loss:
    """An area in another colour: its share of the image, a place in it in pixels, its colour and the one drawn, and their ΔE."""

    share: float
    place: tuple[int, int]
    colour: str
    drawn: str
    difference: float

    def sentence(self, remedy: str) -> str:
        """What is lost, and what to try."""
        x, y = self.place
        where = f"{self.share:.1%} of the image, around ({x}, {y}),"
        return f"{where} is drawn in {self.drawn} and was {self.colour}, ΔE {self.difference:.0f}; {remedy}"


def largest_loss(shown: Array, drawn: Array, flat: Array | None = None) -> Loss | None:
    """The largest connected area that a drawing (H, W, 3) shows in another colour than the image (3, H, W) over white, 0…255.

    flat: (H, W) bool, the pixels of flat artwork, whose colours a drawing keeps whatever its budget; by default none.
    """
    height, width = (side // BLOCK for side in shown.shape[1:])
    if min(height, width) == 0:
        return None
    one, two = (_blocks(pixels, height, width) for pixels in (np.moveaxis(np.asarray(shown), 0, 2), drawn))
    apart = np.linalg.norm(perceptual(one) - perceptual(two), axis=1).reshape(height, width)
    grained = np.ones(apart.shape, np.bool_) if flat is None else ~flat[::BLOCK, ::BLOCK][:height, :width]
    explained = USUAL * float(np.median(apart[grained])) if grained.any() else 0.0
    off = apart > LEAST + np.where(grained, explained, 0.0)
    pieces, count = ndimage.label(off)
    if not count:
        return None
    size = np.bincount(pieces.ravel())[1:]
    largest = int(np.argmax(size))
    if size[largest] < SHARE * off.size:
        return None
    inside = (pieces == largest + 1).ravel()
    rows, columns = np.divmod(np.flatnonzero(inside), width)
    nearest = int(np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2))  # a place inside, also of a ring
    place = (int(columns[nearest] * BLOCK + BLOCK // 2), int(rows[nearest] * BLOCK + BLOCK // 2))
    colour, other = (hexadecimal(np.rint(np.median(blocks[inside], axis=0)).astype(np.uint8)) for blocks in (one, two))
    return Loss(float(size[largest] / off.size), place, colour, other, float(apart.ravel()[inside].mean()))


def _blocks(pixels: Array, height: int, width: int) -> NDArray[np.float64]:
    """Mean colours (h · w, 3) of the squares of pixels (H, W, 3)."""
    inside = pixels[: height * BLOCK, : width * BLOCK].reshape(height, BLOCK, width, BLOCK, 3)
    return np.asarray(inside.mean(axis=(1, 3), dtype=np.float64).reshape(-1, 3))
