"""Drawn images, for tests and benchmarks: flat colours with hard or anti-aliased edges, generated or shipped with scikit-image."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

Picture = NDArray[np.uint8]
SCREENSHOT = Path(__file__).parents[1] / "docs" / "pictures" / "app_start.png"


def squares(count: int = 5) -> Picture:
    """Blue squares in a row on white, (60, ·, 3)."""
    image = np.full((60, 36 * count + 12, 3), 255, np.uint8)
    for k in range(count):
        image[18:42, 12 + 36 * k : 36 + 36 * k] = (30, 60, 200)
    return image


def shapes(
    height: int = 120, width: int = 160, count: int = 12, seed: int = 0, finer: int = 1
) -> tuple[Picture, NDArray[np.int64]]:
    """Discs and rectangles that do not touch, and which of them (0: none) is at each pixel; finer > 1: anti-aliased edges."""
    generator = np.random.default_rng(seed)
    image, truth = (
        Image.new("RGB", (width * finer, height * finer), (250, 250, 245)),
        Image.new("I", (width * finer, height * finer)),
    )
    boxes: list[NDArray[np.int64]] = []
    while len(boxes) < count:
        size = generator.integers(8, min(height, width) // 4, 2)
        corner = generator.integers(3, np.array((width, height)) - size - 3)
        box = np.concatenate((corner, corner + size))
        if any((box[:2] < other[2:] + 4).all() and (other[:2] < box[2:] + 4).all() for other in boxes):
            continue
        boxes.append(box)
        colour = tuple(int(value) for value in generator.integers(0, 230, 3))
        for target, fill in ((image, colour), (truth, len(boxes))):
            draw = ImageDraw.Draw(target)
            shape = draw.ellipse if len(boxes) % 2 else draw.rectangle
            shape([int(value) for value in (*(box[:2] * finer), *(box[2:] * finer - 1))], fill=fill)
    middle = finer // 2
    return np.array(image.resize((width, height), Image.Resampling.BOX)), np.array(truth)[middle::finer, middle::finer].astype(
        np.int64
    )


def graphic(seed: int, smooth: bool = False, height: int = 60, width: int = 80) -> Picture:
    """Boxes, discs, lines and words on top of each other around a patch of noise, (height, width, 3); smooth: anti-aliased."""
    generator, finer = np.random.default_rng(seed), 3 if smooth else 1

    def colour() -> tuple[int, ...]:
        return tuple(int(value) for value in generator.integers(0, 256, 3))

    def corners(least: int, most: int) -> list[int]:
        left, top = (int(generator.integers(0, side - least)) for side in (width, height))
        return [
            finer * value
            for value in (left, top, left + int(generator.integers(least, most)), top + int(generator.integers(least, most)))
        ]

    image = Image.new("RGB", (width * finer, height * finer), colour())
    draw = ImageDraw.Draw(image)
    for _ in range(generator.integers(1, 7)):
        (draw.ellipse if generator.random() < 0.5 else draw.rectangle)(corners(4, 40), fill=colour())
    for _ in range(generator.integers(0, 4)):
        draw.line(corners(2, 60), fill=colour(), width=int(generator.integers(1, 3)) * finer)
    draw.text(corners(2, 3)[:2], "ab 12", fill=colour())
    found = np.array(image.resize((width, height), Image.Resampling.BOX))
    patch = generator.integers(0, 256, (height // 3, width // 3, 3), dtype=np.uint8)
    found[: height // 3, : width // 3] = patch // 16 + 120
    return found


def text() -> Picture:
    """Black letters on white, not anti-aliased, (40, 120, 3)."""
    image = Image.new("1", (120, 40), 1)
    ImageDraw.Draw(image).text((6, 12), "flat zones 0123", fill=0)
    return np.array(image.convert("RGB"))


def chart(kind: str) -> Picture:
    """A chart by matplotlib, with axes, ticks and text."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.4, 1.8), dpi=80)
    axes = figure.subplots()
    values = [3, 7, 2, 5, 8, 4]
    axes.pie(values) if kind == "pie" else axes.bar(range(6), values, color=[f"C{k}" for k in range(6)])
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return np.array(canvas.buffer_rgba())[..., :3].copy()


def shipped(name: str, step: int = 2) -> Picture:
    """Every `step`-th pixel of an image that scikit-image ships, in RGB."""
    from skimage import data

    image = getattr(data, name)()[::step, ::step]
    image = image.astype(np.uint8) * 255 if image.dtype == bool else image
    return np.ascontiguousarray(image[..., :3] if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2))


def spiral(side: int = 200, step: int = 10) -> Picture:
    """A line, 2 pixels wide, that winds to the middle, and one of 1 pixel next to it that touches a darker block, (side, side, 3).

    Between the block and the background the thin line is a blend of both, so all of it stops being a zone.
    """
    image = np.full((side, side, 3), 240, np.uint8)
    for offset, width, colour in ((0, 2, (180, 30, 30)), (5, 1, (140, 140, 200))):
        top, left, bottom, right = offset, offset, side - offset, side - offset
        while bottom - top > 2 * step:
            image[top : top + width, left - (step if left > offset else 0) : right] = colour
            image[top:bottom, right - width : right] = colour
            image[bottom - width : bottom, left:right] = colour
            image[top + step : bottom, left : left + width] = colour
            top, left, bottom, right = top + step, left + step, bottom - step, right - step
    image[2:5, 60:90] = (30, 30, 160)
    return image


def collage() -> Picture:
    """A photograph among flat areas, (300, 400, 3)."""
    from skimage import data

    image = np.full((300, 400, 3), (240, 240, 235), np.uint8)
    image[20:80, 30:360], image[120:280, 20:30] = (20, 90, 160), (200, 20, 20)
    image[100:, 150:] = data.astronaut()[100:300, 100:350]
    return image


def screenshot(top: int = 0, left: int = 0, height: int = 240, width: int = 320) -> Picture:
    """A part of a screenshot of the web app."""
    with Image.open(SCREENSHOT) as image:
        return np.array(image.convert("RGB"))[top : top + height, left : left + width]


DRAWN: dict[str, Callable[[], Picture]] = {
    "squares": squares,
    "shapes": lambda: shapes()[0],
    "anti-aliased shapes": lambda: shapes(finer=4)[0],
    "letters": text,
    "bars": lambda: chart("bars"),
    "pie": lambda: chart("pie"),
    "logo": lambda: shipped("logo"),
    "horse": lambda: shipped("horse"),
    "checkerboard": lambda: shipped("checkerboard"),
    "screenshot": screenshot,
    "spiral": spiral,
    "collage": collage,
}


@cache
def drawn(name: str) -> Picture:
    """The drawn image of that name, (H, W, 3) uint8."""
    return DRAWN[name]()
