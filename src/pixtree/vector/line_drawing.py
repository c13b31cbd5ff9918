"""The line drawing: chains as smooth strokes of a few pens on a white sheet, and its form as SVG text."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from pixtree.vector.budgets import Limits
from pixtree.vector.contours import Chain, chains_of, contours_of
from pixtree.vector.drawing import over_white
from pixtree.vector.outlines.beziers import cheapest_curves
from pixtree.vector.outlines.placement import Samples
from pixtree.vector.svg import SvgText, counted, hexadecimal, root_element

Array = NDArray[Any]
LARGEST = 640  # pixels of the longer side at which contours are looked for: a sketch has no finer lines
MOST = 1000  # strokes
PENS = 4
WEAK, STRONG, FULL = 3.0, 7.0, 40.0  # strength along a line, of a whole line, and of the widest and darkest
SHORTEST = 0.03  # of the longer side, of a line
WIDTHS = (0.0014, 0.0052)  # of the longer side, of the pen finer than the finest and of the widest,
SMALLEST = 320  # and pixels that this side counts at least, or pens would be hairlines
GREYS = (130, 10)
UNIT = 10  # grid steps per pixel


class LineDrawing(SvgText):
    """An SVG text of strokes; each is one path, the strongest first."""


@dataclass(frozen=True)
class Pens:
    """Pens by the strength of a line; side: pixels to which their widths are in proportion."""

    count: int
    side: int

    def level(self, chain: Chain) -> float:
        """Above 0, up to 1 for the widest and darkest pen."""
        return float(np.ceil(min(chain.force / FULL, 1.0) ** 0.5 * self.count)) / self.count

    def width(self, chain: Chain) -> float:
        """Pixels, a whole number of grid steps."""
        share = WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * self.level(chain)
        return max(round(share * self.side * UNIT), 1) / UNIT

    def attributes(self, chain: Chain) -> str:
        """Colour and width of a line."""
        grey = round(GREYS[0] + (GREYS[1] - GREYS[0]) * self.level(chain))
        return f'stroke="{hexadecimal((grey, grey, grey))}" stroke-width="{self.width(chain) * UNIT:.0f}"'


def line_drawing(planes: Tensor, limits: Limits, *, pens: int | None, tolerance: float, ids: bool) -> LineDrawing:
    """The drawing of planes (3 or 4, H, W), as `planes_of` gives them, with as many of the strongest strokes as the limits allow.

    tolerance: the largest deviation of a stroke from its contour, in pixels of an image of LARGEST pixels. An image with alpha has
    no sheet under its strokes.
    """
    height, width = int(planes.shape[1]), int(planes.shape[2])
    small = reduced(over_white(planes))
    side, most = max(small.shape[1:]), min(limits.most_paths(height * width), MOST)
    chains = chains_of(contours_of(small.numpy(), most), weak=WEAK, strong=STRONG, shortest=SHORTEST * side)[:most]
    choice, corner = Pens(pens or PENS, max(height, width, SMALLEST)), np.array([width, height])
    scale, halves = corner / small.shape[:0:-1], [0.5 * choice.width(chain) for chain in chains]
    # Programs that take the drawing's extent for the page would shift it if strokes reached over the sheet.
    lines = [np.clip(chain.points * scale, half, corner - half) for chain, half in zip(chains, halves, strict=True)]
    data = stroke_data(lines, tolerance * max(height, width) / side)
    strokes = [f'{choice.attributes(chain)} d="{path}"/>' for chain, path in zip(chains, data, strict=True)]
    names = [f' id="s{number}"' if ids else "" for number in range(len(strokes))]
    elements = [f"<path{name} {stroke}" for name, stroke in zip(names, strokes, strict=True)]
    sheet = f'<rect width="{width * UNIT}" height="{height * UNIT}" fill="#fff"/>' if len(planes) == 3 else ""
    return within(limits, lambda count: written((width, height), sheet, elements[:count]), len(elements))


def reduced(planes: Tensor) -> Tensor:
    """Planes (3, H, W) with the longer side at most LARGEST."""
    height, width = planes.shape[1:]
    scale = LARGEST / max(height, width)
    if scale >= 1:
        return planes
    size = (max(round(height * scale), 1), max(round(width * scale), 1))
    return interpolate(planes[None], size, mode="bilinear", antialias=True, align_corners=False)[0].contiguous()


def stroke_data(lines: Sequence[Array], tolerance: float) -> list[str]:
    """Path data, in 1/UNIT pixels, of curves no farther than `tolerance` pixels from lines (P, 2)."""
    if not lines:
        return []
    starts = np.cumsum([0, *map(len, lines)]).astype(np.int32)
    samples = Samples(np.concatenate(lines), starts)
    points, offsets, controls, curved = cheapest_curves(samples, np.zeros(len(lines), np.bool_), UNIT, tolerance)
    spans = [slice(a, b) for a, b in pairwise(offsets.tolist())]
    return [open_path(points[span].tolist(), controls[span].tolist(), curved[span].tolist()) for span in spans]


def open_path(points: list[list[int]], controls: list[list[int]], curved: list[bool]) -> str:
    """Path data of one line of curves; closed where it ends at its beginning."""
    x, y = points[0]
    text = [f"m{x} {y}"]
    for (to_x, to_y), control, bent in zip(points[1:], controls[1:], curved[1:], strict=True):
        ends = [*control, to_x, to_y] if bent else [to_x, to_y]
        steps = [value - (y if k % 2 else x) for k, value in enumerate(ends)]
        text.append("c" * bent + "l" * (not bent) + " ".join(map(str, steps)).replace(" -", "-"))
        x, y = to_x, to_y
    return "".join(text) + "z" * (points[0] == points[-1])


def written(size: tuple[int, int], sheet: str, elements: Sequence[str]) -> LineDrawing:
    """The drawing of these strokes."""
    inside = f'{sheet}<g fill="none" stroke-linecap="round" stroke-linejoin="round">{"".join(elements)}</g>'
    title = f"<title>Drawn by pixtree, {counted(len(elements), 'path')}</title>"
    return LineDrawing(f"{root_element(size, UNIT, inside)}{title}{inside}</svg>", len(elements), size)


def within(limits: Limits, draw: Callable[[int], LineDrawing], most: int) -> LineDrawing:
    """The drawing of as many of the first strokes as the limits of bytes and points allow."""
    for name, limit in limits.sizes():
        most = fitting(draw, most, name, limit)
    return draw(most)


def fitting(draw: Callable[[int], LineDrawing], most: int, name: str, limit: int) -> int:
    """How many of the first strokes take at most `limit` bytes or points, by `name`."""
    count = bisect_right(range(most + 1), limit, key=lambda number: int(getattr(draw(number), name))) - 1
    if count < 0:
        least = getattr(draw(0), name)
        raise ValueError(f"the smallest drawing of this image takes {least} {name}, got {name}={limit}; allow more")
    return count
