"""Raster to vector: any image as a watertight drawing of few shapes."""

import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import Image, checked
from pixtree.vector.budgets import Budget, OutOfReachError, best_drawing
from pixtree.vector.drawing import Drawing, empty_drawing
from pixtree.vector.paper import TracedLayers, two_layers
from pixtree.vector.presets import with_preset
from pixtree.vector.svg import Style
from pixtree.vector.tracing import Source, Tracing

GREY = (0.299, 0.587, 0.114)
OPAQUE = 0.5  # alpha from which on a pixel counts as there
ROUNDS, CELLS = 2, 2  # of registration; per pixel, of the grid on which boundaries are found


class Canvas(NamedTuple):
    """An image as it is traced: planes (3, H, W) float32 in 0…255; mask (H, W) bool of what is not transparent, or None."""

    planes: Tensor
    mask: Tensor | None


def vectorize(
    image: Image,
    paths: int | None = None,
    *,
    bytes: int | None = None,
    psnr: float | None = None,
    colors: int | None = None,
    fill: str | None = None,
    style: str | None = None,
    preset: str | None = None,
    artwork: bool | None = None,
    tolerance: float | None = None,
    fast: bool = False,
    transparency: bool = False,
    groups: int | Sequence[int] | None = None,
    ids: bool = False,
    passes: str = "double",
    channel_axis: int | None = -1,
) -> Drawing | TracedLayers:
    """The image as a drawing: `str(drawing)` is the SVG, `drawing.save("photo.svg")` (or .svgz) writes it.

    Budgets: at most `paths` shapes, at most `bytes` of SVG text, at least `psnr` decibels at native size (with as few shapes as
    reach it); all else is chosen to be best. 1000 paths if nothing is said. `colors` limits the palette.

    preset: "photo", "poster", "icon" or "sketch"; what is given beside it wins.
    style: "polyline", "smooth" (Bézier curves no farther than `tolerance` pixels off), "polygon" (the pixels' own edges) or "paper"
    (the paper's two layers, traced by the potrace program). fill: "flat" or "linear", gradients where they pay.
    artwork: take blends at edges as anti-aliasing, for logos, text and flat drawings.
    fast: find boundaries on the pixels themselves, not on finer cells, and leave out the registration of colours.
    transparency: keep what is transparent in an RGBA image empty; else it is composited over white.
    groups: count or counts of coarser regions that nest the shapes as <g> elements. ids: an id per path.
    passes: "double" (watertight everywhere), "single" (no <use>, for simple editors) or "crisp" (no anti-aliasing).
    """
    given = {"paths": paths, "bytes": bytes, "psnr": psnr, "colors": colors, "fill": fill, "style": style}
    chosen = with_preset(preset, given | {"artwork": artwork, "tolerance": tolerance})
    budget = Budget(chosen.get("paths"), chosen.get("bytes"), chosen.get("psnr"))
    if chosen["style"] == "paper":
        return _paper(image, budget, channel_axis)
    tracing = Tracing(
        style=chosen["style"],
        fill=chosen["fill"],
        rounds=0 if fast else ROUNDS,
        cells=1 if fast or (chosen["style"] == "smooth" and not chosen["artwork"]) else CELLS,  # curves smooth photos by themselves
        tolerance=chosen["tolerance"],
        artwork=chosen["artwork"],
        colors=chosen.get("colors"),
        groups=_counts(groups),
        paint=Style(passes=passes, ids=ids),
    )
    canvas = canvas_of(image, transparency=transparency, channel_axis=channel_axis)
    if chosen["grey"]:
        canvas = canvas._replace(planes=_greyed(canvas.planes))
    return draw(canvas, tracing, budget)


def draw(canvas: Canvas, tracing: Tracing, budget: Budget) -> Drawing:
    """The best drawing of a canvas within a budget."""
    mask = canvas.mask
    planes = canvas.planes if mask is None else torch.where(mask, canvas.planes, 255.0)  # as it shows over white
    if mask is not None and not mask.any():
        return empty_drawing((int(planes.shape[1]), int(planes.shape[2])), tracing.paint)
    pixels = int(planes.shape[1] * planes.shape[2]) if mask is None else int(mask.sum())
    source = Source.of(planes, tracing, most=budget.most_paths(pixels), mask=mask)
    shown = planes.permute(1, 2, 0).numpy()
    try:
        return best_drawing(source, budget, lambda drawing: psnr_of(drawing, shown))
    except OutOfReachError:
        if budget.paths is not None or source.regions.most == pixels:
            raise
    # The small regions were too few for so high a quality: start from the pixels.
    return best_drawing(Source.of(planes, tracing, most=pixels, mask=mask), budget, lambda drawing: psnr_of(drawing, shown))


def canvas_of(image: Image, *, transparency: bool = False, channel_axis: int | None = -1) -> Canvas:
    """The canvas of any image: grey, RGB or RGBA; alpha is a mask with `transparency`, else composited over white."""
    picture = checked(image, channel_axis=channel_axis, alpha=transparency)
    if picture.ndim != 3 or picture.shape[0] not in (1, 3, 4):
        raise ValueError(
            f"an image to trace is grey, RGB or RGBA, got shape {tuple(picture.shape)} (C, H, W); choose such channels"
        )
    planes = picture.to(torch.float32).cpu() * (1.0 if picture.dtype == torch.uint8 else 255.0)
    if picture.shape[0] == 4 and transparency:
        return Canvas(planes[:3].contiguous(), planes[3] >= 255 * OPAQUE)
    if picture.shape[0] == 4:
        alpha = planes[3:] / 255
        planes = torch.round(planes[:3] * alpha + 255 * (1 - alpha))
    return Canvas(planes.expand(3, -1, -1).contiguous(), None)


def rendered(text: str, background: str = "#ffffff") -> NDArray[np.uint8]:
    """An SVG text as resvg renders it at its own size, (H, W, 3)."""
    import PIL.Image
    import resvg_py

    png = resvg_py.svg_to_bytes(svg_string=text, background=background, skip_system_fonts=True)
    return np.array(PIL.Image.open(io.BytesIO(bytes(png))).convert("RGB"))


def psnr_of(drawing: Drawing, shown: NDArray[np.float32]) -> float:
    """PSNR in decibels of a drawing, rendered over white, against (H, W, 3) in 0…255."""
    squared = float(np.mean((rendered(drawing.text).astype(np.float32) - shown) ** 2, dtype=np.float64))
    return 99.0 if squared == 0 else float(10 * np.log10(255.0**2 / squared))


def _greyed(planes: Tensor) -> Tensor:
    weights = torch.tensor(GREY)[:, None, None]
    return (planes * weights).sum(dim=0, keepdim=True).expand(3, -1, -1).contiguous()


def _counts(groups: int | Sequence[int] | None) -> tuple[int, ...]:
    counts = () if groups is None else ((groups,) if isinstance(groups, int) else tuple(groups))
    if any(count < 1 for count in counts):
        raise ValueError(f"groups are whole numbers of at least 1, got {groups}; try groups=20")
    return counts


def _paper(image: Image, budget: Budget, channel_axis: int | None) -> TracedLayers:
    if budget.paths is None or budget.bytes is not None or budget.psnr is not None:
        raise ValueError("style='paper' takes paths= only, got another budget; leave bytes= and psnr= out")
    return two_layers(canvas_of(image, channel_axis=channel_axis).planes, budget.paths)
