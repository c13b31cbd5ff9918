"""The picture of `docs/select.md`: `python benchmarks/select_pictures.py -o docs/pictures/select.jpg`.

The astronaut (NASA, public domain) and the cup of coffee (Rachel Michetti, CC0), both from scikit-image, selected by few marks; and
a rough mask before and after snapping.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from skimage import data

import pixtree
from pixtree.exports.pictures import boundaries
from pixtree.files import replacing

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from annotate import PHOTOS

DIMMED, SIDE, WIDTH, GAP, DOT = 0.35, 384, 1200, 6, 5
GREEN, RED = (40, 220, 70), (240, 40, 40)


def shown(image: NDArray[np.uint8], labels: NDArray[np.int32], inside=(), outside=()) -> Image.Image:
    """The photo with outlines of its objects, dimmed outside them, and with its marks."""
    picture = boundaries(image, labels).astype(np.float64)
    picture[labels == 0] *= DIMMED
    drawn = Image.fromarray(picture.astype(np.uint8))
    pen = ImageDraw.Draw(drawn)
    for colour, points in ((GREEN, inside), (RED, outside)):
        for row, column in points:
            pen.ellipse((column - DOT, row - DOT, column + DOT, row + DOT), fill=colour, outline=(255, 255, 255))
    return drawn.resize((round(SIDE * drawn.width / drawn.height), SIDE), Image.Resampling.LANCZOS)


def rough(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A mask as a grid of 16-px patches would have it."""
    height, width = (side // 16 for side in mask.shape)
    shares = mask[: height * 16, : width * 16].reshape(height, 16, width, 16).mean(axis=(1, 3))
    return np.kron(shares > 0.5, np.ones((16, 16), bool))


def panels() -> list[list[Image.Image]]:
    (objects, outside), photo = PHOTOS["astronaut"], data.astronaut()
    tree, inside = pixtree.hierarchy(photo), objects["person"]
    selected = []
    for some, others in ((inside[2:3], ()), (inside[2:3] + inside[:1], outside[:1]), (inside, outside)):
        mask = pixtree.select(tree, some, others)
        selected.append(shown(photo, mask.astype(np.int32), some, others))
    patches = rough(mask)
    snapped = pixtree.snap(patches, tree)
    objects, outside = PHOTOS["coffee"]
    coffee = data.coffee()
    labels = pixtree.select(coffee, dict(enumerate(objects.values(), 1)), outside)
    points = [point for marks in objects.values() for point in marks]
    pair = [shown(photo, one.astype(np.int32)) for one in (patches, snapped)]
    return [selected, [*pair, shown(coffee, labels, points, outside)]]


def beside(panels: list[Image.Image]) -> Image.Image:
    """Panels of equal height side by side, WIDTH pixels wide."""
    strip = Image.new("RGB", (sum(panel.width + GAP for panel in panels) - GAP, SIDE), (255, 255, 255))
    left = 0
    for panel in panels:
        strip.paste(panel, (left, 0))
        left += panel.width + GAP
    return strip.resize((WIDTH, round(WIDTH * strip.height / strip.width)), Image.Resampling.LANCZOS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    rows = panels()
    strips = [beside(row) for row in rows]
    page = Image.new("RGB", (WIDTH, sum(strip.height + GAP for strip in strips) - GAP), (255, 255, 255))
    top = 0
    for strip in strips:
        page.paste(strip, (0, top))
        top += strip.height + GAP
    with replacing(asked.output) as temporary:
        page.save(temporary, "JPEG", quality=88)


if __name__ == "__main__":
    main()
