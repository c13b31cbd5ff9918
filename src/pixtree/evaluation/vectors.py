"""Measures of drawings: how near they come to their image, rendered at several sizes, and what they cost."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.evaluation.renderers import Pixels, Renderer, at_size
from pixtree.files import replacing
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.kernels.image.cracks import planar_map
from pixtree.tasks.vectorize import planes_of, rendered, vectorize
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines.pieces import exact_outlines
from pixtree.vector.paint.layers import layers_of
from pixtree.vector.svg.document import Markup

# vtracer's defaults, and six settings that span its range from few bytes to high quality; polygons make the most of bytes.
VTRACER: dict[str, dict[str, Any]] = {
    "defaults": {},
    "photo": {"filter_speckle": 10, "color_precision": 8, "layer_difference": 48},
    "fine": {"filter_speckle": 2, "color_precision": 8, "layer_difference": 8},
    "cutout": {"hierarchical": "cutout", "filter_speckle": 4, "color_precision": 8, "layer_difference": 16},
    "polygon": {"mode": "polygon", "filter_speckle": 4, "color_precision": 8, "layer_difference": 16},
    "coarse polygon": {"mode": "polygon", "filter_speckle": 8, "color_precision": 8, "layer_difference": 24},
    "coarsest polygon": {"mode": "polygon", "filter_speckle": 10, "color_precision": 8, "layer_difference": 48},
}
SIZES = (0.73, 1.37)


class Method(NamedTuple):
    """A way from pixels (H, W, 3) to SVG text: `prepare` gives what `convert` takes, outside the clock."""

    name: str
    prepare: Callable[[Pixels], Any]
    convert: Callable[[Any], str]


def own_method(name: str, **options: Any) -> Method:
    """`vectorize` with some options."""
    return Method(name, lambda picture: picture, lambda picture: str(vectorize(picture, **options)))


def vtracer_method(setting: str) -> Method:
    """vtracer at one of its settings, from an uncompressed PNG in memory."""
    if setting not in VTRACER:
        raise ValueError(f"a setting of vtracer is one of {', '.join(VTRACER)}, got {setting!r}; choose one of these")

    def convert(png: bytes) -> str:
        vtracer = import_module("vtracer")
        return str(vtracer.convert_raw_image_to_svg(png, img_format="png", **VTRACER[setting]))

    return Method(f"vtracer {setting}", _uncompressed_png, convert)


def _uncompressed_png(picture: Pixels) -> bytes:
    import io

    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(picture).save(stream, "png", compress_level=0)
    return stream.getvalue()


def shown(path: Path) -> Pixels:
    """The pixels (H, W, 3) of an image file over white: what drawings are compared with."""
    planes = planes_of(path, transparency=False)
    return planes.round().byte().permute(1, 2, 0).contiguous().numpy()


def measure(text: str, picture: Pixels, sizes: Sequence[float] = SIZES) -> dict[str, float]:
    """MSE (0…1 squared), PSNR and SSIM of an SVG text at native size, PSNR at other sizes, hairlines, bytes and paths.

    Other sizes: the image resized by area (smaller) or cubic interpolation (larger). Hairlines: largest and mean squared
    difference, in grey levels, between renderings over black and white, without the outermost two pixels, at the worst size.
    Without `sizes` native size alone is measured, and no hairlines.
    """
    from skimage.metrics import structural_similarity

    native = at_size(text, picture.shape[:2])
    window = min(7, *(size - 1 + size % 2 for size in picture.shape[:2]))  # scikit-image's window, where the picture has room
    options = {"channel_axis": 2, "data_range": 1.0, "win_size": window}
    similarity = structural_similarity(native / 255.0, picture / 255.0, **options)  # type: ignore[no-untyped-call]
    found = {"mse": mean_squared_error(native, picture), "ssim": float(similarity)}
    found["psnr"] = psnr(found["mse"])
    gaps = [background_difference(native, text)] if sizes else []
    for size in sizes:
        reference = resized(picture, size)
        drawn = at_size(text, reference.shape[:2])
        found[f"psnr_{size:g}"] = psnr(mean_squared_error(drawn, reference))
        gaps.append(background_difference(drawn, text))
    if gaps:
        found["gap_largest"], found["gap_mean_square"] = max(gap[0] for gap in gaps), max(gap[1] for gap in gaps)
    return found | {"bytes": float(len(text.encode())), "paths": float(text.count("<path"))}


def resized(picture: Pixels, scale: float) -> Pixels:
    """The picture at another scale: by area if smaller, by cubic interpolation if larger."""
    import cv2

    width, height = round(picture.shape[1] * scale), round(picture.shape[0] * scale)
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, (max(width, 1), max(height, 1)), interpolation=how))


def background_difference(white: Pixels, text: str, renderer: Renderer = rendered) -> tuple[float, float]:
    """Largest and mean squared difference of a rendering over white to that over black, two pixels inside the border."""
    black = at_size(text, white.shape[:2], "#000000", renderer).astype(np.int32)
    inside = (white - black)[2:-2, 2:-2]
    if not inside.size:
        return 0.0, 0.0
    return float(np.abs(inside).max()), float((inside**2).mean())


def hairlines(text: str, picture: Pixels, renderer: Renderer = rendered) -> list[dict[str, float]]:
    """At every scale: what shows of the background between shapes (grey levels, grey levels squared), and the PSNR."""
    rows = []
    for scale in (SIZES[0], 1.0, SIZES[1]):
        reference = picture if scale == 1 else resized(picture, scale)
        white = at_size(text, reference.shape[:2], renderer=renderer)
        largest, mean_square = background_difference(white, text, renderer)
        quality = psnr(mean_squared_error(white, reference))
        rows.append({"scale": scale, "gap_largest": largest, "gap_mean_square": mean_square, "psnr": quality})
    return rows


def polygon_faults(labels: NDArray[np.int32], renderer: Renderer = rendered) -> tuple[int, int]:
    """Pixels that the polygons of a label map (H, W), painted crisply, leave uncovered, and pixels in another region's colour.

    Every region has a colour of its own, so that no mistake hides behind equal colours.
    """
    arcs = planar_map(labels)
    names = np.arange(arcs.count, dtype=np.int64) + 1  # not black, which is a background
    colours = np.stack([names >> 16, names >> 8 & 255, names & 255], axis=1)
    text = str(Drawing(arcs, exact_outlines(arcs), colours.astype(np.float64), layers_of(arcs), Markup("crisp")))
    white, black = renderer(text, "#ffffff"), renderer(text, "#000000")
    return int((white != black).any(axis=2).sum()), int((white != colours[labels]).any(axis=2).sum())


def compare(images: Sequence[Path], methods: Sequence[Method], sizes: Sequence[float] = SIZES) -> Iterator[dict[str, Any]]:
    """One row per image and method: its measures and the seconds of conversion; methods take turns on every image."""
    for path in images:
        picture = shown(path)
        for method in methods:
            ready = method.prepare(picture)
            start = time.perf_counter()
            text = method.convert(ready)
            seconds = time.perf_counter() - start
            yield {"image": path.name, "method": method.name, "seconds": seconds, **measure(text, picture, sizes)}


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Means over the images per method; `psnr_of_mean` is the PSNR of the mean MSE, as papers report it."""
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        means = {key: float(np.mean([row[key] for row in own])) for key in own[0] if key not in ("image", "method")}
        if "gap_largest" in means:
            means["gap_largest"] = max(row["gap_largest"] for row in own)
        table.append({"method": method, "images": len(own), **means, "psnr_of_mean": psnr(means["mse"])})
    return table


def plot_rate_distortion(table: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Mean PSNR against mean bytes, as .png: every drawing a named point, a line through the best of each program."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    axis = figure.subplots()
    for index, family in enumerate(dict.fromkeys(row["method"].split()[0] for row in table)):
        own = sorted((row for row in table if row["method"].split()[0] == family), key=lambda row: (row["bytes"], -row["psnr"]))
        best = [row for place, row in enumerate(own) if all(row["psnr"] > other["psnr"] for other in own[:place])]
        axis.scatter([row["bytes"] / 1000 for row in own], [row["psnr"] for row in own], color=f"C{index}", s=22, zorder=3)
        line = [row["bytes"] / 1000 for row in best], [row["psnr"] for row in best]
        axis.plot(*line, color=f"C{index}", label=family, linewidth=2)
        for row in own:
            name, point = row["method"].removeprefix(family).strip(" ,"), (row["bytes"] / 1000, row["psnr"])
            axis.annotate(name, point, (5, -3), textcoords="offset points", va="top", fontsize=7.5, color=f"C{index}")
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axis.margins(x=0.12, y=0.1)
    axis.set_xlabel("kB of SVG, mean")
    axis.set_ylabel("PSNR in dB, mean")
    axis.grid(alpha=0.3)
    axis.legend(loc="upper left")
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110)
