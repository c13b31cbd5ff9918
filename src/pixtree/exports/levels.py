"""The picture of a tree: its levels as tilted planes above one another, and the branches between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.exports.labels import LabelsLike, numbered
from pixtree.exports.pictures import Picture, displayed, region_colours

if TYPE_CHECKING:
    from PIL.Image import Image as PillowImage

    from pixtree.images import Image

Points = NDArray[np.float64]

SAMPLES = 3  # per pixel and axis, for smooth lines
TILT = np.array([[0.9, -0.36], [0.11, 0.37]])  # image (x, y) -> page (x, y): seen from above, turned a little
GAP = 0.64  # between planes, in heights of a plane: they overlap a little
MARGIN = 0.05  # of the page's width
PLANE_OPACITY = 240  # of 255
GHOST_OPACITY = 0.4  # of a branch seen through the plane it ends in
SHADOW = 90  # of 255
INK = (30, 36, 52)
FEW, MANY = 30, 300  # regions between which lines become thinner and fainter


class Branch(NamedTuple):
    """A line of the tree on the page."""

    line: tuple[float, float, float, float]  # x, y of the child, x, y of the parent
    ink: tuple[int, int, int]
    opacity: float
    pen: float  # width in 1/1200 of the page

    def moved(self, x: float, y: float) -> "Branch":
        """The branch in a box of the page."""
        child_x, child_y, parent_x, parent_y = self.line
        return self._replace(line=(child_x + x, child_y + y, parent_x + x, parent_y + y))

    def faded(self, factor: float) -> "Branch":
        """The branch at a fraction of its opacity."""
        return self._replace(opacity=self.opacity * factor)


@dataclass(frozen=True)
class Plane:
    """One level and where it lies on the page, whose unit is a sample."""

    regions: NDArray[np.int32]  # (H, W) numbered, -1 outside
    colours: NDArray[np.float64]  # (N, 3) means, 0..255
    anchors: Points  # (N, 2) image coordinates x, y of each region's dot
    matrix: Points  # (2, 2) image -> page
    origin: Points  # (2,) page coordinates of the image's upper left corner

    def on_page(self, points: Points) -> Points:
        """Page coordinates (..., 2) of image coordinates (..., 2)."""
        return points @ self.matrix.T + self.origin

    def outline(self) -> Points:
        """Page coordinates (4, 2) of the image's corners."""
        height, width = self.regions.shape
        return self.on_page(np.array([(0, 0), (width, 0), (width, height), (0, height)], dtype=float))


def level_stack(image: "Image", levels: Sequence[LabelsLike], *, width: int = 1200) -> Picture:
    """Levels of a tree as tilted planes, the coarsest on top, with a branch from every region to its parent.

    `levels` are label maps of the image, sorted here by their counts; a region's parent is the region of the next coarser
    level it shares most pixels with (all of them, when the levels are nested). Planes show mean colours and boundaries,
    dots stand at the regions' centres. The picture is `width` pixels wide and as high as it needs.
    """
    if not levels:
        raise ValueError("a stack of levels needs at least 1 level, got none; pass label maps of one image")
    pixels = displayed(image)
    planes = sorted((_plane(pixels, labels) for labels in levels), key=lambda plane: -len(plane.colours))
    planes, height = _laid_out(planes, width * SAMPLES)
    page = _drawn(planes, (width * SAMPLES, height))
    return np.asarray(page.reduce(SAMPLES))


def _plane(pixels: Picture, labels: LabelsLike) -> Plane:
    _, regions = numbered(labels)
    if regions.shape != pixels.shape[:2]:
        raise ValueError(f"image and labels must have one size, got {pixels.shape[:2]} and {regions.shape}; resize one")
    return Plane(regions, region_colours(pixels, regions), anchors(regions), np.eye(2), np.zeros(2))


def anchors(regions: NDArray[np.int32]) -> Points:
    """Centre x, y (N, 2) of the pixel of each region that is nearest to its centroid: always inside the region."""
    rows, columns = np.nonzero(regions >= 0)
    of_pixel = regions[rows, columns]
    places = np.stack((columns, rows), axis=1) + 0.5
    areas = np.bincount(of_pixel)
    centroids = np.stack([np.bincount(of_pixel, weights=places[:, axis]) / areas for axis in (0, 1)], axis=1)
    distance = ((places - centroids[of_pixel]) ** 2).sum(axis=1)
    order = np.lexsort((distance, of_pixel))
    nearest: Points = places[order[np.append(0, np.cumsum(areas)[:-1])]]
    return nearest


def parents(fine: NDArray[np.int32], coarse: NDArray[np.int32]) -> NDArray[np.int64]:
    """For each region of `fine` (N,) the region of `coarse` it shares most pixels with; -1 if none."""
    inside = (fine >= 0) & (coarse >= 0)
    base = int(coarse.max(initial=-1)) + 1
    keys, shared = np.unique(fine[inside].astype(np.int64) * base + coarse[inside], return_counts=True)
    found = np.full(int(fine.max(initial=-1)) + 1, -1)
    order = np.argsort(shared, kind="stable")  # the largest overlap is written last
    found[keys[order] // base] = keys[order] % base
    return found


def _laid_out(planes: list[Plane], width: int) -> tuple[list[Plane], int]:
    """Planes placed on a page of the given width, the first at the bottom, and the page's height."""
    margin = MARGIN * width
    corners = replace(planes[0], matrix=TILT).outline()
    low, high = corners.min(axis=0), corners.max(axis=0)
    scale = (width - 2 * margin) / (high - low)[0]
    plane_height = scale * (high - low)[1]
    matrix = TILT * scale
    step = GAP * max(plane_height, 0.4 * width)
    tops = [margin + step * (len(planes) - 1 - place) for place in range(len(planes))]
    placed = [
        replace(plane, matrix=matrix, origin=np.array([margin, top]) - low * scale) for plane, top in zip(planes, tops, strict=True)
    ]
    return placed, SAMPLES * round((tops[0] + plane_height + 1.4 * margin) / SAMPLES)


def _drawn(planes: list[Plane], size: tuple[int, int]) -> "PillowImage":
    from PIL import Image

    page = Image.new("RGB", size, "white")
    _shade(page, planes[0])
    _paste(page, planes[0], ())
    for below, plane in pairwise(planes):
        branches = _branches(below, plane)
        _shade(page, plane)
        _draw_branches(page, branches)
        _draw_dots(page, below)
        _paste(page, plane, branches)
    _draw_dots(page, planes[-1])
    for plane in planes:
        _caption(page, plane)
    return page


def _shade(page: "PillowImage", plane: Plane) -> None:
    """A soft shadow under the plane."""
    from PIL import Image, ImageDraw, ImageFilter

    reach = page.width / 90
    shadow = Image.new("L", (page.width // 4, page.height // 4))  # blurred anyway: a quarter of the samples is enough
    corners = (plane.outline() + np.array([0, 1.2 * reach])) / 4
    ImageDraw.Draw(shadow).polygon([tuple(corner) for corner in corners], fill=SHADOW)
    shadow = shadow.filter(ImageFilter.GaussianBlur(reach / 4)).resize(page.size)
    page.paste(INK, mask=shadow)


def _paste(page: "PillowImage", plane: Plane, branches: Sequence[Branch]) -> None:
    """The plane in its mean colours with light lines between the regions; branches that end in it shine through."""
    from PIL import Image

    corners = plane.outline()
    left, top = np.floor(corners.min(axis=0)).astype(int).tolist()
    right, bottom = np.ceil(corners.max(axis=0)).astype(int).tolist()
    seen = _seen(plane, (left, top), (right - left, bottom - top))
    colours = np.append(plane.colours, [(255, 255, 255)], axis=0).astype(np.uint8)
    shown = Image.fromarray(colours[seen])  # the place after the last region's, -1, is white
    shown.paste("white", mask=_lines(seen, page.width, len(plane.colours)))
    _draw_branches(shown, [branch.moved(-left, -top).faded(GHOST_OPACITY) for branch in branches], page.width)
    page.paste(shown, (left, top), mask=Image.fromarray(np.where(seen >= 0, PLANE_OPACITY, 0).astype(np.uint8)))


def _seen(plane: Plane, corner: tuple[int, int], size: tuple[int, int]) -> NDArray[np.int32]:
    """The region seen at each sample of a box of the page, -1 for none."""
    from PIL import Image

    inverse = np.linalg.inv(plane.matrix)
    shift = inverse @ (np.array(corner) - plane.origin)
    data = (*inverse[0], shift[0], *inverse[1], shift[1])
    stored = Image.fromarray(plane.regions + 1)  # transform fills the space around the plane with 0
    return np.asarray(stored.transform(size, Image.Transform.AFFINE, data, Image.Resampling.NEAREST)) - 1


def _lines(seen: NDArray[np.int32], page_width: int, count: int) -> "PillowImage":
    """Opacity of the lines between regions: thinner and fainter the more regions there are."""
    from PIL import Image

    found = np.zeros(seen.shape, dtype=bool)
    for distance in range(1, _pen(page_width, _between(count, 1.7, 0.7)) + 1):
        found[:, distance:] |= seen[:, distance:] != seen[:, :-distance]
        found[distance:] |= seen[distance:] != seen[:-distance]
    return Image.fromarray(np.where(found, _between(count, 225, 140), 0).astype(np.uint8))


def _branches(fine: Plane, coarse: Plane) -> list[Branch]:
    """A line from every region's dot to its parent's dot, in the region's colour, darkened to stand out on white."""
    parent = parents(fine.regions, coarse.regions)
    start, end = fine.on_page(fine.anchors), coarse.on_page(coarse.anchors)[parent]
    ink = (0.55 * fine.colours + 0.45 * np.array(INK)).astype(int)
    opacity, pen = _between(len(parent), 0.9, 0.5), _between(len(parent), 1.7, 0.7)
    return [
        Branch((*start[child], *end[child]), (*ink[child],), opacity, pen)
        for child in np.argsort(start[:, 1])
        if parent[child] >= 0
    ]


def _draw_branches(page: "PillowImage", branches: Iterable[Branch], page_width: int | None = None) -> None:
    from PIL import ImageDraw

    draw = ImageDraw.Draw(page, "RGBA")
    for line, ink, opacity, pen in branches:
        draw.line(line, fill=(*ink, round(255 * opacity)), width=_pen(page_width or page.width, pen))


def _draw_dots(page: "PillowImage", plane: Plane) -> None:
    """A light dot with a dark rim on every region, smaller the more regions there are."""
    from PIL import ImageDraw

    draw = ImageDraw.Draw(page)
    radius = page.width / 1200 * float(np.clip(24 / len(plane.colours) ** 0.4, 1.6, 8))
    for x, y in plane.on_page(plane.anchors):
        box = (x - radius, y - radius, x + radius, y + radius)
        draw.ellipse(box, fill="white", outline=INK, width=max(1, round(radius / 4)))


def _caption(page: "PillowImage", plane: Plane) -> None:
    """The count of regions, above the plane's left corner."""
    from PIL import ImageDraw, ImageFont

    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(page.width / 55)
    text = f"{len(plane.colours):,} region{'s' if len(plane.colours) != 1 else ''}"
    corners = plane.outline()
    x, y = corners[corners[:, 0].argmin()]
    rise = draw.textlength(text, font) * TILT[1, 1] / -TILT[0, 1]  # of the plane's edge over the length of the text
    draw.text((x, y - rise - page.width / 70), text, fill=INK, font=font, anchor="ls")


def _between(count: int, bold: float, fine: float) -> float:
    """A value for a level of `count` regions, from bold for few to fine for many, in the logarithm of the count."""
    return float(np.interp(np.log(max(count, 1)), (np.log(FEW), np.log(MANY)), (bold, fine)))


def _pen(page_width: int, width: float) -> int:
    """A line width in 1/1200 of the page as whole samples."""
    return max(1, round(width * page_width / 1200))
