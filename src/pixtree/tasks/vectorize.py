"""Raster to vector: any image as a watertight drawing of few shapes."""

import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import Image, checked
from pixtree.kernels.fidelity import mean_squared_error, psnr
from pixtree.vector.drawing import Drawing, empty_drawing
from pixtree.vector.potrace import TracedLayers, two_layers
from pixtree.vector.presets import with_preset
from pixtree.vector.search import Limits, OutOfReachError, best_drawing
from pixtree.vector.svg.document import Markup
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

    Budgets: the drawing has at most `paths` shapes (default 1000), takes at most `bytes` of SVG text, or reaches at least `psnr`
    decibels at native size with as few shapes as possible. `colors` limits the palette.

    preset: "photo", "poster", "icon" or "sketch"; options given beside a preset win.
    style: "polyline", "smooth" (Bézier curves that deviate by at most `tolerance` pixels), "polygon" (the pixels' own edges) or
    "paper" (the paper's two layers, traced by the potrace program). fill: "flat" or "linear", gradients where they are worth it.
    artwork: treat blends at edges as anti-aliasing, for logos, text and flat drawings.
    fast: find boundaries on whole pixels instead of finer cells, and do not refit the colours.
    transparency: leave transparent pixels of an RGBA image empty; by default they are composited over white.
    groups: count or counts of coarser regions that nest the shapes as <g> elements. ids: give every path an id.
    passes: "double" (no gaps in any renderer), "single" (no <use> elements) or "crisp" (no anti-aliasing).
    """
    given = {"paths": paths, "bytes": bytes, "psnr": psnr, "colors": colors, "fill": fill, "style": style}
    chosen = with_preset(preset, given | {"artwork": artwork, "tolerance": tolerance})
    limits = Limits(chosen.get("paths"), chosen.get("bytes"), chosen.get("psnr"))
    if chosen["style"] == "paper":
        return _paper(image, limits, channel_axis)
    tracing = Tracing(
        style=chosen["style"],
        fill=chosen["fill"],
        rounds=0 if fast else ROUNDS,
        cells=1 if fast or (chosen["style"] == "smooth" and not chosen["artwork"]) else CELLS,  # curves smooth photos by themselves
        tolerance=chosen["tolerance"],
        artwork=chosen["artwork"],
        colors=chosen.get("colors"),
        groups=_counts(groups),
        markup=Markup(passes=passes, ids=ids),
    )
    canvas = canvas_of(image, transparency=transparency, channel_axis=channel_axis)
    if chosen["grey"]:
        canvas = canvas._replace(planes=_greyed(canvas.planes))
    return draw(canvas, tracing, limits)


def draw(canvas: Canvas, tracing: Tracing, limits: Limits) -> Drawing:
    """The best drawing of a canvas within limits."""
    mask = canvas.mask
    planes = canvas.planes if mask is None else torch.where(mask, canvas.planes, 255.0)  # as it shows over white
    if mask is not None and not mask.any():
        return empty_drawing((int(planes.shape[1]), int(planes.shape[2])), tracing.markup)
    pixels = int(planes.shape[1] * planes.shape[2]) if mask is None else int(mask.sum())
    source = Source.of(planes, tracing, most=limits.most_paths(pixels), mask=mask)
    shown = planes.permute(1, 2, 0).numpy()
    try:
        return best_drawing(source, limits, lambda drawing: psnr_of(drawing, shown))
    except OutOfReachError:
        if limits.paths is not None or source.regions.most == pixels:
            raise
    # The small regions were too few for so high a quality: start from the pixels.
    return best_drawing(Source.of(planes, tracing, most=pixels, mask=mask), limits, lambda drawing: psnr_of(drawing, shown))


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
    return psnr(mean_squared_error(rendered(drawing.text), shown))


def _greyed(planes: Tensor) -> Tensor:
    weights = torch.tensor(GREY)[:, None, None]
    return (planes * weights).sum(dim=0, keepdim=True).expand(3, -1, -1).contiguous()


def _counts(groups: int | Sequence[int] | None) -> tuple[int, ...]:
    counts = () if groups is None else ((groups,) if isinstance(groups, int) else tuple(groups))
    if any(count < 1 for count in counts):
        raise ValueError(f"groups are whole numbers of at least 1, got {groups}; try groups=20")
    return counts


def _paper(image: Image, limits: Limits, channel_axis: int | None) -> TracedLayers:
    if limits.paths is None or limits.bytes is not None or limits.psnr is not None:
        raise ValueError("style='paper' takes paths= only, got another budget; leave bytes= and psnr= out")
    return two_layers(canvas_of(image, channel_axis=channel_axis).planes, limits.paths)
