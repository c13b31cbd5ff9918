"""The picture of flat zones in `docs/images.md`: `python benchmarks/zone_pictures.py -o docs/pictures/zones.png`.

Drawn images and the boundaries of their regions, grown without flat zones and with them.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from drawn import Picture, chart, screenshot, squares
from vector_pictures import captioned, side_by_side

import pixtree
from pixtree.exports.pictures import boundaries, save_png
from pixtree.kernels.tree.zones import definition

RED = (230, 0, 60)
SHOWN = (
    ("squares", squares(4)[:, :156], 5),
    ("a chart", chart("bars")[10:130, 20:176], 10),
    ("a screenshot", screenshot(190, 400, 80, 156), 40),
)
ZOOM = 2


@contextmanager
def without_zones() -> Iterator[None]:
    """Refuse the zones of every image, as if all were photographs."""
    fewest = definition.fewest_in_zones
    definition.fewest_in_zones = lambda pixels: pixels + 1
    try:
        yield
    finally:
        definition.fewest_in_zones = fewest


def outlined(image: Picture, tokens: int) -> Picture:
    """The boundaries of the regions over the enlarged image."""
    labels = pixtree.segment(image, tokens=tokens, backend="torch")
    large, wide = (np.repeat(np.repeat(one, ZOOM, axis=0), ZOOM, axis=1) for one in (image, labels))
    return boundaries(large, wide, colour=RED)


def padded(picture: Picture, height: int) -> Picture:
    """The picture in the middle of a white one of that height."""
    above = (height - picture.shape[0]) // 2
    below = height - picture.shape[0] - above
    return np.pad(picture, ((above, below), (0, 0), (0, 0)), constant_values=255)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    height = ZOOM * max(image.shape[0] for _, image, _ in SHOWN)
    with without_zones():
        before = [outlined(image, tokens) for _, image, tokens in SHOWN]
    after = [outlined(image, tokens) for _, image, tokens in SHOWN]
    parts = [
        captioned(padded(picture, height), f"{name}, {tokens} regions, {way} zones")
        for way, pictures in (("without", before), ("with", after))
        for picture, (name, _, tokens) in zip(pictures, SHOWN, strict=True)
    ]
    save_png(options.output, side_by_side(parts, len(SHOWN)))


if __name__ == "__main__":
    main()
