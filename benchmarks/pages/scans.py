"""Scans and photos of drawings: clean line art, and what paper, light, lens, sensor and JPEG make of it."""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from page import ZOOM, Box, Page, Pixels
from PIL import Image, ImageDraw, ImageFilter, ImageFont

WIDTH, HEIGHT = 900, 640
SCALE = 2 * ZOOM  # at which the pen draws, before its drawing is reduced


@dataclass(frozen=True)
class Camera:
    """How a drawing is caught: paper and ink in grey levels, light on the darkest side, blur and noise, quality of the JPEG."""

    paper: tuple[int, int, int] = (244, 242, 236)
    darkest: float = 0.8
    blur: float = 0.7
    noise: float = 5.0
    quality: int = 75


def scans() -> dict[str, Callable[[], Page]]:
    """Every scan, by its name."""
    return {
        f"scan-{name}": lambda name=name, draw=draw, camera=camera: _page(f"scan-{name}", draw, camera)  # type: ignore[misc]
        for name, (draw, camera) in SCANS.items()
    }


def _page(name: str, draw: Callable[["Pen"], None], camera: Camera) -> Page:
    pen = Pen()
    draw(pen)
    large = np.asarray(pen.image.resize((WIDTH * ZOOM, HEIGHT * ZOOM), Image.Resampling.BOX))
    clean = np.asarray(pen.image.resize((WIDTH, HEIGHT), Image.Resampling.BOX))
    return Page(name, "scan", caught(clean, camera, np.random.default_rng(len(name))), clean, large, tuple(pen.text_boxes))


def caught(clean: Pixels, camera: Camera, random: np.random.Generator) -> Pixels:
    """A clean drawing (H, W, 3) on paper in uneven light, out of focus, with the sensor's noise, as a JPEG shows it."""
    height, width = clean.shape[:2]
    y, x = np.mgrid[:height, :width] / max(height, width)
    angle = random.uniform(0, 2 * math.pi)
    along = math.cos(angle) * (x - 0.5) + math.sin(angle) * (y - 0.35)
    light = 1 - (1 - camera.darkest) * np.clip(0.5 + along + 0.25 * np.sin(2.5 * x + 1), 0, 1)
    grain = random.normal(0, 1.5, (height // 4 + 1, width // 4 + 1)).repeat(4, 0).repeat(4, 1)[:height, :width]
    values = clean / 255 * np.array(camera.paper) + 22 * (1 - clean / 255)  # no ink is quite black
    soft = np.asarray(Image.fromarray(np.uint8(np.clip(values, 0, 255))).filter(ImageFilter.GaussianBlur(camera.blur)), np.float64)
    seen = soft * light[..., None] + grain[..., None] + random.normal(0, camera.noise, clean.shape)
    stream = io.BytesIO()
    Image.fromarray(np.uint8(np.clip(np.rint(seen), 0, 255))).save(stream, "JPEG", quality=camera.quality)
    return np.asarray(Image.open(stream).convert("RGB"))


class Pen:
    """Lines, circles and words in the coordinates of the page, on an image SCALE times as large."""

    def __init__(self) -> None:
        self.image = Image.new("RGB", (WIDTH * SCALE, HEIGHT * SCALE), "white")
        self.draw = ImageDraw.Draw(self.image)
        self.text_boxes: list[Box] = []

    def line(self, points: list[tuple[float, float]], width: float = 2.5, ink: str = "black") -> None:
        """A line through points, with round ends."""
        scaled = [(x * SCALE, y * SCALE) for x, y in points]
        self.draw.line(scaled, ink, round(width * SCALE), joint="curve")
        reach = width * SCALE / 2
        for x, y in (scaled[0], scaled[-1]):
            self.draw.ellipse((x - reach, y - reach, x + reach, y + reach), fill=ink)

    def ring(self, x: float, y: float, radius: float, width: float = 2.5, ink: str = "black") -> None:
        """A circle."""
        box = [value * SCALE for value in (x - radius, y - radius, x + radius, y + radius)]
        self.draw.ellipse(box, outline=ink, width=round(width * SCALE))

    def disc(self, x: float, y: float, radius: float, ink: str = "black") -> None:
        """A filled circle."""
        box = [value * SCALE for value in (x - radius, y - radius, x + radius, y + radius)]
        self.draw.ellipse(box, fill=ink)

    def words(self, x: float, y: float, text: str, size: float, ink: str = "black") -> None:
        """Words with their top left corner at a point; their box is kept."""
        font = ImageFont.truetype("DejaVuSerif.ttf", size * SCALE)
        self.draw.text((x * SCALE, y * SCALE), text, ink, font)
        left, top, right, bottom = self.draw.textbbox((x * SCALE, y * SCALE), text, font)
        edges = (left / SCALE - 1, top / SCALE - 1, right / SCALE + 2, bottom / SCALE + 2)
        box = [int(min(max(edge, 0), limit)) for edge, limit in zip(edges, (WIDTH, HEIGHT) * 2, strict=True)]
        self.text_boxes.append((box[0], box[1], box[2], box[3]))


def _curve(x: float, y: float, size: float, lobes: int, phase: float = 0.0) -> list[tuple[float, float]]:
    """A closed curve with some lobes, such as a petal or a cloud."""
    turns = [k / 160 * 2 * math.pi for k in range(161)]
    radii = [size * (1 + 0.25 * math.sin(lobes * turn + phase)) for turn in turns]
    return [(x + r * math.cos(turn), y + r * math.sin(turn)) for r, turn in zip(radii, turns, strict=True)]


def _flowers(pen: Pen) -> None:
    for k in range(7):
        x, y = 110 + 120 * k, 240 + 90 * math.sin(k * 1.7)
        pen.line(_curve(x, y, 48, 5 + k % 3, k), 2.2)
        pen.ring(x, y, 14, 2)
        pen.line([(x + 8 * math.sin(t / 12), y + 60 + t) for t in range(0, 560 - int(y), 4)], 2.8)
        pen.line(_curve(x + 26, y + 150, 16, 2, 0.4), 1.8)


def _plan(pen: Pen) -> None:
    pen.line([(60, 60), (840, 60), (840, 580), (60, 580), (60, 60)], 6)
    for line in ([(60, 300), (380, 300)], [(450, 300), (840, 300)], [(450, 60), (450, 220)], [(620, 300), (620, 580)]):
        pen.line(line, 4)
    for x in range(80, 380, 24):
        pen.line([(x, 300), (x, 330)], 1)
    arc = [(450 + 70 * math.cos(t / 30), 300 - 70 * math.sin(t / 30)) for t in range(48)]
    pen.line(arc, 1.4)
    for x, y, text in ((180, 160, "KITCHEN"), (600, 160, "LIVING"), (200, 440, "BEDROOM"), (690, 430, "BATH")):
        pen.words(x, y, text, 22)
        pen.words(x, y + 30, "4.20 × 3.60 m", 13)


def _written(pen: Pen) -> None:
    lines = (
        "A page of a book, as a flat-bed scanner",
        "sees it: letters of a serif face with thin",
        "strokes, in black on paper that has yellowed.",
        "The gutter is darker than the margin, and",
        "the noise of the sensor lies over everything.",
        "Every letter should come out as a smooth shape,",
        "however rough its pixels are: & Qq Rr 0123.",
    )
    pen.words(60, 36, "Chapter Nine", 40)
    for k, line in enumerate(lines):
        pen.words(60, 120 + 66 * k, line, 30)


def _small(pen: Pen) -> None:
    sentence = "Small print needs every pixel that the scanner gives; thin strokes are hardly darker than the grain of the paper."
    for k in range(18):
        pen.words(40, 30 + 33 * k, f"{k + 1}. {sentence[k:]}"[:78], 18)


def _board(pen: Pen) -> None:
    for k, (ink, text) in enumerate((("#10309a", "Sprint 14"), ("#b01818", "blocked: API"), ("#0c7a34", "done: login, search"))):
        pen.words(70, 60 + 80 * k, text, 38, ink)
    for k, ink in enumerate(("#10309a", "#b01818", "#0c7a34", "#10309a")):
        x = 110 + 200 * k
        pen.line([(x, 340), (x + 150, 340), (x + 150, 450), (x, 450), (x, 340)], 5, ink)
        if k:
            pen.line([(x - 48, 395), (x - 8, 395)], 5, ink)
            pen.line([(x - 22, 383), (x - 6, 395), (x - 22, 407)], 5, ink)
    pen.line([(80 + t, 540 + 24 * math.sin(t / 30)) for t in range(0, 720, 4)], 6, "#b01818")


def _gears(pen: Pen) -> None:
    for x, y, radius, teeth in ((280, 320, 150, 24), (560, 300, 110, 18), (740, 440, 80, 12)):
        points = []
        for k in range(4 * teeth + 1):
            turn = k / (4 * teeth) * 2 * math.pi
            reach = radius * (1.1 if k % 4 in (1, 2) else 1.0)
            points.append((x + reach * math.cos(turn), y + reach * math.sin(turn)))
        pen.line(points, 2)
        pen.ring(x, y, radius * 0.3, 3)
        pen.ring(x, y, radius * 0.8, 1.2)
        pen.disc(x, y, 6)
        pen.line([(x - radius * 1.2, y), (x + radius * 1.2, y)], 0.9)
        pen.line([(x, y - radius * 1.2), (x, y + radius * 1.2)], 0.9)
    pen.words(60, 40, "FIG. 3", 26)


def _comic(pen: Pen) -> None:
    for x in (40, 470):
        pen.line([(x, 40), (x + 390, 40), (x + 390, 600), (x, 600), (x, 40)], 5)
    for x, smile in ((235, 1), (665, -1)):
        pen.line(_curve(x, 360, 120, 3, x), 4)
        for side in (-1, 1):
            pen.ring(x + side * 42, 330, 20, 3)
            pen.disc(x + side * 42 + 5, 334, 8)
        pen.line([(x + t, 400 + smile * (24 - t * t / 120)) for t in range(-54, 55, 3)], 5)
        pen.disc(x, 366, 9)
        for k in range(9):
            pen.line([(x - 90 + 22 * k, 250), (x - 100 + 24 * k, 215 - 12 * (k % 3))], 3)
    pen.words(90, 80, "Is this vector art?", 30)
    pen.words(520, 80, "It is now!", 30)


def _hatched(pen: Pen) -> None:
    for k in range(6):
        x, y, radius = 150 + 300 * (k % 3), 180 + 280 * (k // 3), 110
        pen.ring(x, y, radius, 2.4)
        for step in range(-radius, radius, 9 + k):
            half = math.sqrt(radius**2 - step**2)
            pen.line([(x + step, y - half), (x + step, y + half)], 1.3)
            if k % 2:
                pen.line([(x - half, y + step), (x + half, y + step)], 1.3)


SCANS: dict[str, tuple[Callable[[Pen], None], Camera]] = {
    "flowers": (_flowers, Camera()),
    "plan": (_plan, Camera(paper=(226, 232, 240), darkest=0.7)),
    "book": (_written, Camera(paper=(238, 226, 196), blur=0.8, noise=6)),
    "print": (_small, Camera(blur=0.5, noise=4, quality=85)),
    "whiteboard": (_board, Camera(paper=(226, 228, 230), darkest=0.5, blur=1.1, noise=7, quality=70)),
    "gears": (_gears, Camera(darkest=0.6, blur=0.9, noise=8)),
    "comic": (_comic, Camera(noise=10, quality=60)),
    "hatched": (_hatched, Camera(paper=(250, 250, 250), darkest=0.9, blur=0.6)),
}
