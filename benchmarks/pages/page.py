"""A test page: its pixels, the same page at four times the size, and where its text and its pictures are."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
Box = tuple[int, int, int, int]  # left, top, right, bottom in pixels of the page
ZOOM = 4
SHARE = 0.002  # of the pixels, from which on a flat colour must survive


@dataclass(frozen=True, eq=False)
class Page:
    """pixels (H, W, 3) are what is traced, clean (H, W, 3) what a drawing should show, large (4H, 4W, 3) the same enlarged.

    A screenshot or a chart is its own clean page. Of a scan, the clean page is the drawing before paper, light and camera.
    """

    name: str
    kind: str
    pixels: Pixels
    clean: Pixels
    large: Pixels
    text: tuple[Box, ...] = ()
    pictures: tuple[Box, ...] = ()

    def colours(self) -> list[tuple[int, int, int]]:
        """Flat colours that must survive: those of solid pixels, outside of pictures, that cover enough of the page."""
        solid = solid_pixels(self.clean)
        for left, top, right, bottom in self.pictures:
            solid[max(top - 1, 0) : bottom + 1, max(left - 1, 0) : right + 1] = False
        found, counts = np.unique(self.clean[solid], axis=0, return_counts=True)
        return [tuple(colour) for colour in found[counts >= SHARE * solid.size].tolist()]

    def text_mask(self) -> NDArray[np.bool_]:
        """Which pixels (H, W) lie in boxes of text."""
        mask = np.zeros(self.clean.shape[:2], np.bool_)
        for left, top, right, bottom in self.text:
            mask[max(top, 0) : bottom, max(left, 0) : right] = True
        return mask

    def save(self, folder: Path) -> None:
        """Write the pixels as PNG and the boxes as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        for part in ("pixels", "clean", "large"):
            Image.fromarray(getattr(self, part)).save(folder / f"{self.name}.{part}.png", compress_level=1)
        boxes = {"kind": self.kind, "text": self.text, "pictures": self.pictures}
        (folder / f"{self.name}.json").write_text(json.dumps(boxes), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, name: str) -> "Page":
        """The page that `save` wrote."""
        about = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        parts = [np.asarray(Image.open(folder / f"{name}.{part}.png").convert("RGB")) for part in ("pixels", "clean", "large")]
        boxes = (tuple((box[0], box[1], box[2], box[3]) for box in about[key]) for key in ("text", "pictures"))
        return cls(name, about["kind"], *parts, *boxes)


def solid_pixels(pixels: Pixels) -> NDArray[np.bool_]:
    """Which pixels (H, W) equal all of their direct neighbours."""
    solid = np.ones(pixels.shape[:2], np.bool_)
    for mask, values in ((solid, pixels), (solid.T, pixels.transpose(1, 0, 2))):
        equal = (values[1:] == values[:-1]).all(axis=2)
        mask[1:] &= equal
        mask[:-1] &= equal
    return solid


def rounded_out(boxes: list[list[float]], size: tuple[int, int]) -> tuple[Box, ...]:
    """Boxes in whole pixels, one pixel larger on each side, cut at the borders of a page of this width and height."""
    width, height = size
    found = []
    for left, top, right, bottom in boxes:
        box = (max(int(left) - 1, 0), max(int(top) - 1, 0), min(int(right) + 2, width), min(int(bottom) + 2, height))
        if box[0] < box[2] and box[1] < box[3]:
            found.append(box)
    return tuple(found)
