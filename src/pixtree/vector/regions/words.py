"""Words of small text: letters whose strokes are too thin for pixels of their own colour, and that nevertheless have one colour.

Pixel by pixel, a light blend of black ink and a dark blend of grey ink are the same. All letters of a word together tell them
apart: no pixel of a grey word is darker than its grey.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pixtree.runtime.jit import kernel
from pixtree.vector.regions.areas import BLEND
from pixtree.vector.regions.blends import blend_of, pure_pixels

Array = NDArray[Any]
GAP = 2  # pixels to the left and right of a letter within which the next one begins
FEWEST = 6  # pixels of a word
TALLEST = 40  # pixels: what is taller has pixels of its own colour
LEVEL = 6.0  # grey levels by which two colours may explain a word differently well and still be as good
FAINT = 24.0  # grey levels between a word's colour and the one around it


def with_words(entries: NDArray[np.int32], planes: Array, colours: Array, nearest: Any, wanted: Array) -> NDArray[np.int32]:
    """Entries (H, W) of planes (C, H, W) in which every word on one colour shows one other colour (K, C) only.

    nearest: the result of `nearest_colours`. wanted: (H, W) bool, the pixels that may be part of words.
    """
    pure, _ = pure_pixels(*nearest, len(colours))
    loose = wanted & ~pure & ~_beside_own(nearest[0], nearest[1], pure)
    across = np.ones((3, 2 * GAP + 1), np.bool_)
    pieces, count = ndimage.label(ndimage.binary_dilation(loose, across) & ~pure | loose, np.ones((3, 3)))
    pieces = np.where(loose, pieces, 0).astype(np.int32)
    places = ndimage.find_objects(pieces, count)  # None for a gap between areas, which has no pixels of letters
    heights = np.array([0, *(0 if place is None else place[0].stop - place[0].start for place in places)])
    grounds = grounds_of(pieces, nearest[0], pure, count + 1)
    size = np.bincount(pieces.ravel(), minlength=count + 1)
    grounds[(size < FEWEST) | (heights > TALLEST)] = -1
    grounds[0] = -1
    cost, top = fits_of(pieces, grounds, planes, colours)
    best = cost.min(axis=1)
    good = cost <= (best + size * LEVEL**2)[:, None]
    ink = np.where(good, top, -1.0).argmax(axis=1).astype(np.int32)  # of colours that explain a word, the nearest one
    grounds[best > size * BLEND**2] = -1
    return np.asarray(painted(entries, pieces, grounds, ink, planes, colours))


def _beside_own(entries: Array, equal: Array, pure: Array) -> NDArray[np.bool_]:
    """Which pixels (H, W) equal an area next to them: its ragged rim, and not a letter."""
    found = np.zeros(pure.shape, np.bool_)
    for mask, own, solid, same in ((found, entries, pure, equal > 0), (found.T, entries.T, pure.T, equal.T > 0)):
        alike = own[1:] == own[:-1]
        mask[1:] |= alike & solid[:-1] & same[1:]
        mask[:-1] |= alike & solid[1:] & same[:-1]
    return found


@kernel
def grounds_of(pieces: Array, entries: Array, pure: Array, count: int) -> Array:
    """The one colour (N,) of the areas around each piece, −1 where there are none or several."""
    height, width = pieces.shape
    found = np.full(count, -2, np.int32)
    for y in range(height):
        for x in range(width):
            piece = pieces[y, x]
            if piece == 0:
                continue
            for v in range(max(y - 1, 0), min(y + 2, height)):
                for u in range(max(x - 1, 0), min(x + 2, width)):
                    if pure[v, u] and found[piece] != entries[v, u]:
                        found[piece] = entries[v, u] if found[piece] == -2 else -1
    for piece in range(count):
        found[piece] = max(found[piece], -1)
    return found


@kernel
def fits_of(pieces: Array, grounds: Array, planes: Array, colours: Array) -> tuple[Array, Array]:
    """How far (N, K) the pixels of every piece are from blends of its ground and each colour, squared, and the largest share."""
    height, width = pieces.shape
    cost, top = np.zeros((len(grounds), len(colours))), np.zeros((len(grounds), len(colours)))
    for y in range(height):
        for x in range(width):
            piece = pieces[y, x]
            if grounds[piece] < 0:
                continue
            for k in range(len(colours)):
                share, rest = blend_of(planes, y, x, colours[grounds[piece]], colours[k])
                cost[piece, k] += rest
                top[piece, k] = max(top[piece, k], share)
    for piece in range(len(grounds)):
        for k in range(len(colours)):
            squared = 0.0
            for c in range(colours.shape[1]):
                squared += (colours[k, c] - colours[max(grounds[piece], 0), c]) ** 2
            if squared < FAINT * FAINT:
                cost[piece, k] = np.inf
    return cost, top


@kernel
def painted(entries: Array, pieces: Array, grounds: Array, ink: Array, planes: Array, colours: Array) -> Array:
    """Entries in which the pixels of words have their ground or their ink, whichever is the larger part."""
    found = entries.copy()
    height, width = pieces.shape
    for y in range(height):
        for x in range(width):
            piece = pieces[y, x]
            if grounds[piece] >= 0:
                share, _ = blend_of(planes, y, x, colours[grounds[piece]], colours[ink[piece]])
                found[y, x] = ink[piece] if share > 0.5 else grounds[piece]
    return found
