"""What survives of a page in a drawing, and what the drawing costs."""

from typing import Any

import numpy as np
from page import ZOOM, Page, Pixels, solid_pixels

from pixtree.evaluation.vectors import at_size
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.vector.svg import points_of

SAME = 1.0  # ΔE up to which a colour is kept,
MOST_LOST = 0.05  # and share of its solid pixels that may differ more: letters and lines touch it
NONE = 99.0  # PSNR of a drawing without any error


def quality(text: str, page: Page, *, zoomed: bool = True) -> dict[str, float]:
    """Error of an SVG text at one and at four times the size and in boxes of text, colours kept, bytes and points."""
    shown = at_size(text, page.clean.shape[:2])
    found = {"psnr": min(psnr(mean_squared_error(shown, page.clean)), NONE)}
    if zoomed:
        height, width = page.clean.shape[:2]
        large = at_size(text, (height * ZOOM, width * ZOOM))
        found["psnr_4"] = min(psnr(mean_squared_error(large, page.large)), NONE)
    inside = page.text_mask()
    if inside.any():
        found["text_error"] = float(np.abs(shown[inside].astype(np.float64) - page.clean[inside]).mean())
    kept, wanted = colours_kept(shown, page)
    return found | {"kept": kept, "wanted": wanted, "bytes": len(text.encode()), "points": points_of(text)}


def colours_kept(shown: Pixels, page: Page) -> tuple[int, int]:
    """How many flat colours of a page its drawing shows, and how many there are."""
    solid, colours = solid_pixels(page.clean), page.colours()
    kept = 0
    for colour in colours:
        where = solid & (page.clean == colour).all(axis=2)
        drawn = shown[where]
        kept += int((difference(drawn, np.array(colour, np.uint8)) > SAME).mean() <= MOST_LOST)
    return kept, len(colours)


def difference(pixels: Pixels, colour: Pixels) -> Any:
    """ΔE (N,) of pixels (N, 3) from a colour (3,)."""
    from skimage.color import rgb2lab

    distinct, inverse = np.unique(pixels, axis=0, return_inverse=True)
    apart = np.linalg.norm(rgb2lab(distinct[None] / 255.0)[0] - rgb2lab(colour[None, None] / 255.0)[0, 0], axis=1)  # type: ignore[no-untyped-call]
    return apart[inverse.ravel()]
