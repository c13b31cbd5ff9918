"""Vectorize: any image as a watertight drawing of few shapes."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import ChannelAxis, Image, Window, checked, checked_mask
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.messages import warn_once
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import AtMost
from pixtree.trees.partition import Partition
from pixtree.vector.budgets import Limits, OutOfReachError, best_drawing
from pixtree.vector.drawing import Drawing, over_white
from pixtree.vector.line_art import line_art
from pixtree.vector.line_drawing import LineDrawing, line_drawing
from pixtree.vector.losses import largest_loss
from pixtree.vector.potrace import TracedLayers, check_program, traced_layers
from pixtree.vector.presets import BUDGETS, with_preset
from pixtree.vector.regions.flat import USUAL, FlatColours, flat_colours
from pixtree.vector.regions.ink import is_ink_on_paper
from pixtree.vector.regions.objects import Objects
from pixtree.vector.regions.thin import with_thin_lines
from pixtree.vector.svg import Markup, Svg, checked_names
from pixtree.vector.tracing import Source, Tracing

GREY = (0.299, 0.587, 0.114)
PRINT = 1000  # flat areas above which an image is a print rather than a logo, an icon or line art
ROUNDS, CELLS = 2, 2  # of registration; per pixel, of the grid on which boundaries are found
COARSE_SHARE = 51  # the paper's lower layer gets one in 51 paths
FAINTEST = 3.0  # grey levels of 255: an image whose values span fewer is one flat colour to the eye
FEWEST = 2  # regions of a lower layer: with fewer it would be a background
SCAN = 'this looks like ink on paper, and is drawn as a photograph; preset="lineart" draws smooth ink on white paper instead'
# The criterion at a vanishing penalty splits only where features differ; the count then decides, in nested order.
VISIBLE = Criterion("aic", penalty=1e-12, single_volume=1.0)


def vectorize(
    image: Image,
    paths: int | None = None,
    *,
    bytes: int | None = None,
    psnr: float | None = None,
    points: int | None = None,
    colors: int | None = None,
    style: str | None = None,
    preset: str | None = None,
    artwork: bool | None = None,
    tolerance: float | None = None,
    fast: bool = False,
    transparency: bool | None = None,
    groups: int | Sequence[int] | None = None,
    ids: bool = False,
    passes: str | None = None,
    editable: bool = False,
    layers: Mapping[str, Image] | None = None,
    channel_axis: ChannelAxis = "auto",
    window: Window | None = None,
    page: int | None = None,
) -> Drawing | TracedLayers | LineDrawing:
    """The image as a drawing: `str(drawing)` is the SVG, `drawing.save("photo.svg")` (or .svgz) writes it.

    Budgets: the drawing has at most `paths` shapes (default 1000), takes at most `bytes` of SVG text, has at most
    `points` (coordinate pairs in its path data), or reaches at least `psnr` decibels at native size with as few shapes as possible.
    `colors` limits the palette.

    preset: "photo", "poster", "icon", "lineart" or "sketch"; options override those of the preset.
    style: "polyline", "smooth" (Bézier curves that deviate by at most `tolerance` pixels), "polygon" (the pixels' own edges),
    "lineart" (the ink of a scan, or of a photo of a page or a whiteboard, on white paper in even light), "strokes" (lines along the
    strong contours of the tree, `colors` pens, the strongest lines first) or "paper" (the paper's two layers of the tokenizer's
    regions, traced by the potrace program).
    artwork: whether the image is flat artwork (a logo, an icon, a screenshot, line art, text) and not a photograph; by default the
    library decides, and `drawing.artwork` is its decision. Artwork keeps its own colours and is drawn with straight lines, sharp
    corners and circular arcs (style "smooth"); blends at edges count as anti-aliasing. A flat image of more than 1000 areas, such
    as a woodblock print, counts as a photograph where the budget allows more shapes than it has areas.
    fast: find boundaries on whole pixels instead of finer cells, and do not refit the colours. Flat artwork needs neither step, so
    this has no effect there.
    transparency: keep the alpha of an image as `fill-opacity` and empty areas; by default wherever there is any. False composites
    over white. Drawings with alpha are always written with passes="single", since copies underneath would show through.
    groups: count or counts of coarser regions that nest the shapes as <g> elements. ids: give every path an id.
    passes: "double" (no gaps in any renderer; the default of photographs), "single" (no <use> elements; the default of artwork) or
    "crisp" (no anti-aliasing).
    editable: for editors: plain paths without copies, each with an id, in groups within groups that follow the tree.
    layers: masks (H, W) by name, bool or integers, such as those of `select`: no shape crosses the edges of a mask, and the shapes
    of each are a layer of that name, above the others. Where masks overlap, the later one is on top.
    window, page: as in `hierarchy`, for data that is neither bytes nor floats in 0..1, and for files of several pages.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> drawing = pixtree.vectorize(image, paths=2)
    >>> drawing.paths, drawing.size, str(drawing)[:4]
    (2, (60, 40), '<svg')
    """
    given = {"paths": paths, "bytes": bytes, "psnr": psnr, "points": points, "colors": colors, "style": style}
    chosen = with_preset(preset, given | {"artwork": artwork, "tolerance": tolerance})
    limits = Limits(chosen.get("paths"), chosen.get("bytes"), chosen.get("psnr"), chosen.get("points"))
    reading = {"channel_axis": channel_axis, "window": window, "page": page}
    _check_layers(chosen, layers, editable, passes)
    if chosen["style"] == "paper":
        return _paper(image, limits, reading)
    if chosen["style"] == "strokes":
        _check_strokes(limits, groups=groups, passes=passes)
        tracing = _tracing(chosen | {"style": "smooth"}, fast=fast, groups=(), markup=Markup(ids=ids))
        planes = planes_of(image, transparency=transparency, **reading)
        return line_drawing(planes, limits, pens=tracing.colors, tolerance=tracing.tolerance, ids=ids)
    if chosen["style"] == "lineart":
        _check_strokes(limits, groups=groups, passes=passes)
        markup = Markup(passes="single", ids=ids or editable, backing=False)
        planes = planes_of(image, transparency=False, **reading)
        return line_art(planes, limits, colors=chosen.get("colors"), tolerance=chosen["tolerance"], markup=markup)
    markup = Markup(passes=passes or ("single" if editable else "double"), ids=ids or editable)
    tracing = replace(_tracing(chosen, fast=fast, groups=_counts(groups), markup=markup), editable=editable)
    planes = planes_of(image, transparency=transparency, **reading)
    objects = _objects(layers, (int(planes.shape[1]), int(planes.shape[2]))) if layers else None
    planes = _greyed(planes) if chosen["grey"] else planes
    flat = _palette(planes, chosen, limits)
    _suggest_line_art(planes, chosen, flat)
    if flat is not None:
        if preset is None and all(given[name] is None for name in BUDGETS):
            limits = Limits(max(USUAL, flat.usual_paths()))
        markup = replace(tracing.markup, passes=passes or "single", backing=False)
        tracing = replace(tracing, style="smooth", artwork=True, cells=1, markup=markup)
    drawing = draw(planes, tracing, limits, flat, objects)
    loss = largest_loss(over_white(planes).numpy(), drawing.pixels(), None if flat is None else drawing.areas == "flat")
    if loss is not None:
        warn_once(loss.sentence(_remedy(given, preset, drawing)))
    return drawing


def _suggest_line_art(planes: Tensor, chosen: Mapping[str, Any], flat: FlatColours | None) -> None:
    """Name the preset for scans, where the image looks like one and nothing was said about its kind."""
    is_open = flat is None and chosen["artwork"] is None and chosen["style"] is None
    if is_open and len(planes) == 3 and is_ink_on_paper(planes.numpy()):
        warn_once(SCAN)


def _remedy(given: Mapping[str, Any], preset: str | None, drawing: Drawing) -> str:
    """What to try where an area was lost."""
    if given["colors"] is not None:
        return f"allow more colours than colors={given['colors']}"
    tight = [name for name in ("paths", "bytes", "points") if given[name] is not None]
    if tight:
        return f"allow more than {tight[0]}={given[tight[0]]}"
    if preset is not None:
        return f"try more colors= and paths= than preset={preset!r} has, or leave it out"
    return "try artwork=False" if drawing.artwork else "try artwork=True, or more paths="


def _tracing(chosen: dict[str, Any], *, fast: bool, groups: tuple[int, ...], markup: Markup) -> Tracing:
    """How regions become shapes, by the options of `vectorize`; artwork is detected later unless it is asked for."""
    style, artwork = chosen["style"] or "polyline", bool(chosen["artwork"])
    return Tracing(
        style=style,
        rounds=0 if fast else ROUNDS,
        cells=1 if fast or (style == "smooth" and not artwork) else CELLS,  # curves smooth photos anyway
        tolerance=chosen["tolerance"],
        artwork=artwork,
        colors=chosen.get("colors"),
        groups=groups,
        markup=replace(markup, backing=not artwork),
    )


def _palette(planes: Tensor, chosen: dict[str, Any], limits: Limits) -> FlatColours | None:
    """The colours of flat artwork, if the image is flat and the options allow it.

    A flat image of very many areas is a print. A budget of more shapes than it has areas asks for the blends and the grain between
    them, which only the drawing of a photograph shows; flat shapes would leave the budget unused.
    """
    if chosen["artwork"] is False or chosen["style"] not in (None, "smooth"):
        return None
    found = flat_colours(planes.numpy())
    if not found.is_artwork:
        return None
    allowed = limits.usual_paths() if limits.psnr is None else 0
    if chosen["artwork"] is None and chosen["style"] is None and allowed > PRINT and PRINT < found.areas() < allowed:
        return None if not found.is_straight() else found
    return replace(found, entries=with_thin_lines(found.entries, planes.numpy(), found.colours, ~found.photographs))


def draw(
    planes: Tensor, tracing: Tracing, limits: Limits, flat: FlatColours | None = None, objects: Objects | None = None
) -> Drawing:
    """The best drawing of planes (3 or 4, H, W) of `planes_of` within limits; flat: the palette of flat artwork."""
    pixels = int(planes.shape[1] * planes.shape[2])
    shown = over_white(planes).permute(1, 2, 0).numpy()
    source = Source.of(planes, tracing, most=limits.most_paths(pixels), flat=flat, objects=objects)
    try:
        return best_drawing(source, limits, lambda drawing: psnr_of(drawing, shown))
    except OutOfReachError:
        if limits.paths is not None or (source.regions.most == pixels and flat is None):
            raise
    # The small regions, or flat colours, were too few for this quality: start from the pixels.
    source = Source.of(planes, tracing, most=pixels, objects=objects)
    return best_drawing(source, limits, lambda drawing: psnr_of(drawing, shown))


def planes_of(image: Image, *, transparency: bool | None = None, **reading: Any) -> Tensor:
    """Planes (3, H, W) float32 in 0…255 of any grey, RGB or RGBA image; with alpha (4, H, W): colours times alpha, and alpha.

    reading: the options of `checked`. transparency: whether alpha is kept (None: if any pixel is not opaque) or composited over
    white.
    """
    pixels = checked(image, alpha=transparency is not False, **reading)
    if pixels.ndim != 3 or pixels.shape[0] not in (1, 3, 4):
        raise ValueError(f"an image to trace is grey, RGB or RGBA, got shape {tuple(pixels.shape)} (C, H, W); choose such channels")
    planes = pixels.to(torch.float32).cpu() * (1.0 if pixels.dtype == torch.uint8 else 255.0)
    if pixels.dtype != torch.uint8:
        _check_contrast(planes[:3])
    if pixels.shape[0] < 4:
        return planes.expand(3, -1, -1).contiguous()
    if bool((planes[3] == 255).all()):
        return planes[:3].contiguous()
    premultiplied = torch.cat((planes[:3] * (planes[3:] / 255), planes[3:]))
    return torch.round(over_white(premultiplied)) if transparency is False else premultiplied


def _check_contrast(planes: Tensor) -> None:
    """Refuse planes (C, H, W) in 0…255 of floats or 16 bits whose differences all vanish in the 8 bits of a drawing."""
    low, high = (float(end) for end in torch.aminmax(planes))
    if 0 < high - low < FAINTEST:
        raise ValueError(
            f"an image to trace needs values further apart, got values from {low / 255:.3g} to {high / 255:.3g} of 0 to 1, "
            'whose drawing would be one flat colour; pass window="auto" to stretch them'
        )


def rendered(text: str, background: str = "#ffffff") -> NDArray[np.uint8]:
    """SVG text rendered by resvg at its own size, (H, W, 3)."""
    import PIL.Image
    import resvg_py

    png = resvg_py.svg_to_bytes(svg_string=text, background=background, skip_system_fonts=True)
    return np.array(PIL.Image.open(io.BytesIO(bytes(png))).convert("RGB"))


def psnr_of(drawing: Svg, shown: NDArray[np.float32]) -> float:
    """PSNR in decibels of a drawing, rendered over white, against (H, W, 3) in 0…255."""
    return psnr(mean_squared_error(rendered(drawing.text), shown))


def _greyed(planes: Tensor) -> Tensor:
    grey = (planes[:3] * torch.tensor(GREY)[:, None, None]).sum(dim=0, keepdim=True)
    return torch.cat((grey.expand(3, -1, -1), planes[3:]))


def _counts(groups: int | Sequence[int] | None) -> tuple[int, ...]:
    counts = () if groups is None else ((groups,) if isinstance(groups, int) else tuple(groups))
    if any(count < 1 for count in counts):
        raise ValueError(f"groups are whole numbers of at least 1, got {groups}; try groups=20")
    return counts


def _check_layers(chosen: dict[str, Any], layers: Mapping[str, Image] | None, editable: bool, passes: str | None) -> None:
    """Refuse combinations of `layers` and `editable` with options that have no groups, or that join shapes."""
    asked = "layers=" if layers else "editable=True" if editable else None
    if (asked and chosen["style"] in ("paper", "strokes", "polygon")) or (layers and chosen["style"] == "lineart"):
        raise ValueError(f"{asked} draws shapes in groups, got style={chosen['style']!r}, which has none; leave one of them out")
    if editable and passes not in (None, "single"):
        raise ValueError(f"an editable drawing is written in a single pass, got passes={passes!r}; leave one of them out")
    if layers and chosen.get("colors") is not None:
        raise ValueError(f"a palette joins shapes of different layers, got layers= and colors={chosen['colors']}; leave one out")
    if layers is not None:
        checked_names(layers)


def _objects(layers: Mapping[str, Image], shape: tuple[int, int]) -> Objects:
    """The objects of an image of this shape from masks by name."""
    masks: dict[str, Tensor] = {}
    for name, mask in layers.items():
        try:
            found = checked_mask(mask, shape)
        except ValueError as fault:
            raise ValueError(f"layer {name!r}: {fault}") from fault
        masks[name] = torch.ones(shape, dtype=torch.bool) if found is None else found
    return Objects.of(masks)


def _check_strokes(limits: Limits, **others: Any) -> None:
    """Refuse options that strokes and line art cannot have: they do not show the image's light, so they have no meaningful PSNR."""
    given = [name for name, value in {"psnr": limits.psnr, **others}.items() if value is not None]
    if given:
        raise ValueError(
            f"strokes and line art take paths=, points=, bytes= and colors=, got {given[0]}=; leave it out or take another style"
        )


def _paper(image: Image, limits: Limits, reading: dict[str, Any]) -> TracedLayers:
    """The paper's drawing: a partition of few regions below, one of many above, both by the pretrained tokenizer."""
    if limits.paths is None or limits.sizes() or limits.psnr is not None:
        raise ValueError("style='paper' takes paths= only, got another budget; leave bytes=, points= and psnr= out")
    check_program()
    planes = planes_of(image, transparency=False, **reading)
    return traced_layers(planes, paper_layers(planes, limits.paths))


def paper_layers(planes: Tensor, paths: int, tokenizer: Tokenizer | None = None) -> list[Partition]:
    """The partitions of an image (3, H, W) float32 in 0…255, lowest first, with at most `paths` regions in all. [`tab:imagetrace`]

    The lower one has fewer regions and fills the gaps that potrace leaves between those above. Very few paths are one layer.
    """
    chosen = tokenizer or Tokenizer.pretrained(width=None, compactness=0.0)
    pixels = planes.round().to(torch.uint8)[None]
    below = max(paths // COARSE_SHARE, FEWEST) if paths > 2 * FEWEST else 0
    above = chosen.partition(pixels, AtMost(paths - below, VISIBLE))
    below = min(below, int(above.counts[0]) - 1)
    return [chosen.partition(pixels, AtMost(below, VISIBLE)), above] if below >= FEWEST else [above]
