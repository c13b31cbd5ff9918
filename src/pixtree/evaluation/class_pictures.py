"""Pictures of label maps: classes in colours, over their image, with a legend."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pixtree.evaluation.labelled_folders import IGNORED

Picture = NDArray[np.uint8]
Labels = NDArray[np.integer]

VOID = (255, 255, 255)  # colour of pixels that have no class
GAP, SWATCH = 6, 16  # pixels between pictures, and the side of a legend's square


def class_colours(count: int) -> Picture:
    """A fixed colour per class, (count, 3) uint8: hues a golden angle apart, in three turns of value and strength."""
    from colorsys import hsv_to_rgb

    turns = ((0.85, 0.75), (0.95, 0.45), (0.55, 0.85))
    found = []
    for number in range(count):
        value, strength = turns[number % 3]
        found.append(hsv_to_rgb((0.08 + number * 0.6180339887) % 1, strength, value))
    colours: Picture = np.rint(np.array(found).reshape(-1, 3) * 255).astype(np.uint8)
    return colours


def class_picture(classes: Labels, colours: Picture) -> Picture:
    """A label map (H, W) in the colours of its classes; white where it is IGNORED."""
    counted = classes != IGNORED
    if counted.any() and not 0 <= classes[counted].min() <= classes[counted].max() < len(colours):
        high, low = classes[counted].max(), classes[counted].min()
        raise ValueError(f"expected classes from 0 to {len(colours) - 1}, got {low} to {high}; pass a colour per class")
    picture = np.full((*classes.shape, 3), VOID, np.uint8)
    picture[counted] = colours[classes[counted]]
    return picture


def class_overlay(image: Picture, classes: Labels, names: Sequence[str], *, opacity: float = 0.55) -> Picture:
    """An image with its classes over it, and below a legend of those that occur: (H + legend, W, 3)."""
    if image.shape[:2] != classes.shape:
        raise ValueError(f"image and labels must have one size, got {image.shape[:2]} and {classes.shape}; resize one")
    colours = class_colours(len(names))
    mixed = (1 - opacity) * image + opacity * class_picture(classes, colours)
    picture = np.where((classes != IGNORED)[..., None], np.rint(mixed), image).astype(np.uint8)
    return np.concatenate((picture, legend(names, occurring([classes]), picture.shape[1])))


def legend(names: Sequence[str], classes: Sequence[int], width: int) -> Picture:
    """Squares in the colours of some classes with their names beside them, in as many lines as a width needs."""
    from PIL import Image, ImageDraw, ImageFont

    font, colours = ImageFont.load_default(14), class_colours(len(names))
    places, across, down = [], GAP, GAP
    for number in classes:
        length = SWATCH + GAP + round(font.getlength(names[number]))
        if across + length > width and across > GAP:
            across, down = GAP, down + SWATCH + GAP
        places.append((number, across, down))
        across += length + 2 * GAP
    picture = Image.new("RGB", (width, down + SWATCH + GAP), "white")
    draw = ImageDraw.Draw(picture)
    for number, x, y in places:
        draw.rectangle((x, y, x + SWATCH - 1, y + SWATCH - 1), tuple(map(int, colours[number])))
        draw.text((x + SWATCH + GAP, y - 1), names[number], "black", font)
    return np.array(picture)


def occurring(maps: Sequence[Labels]) -> list[int]:
    """The classes of some label maps, sorted."""
    found = {int(number) for one in maps for number in np.unique(one)}
    return sorted(found - {IGNORED})
