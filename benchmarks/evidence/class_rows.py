"""Pictures of segmentations for the documentation: an image, its target and predictions side by side, in rows with a legend."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pixtree.evaluation.class_pictures import GAP, Labels, Picture, class_colours, class_picture, legend, occurring


class Row(NamedTuple):
    """One row: an image (H, W, 3), and label maps (H, W) next to it, such as the target and predictions."""

    image: Picture
    maps: tuple[Labels, ...]


def class_rows(rows: Sequence[Row], names: Sequence[str], headings: Sequence[str]) -> Picture:
    """Images next to their label maps, a row each, under headings, with a legend of all classes that occur."""
    if not rows or any(len(row.maps) != len(headings) - 1 for row in rows):
        found = [len(row.maps) for row in rows]
        raise ValueError(
            f"expected rows with a map for each of the {len(headings) - 1} headings after the first, got {found}; add maps"
        )
    colours = class_colours(len(names))
    lines = [_beside([row.image, *(class_picture(one, colours) for one in row.maps)]) for row in rows]
    width = max(line.shape[1] for line in lines)
    top = _beside([_words(heading, rows[0].image.shape[1]) for heading in headings])
    parts = [top, *lines, legend(names, occurring([one for row in rows for one in row.maps]), width)]
    padded = [np.pad(part, ((0, GAP), (0, width - part.shape[1]), (0, 0)), constant_values=255) for part in parts]
    return np.concatenate(padded)[:-GAP]


def _beside(pictures: Sequence[Picture]) -> Picture:
    padded = [np.pad(picture, ((0, 0), (0, GAP), (0, 0)), constant_values=255) for picture in pictures]
    return np.concatenate(padded, axis=1)[:, :-GAP]


def _words(words: str, width: int) -> Picture:
    from PIL import Image, ImageDraw, ImageFont

    strip = Image.new("RGB", (width, 20), "white")
    ImageDraw.Draw(strip).text((2, 1), words, "black", ImageFont.load_default(14))
    return np.array(strip)
