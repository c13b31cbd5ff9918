"""Areas of a page: photographs among flat colours and text.

A screenshot or a page is flat where pixels equal their neighbours exactly; text is too, in the gaps between its strokes. Hardly any
pixel of a photograph has three equal neighbours, unless its light is clipped. So the share of such pixels around a place decides.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[Any]
WINDOW = 21  # pixels; wider than the lines of large text, so that every window on text holds some of the background
PHOTOGRAPH, DOUBTFUL = 0.12, 0.26  # shares of flat pixels: below the first a photograph, below the second if next to one
LEAST_FLAT = 0.4  # share of the pixels of a page
SMALLEST = 400  # pixels of a photograph
BLEND = 14.0  # distance, in grey levels, up to which a pixel is a blend of two colours
LONG = 24  # pixels of one colour in a row that make a frame or a rule; the stems of small letters are shorter


def flat_pixels(planes: Array) -> NDArray[np.bool_]:
    """Which pixels (H, W) of planes (C, H, W) are part of a square of four that are exactly equal."""
    down, right = ((np.diff(planes, axis=axis) == 0).all(axis=0) for axis in (1, 2))
    square = down[:, :-1] & down[:, 1:] & right[:-1]
    flat = np.zeros(planes.shape[1:], np.bool_)
    for rows in (slice(None, -1), slice(1, None)):
        for columns in (slice(None, -1), slice(1, None)):
            flat[rows, columns] |= square
    return flat


def is_page(flat: NDArray[np.bool_]) -> bool:
    """Whether an image with these flat pixels (H, W) is a page: not a photograph, and not a page that JPEG has changed."""
    return bool(flat.mean() >= LEAST_FLAT)


def photographs(flat: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which pixels (H, W) of a page with these flat pixels (H, W) belong to photographs, or to gradients."""
    share = ndimage.uniform_filter(flat.astype(np.float32), WINDOW, mode="nearest")
    core = share < PHOTOGRAPH
    if not core.any():
        return np.asarray(core)
    near = ndimage.binary_propagation(core, mask=share < DOUBTFUL)
    rim = ndimage.binary_dilation(near, iterations=WINDOW // 2 + 1) & ~flat  # the window is half outside there
    whole = ndimage.binary_fill_holes(ndimage.binary_propagation(near, mask=near | rim))
    pieces, count = ndimage.label(whole)
    kept = np.bincount(pieces.ravel(), minlength=count + 1) >= SMALLEST
    kept[0] = False
    return np.asarray(kept[pieces])


def ruled_pixels(planes: Array) -> NDArray[np.bool_]:
    """Which pixels (H, W) of planes (C, H, W) belong to a straight line, one pixel wide, other than a blend of its two sides."""
    ruled = _rows_ruled(planes)
    return ruled | _rows_ruled(planes.transpose(0, 2, 1)).T


def _rows_ruled(planes: Array) -> NDArray[np.bool_]:
    """The pixels of horizontal lines."""
    height, width = planes.shape[1:]
    found = np.zeros((height, width), np.bool_)
    if height < 3 or width < LONG:
        return found
    above, here, below = planes[:, :-2], planes[:, 1:-1], planes[:, 2:]
    apart = (here != above).any(axis=0) & (here != below).any(axis=0)
    step = below - above
    share = ((here - above) * step).sum(axis=0) / np.maximum((step**2).sum(axis=0), 1e-6)
    rest = ((here - above - share * step) ** 2).sum(axis=0)
    found[1:-1] = apart & ~((share > 0) & (share < 1) & (rest < BLEND**2))
    same = np.zeros((height, width), np.bool_)
    same[:, 1:] = (np.diff(planes, axis=2) == 0).all(axis=0) & found[:, 1:] & found[:, :-1]
    number = np.cumsum(~same).reshape(height, width) - 1  # of the run that a pixel belongs to
    return np.asarray(found & (np.bincount(number.ravel()) >= LONG)[number])
