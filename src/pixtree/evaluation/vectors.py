"""Measures of drawings: their error when rendered at several sizes, their paths, bytes and seconds."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import planes_of, rendered, vectorize

Pixels = NDArray[np.uint8]
Renderer = Callable[[str, str], Pixels]  # SVG text and colour of the background -> (H, W, 3)

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
    """A way from pixels (H, W, 3) to SVG text: `prepare` makes the input of `convert` and is not timed."""

    name: str
    prepare: Callable[[Pixels], Any]
    convert: Callable[[Any], str]


def own_method(name: str, **options: Any) -> Method:
    """`vectorize` with some options."""
    return Method(name, lambda image: image, lambda image: str(vectorize(image, **options)))


def vtracer_method(setting: str) -> Method:
    """vtracer at one of its settings, from an uncompressed PNG in memory."""
    if setting not in VTRACER:
        raise ValueError(f"a setting of vtracer is one of {', '.join(VTRACER)}, got {setting!r}; choose one of these")

    def convert(png: bytes) -> str:
        vtracer = import_module("vtracer")
        return str(vtracer.convert_raw_image_to_svg(png, img_format="png", **VTRACER[setting]))

    return Method(f"vtracer {setting}", _uncompressed_png, convert)


def _uncompressed_png(image: Pixels) -> bytes:
    import io

    import PIL.Image

    stream = io.BytesIO()
    PIL.Image.fromarray(image).save(stream, "png", compress_level=0)
    return stream.getvalue()


def shown(path: Path) -> Pixels:
    """The pixels (H, W, 3) of an image file over white, the reference of drawings."""
    planes = planes_of(path, transparency=False)
    return planes.round().byte().permute(1, 2, 0).contiguous().numpy()


def measure(text: str, image: Pixels, sizes: Sequence[float] = SIZES) -> dict[str, float]:
    """MSE (0…1 squared), PSNR and SSIM of an SVG text at native size, PSNR at other sizes, hairlines, bytes and paths.

    Other sizes: the image resized by area (smaller) or cubic interpolation (larger). Hairlines: largest and mean squared
    difference, in grey levels, between renderings over black and white, without the outermost two pixels, at the worst size.
    Without `sizes` native size alone is measured, and no hairlines.
    """
    from skimage.metrics import structural_similarity

    native = at_size(text, image.shape[:2])
    window = min(7, *(size - 1 + size % 2 for size in image.shape[:2]))  # scikit-image's window, if the image is large enough
    options = {"channel_axis": 2, "data_range": 1.0, "win_size": window}
    similarity = structural_similarity(native / 255.0, image / 255.0, **options)  # type: ignore[no-untyped-call]
    found = {"mse": mean_squared_error(native, image), "ssim": float(similarity)}
    found["psnr"] = psnr(found["mse"])
    gaps = [background_difference(native, text)] if sizes else []
    for size in sizes:
        reference = resized(image, size)
        drawn = at_size(text, reference.shape[:2])
        found[f"psnr_{size:g}"] = psnr(mean_squared_error(drawn, reference))
        gaps.append(background_difference(drawn, text))
    if gaps:
        found["gap_largest"], found["gap_mean_square"] = max(gap[0] for gap in gaps), max(gap[1] for gap in gaps)
    return found | {"bytes": float(len(text.encode())), "paths": float(text.count("<path"))}


def at_size(text: str, shape: tuple[int, ...], background: str = "#ffffff", renderer: Renderer = rendered) -> Pixels:
    """An SVG text rendered to exactly (H, W, 3) pixels, each axis scaled for itself."""
    head, tag, body = svg_parts(text)
    if "viewBox" not in tag and re.search(r'\bwidth="[0-9.]+', tag) and re.search(r'\bheight="[0-9.]+', tag):
        tag += f' viewBox="0 0 {svg_length(tag, "width"):g} {svg_length(tag, "height"):g}"'
    tag = re.sub(r'\s(width|height|preserveAspectRatio)="[^"]*"', "", tag)
    tag += f' width="{shape[1]}" height="{shape[0]}" preserveAspectRatio="none"'
    return renderer(head + tag + body, background)


def svg_parts(text: str) -> tuple[str, str, str]:
    """The text before the root element, the inside of its tag, and the rest from its closing bracket on."""
    if "<svg" not in text:
        raise ValueError(f"an SVG text has an <svg> element, got {text[:40]!r}; pass the text of a drawing")
    start = text.index("<svg")
    end = text.index(">", start)
    return text[:start], text[start:end], text[end:]


def svg_length(tag: str, name: str) -> float:
    """The width or height of a root tag in pixels."""
    found = re.search(rf'\b{name}="([0-9.]+)', tag)
    if found is None:
        raise ValueError(f"a drawing to render has a {name} in pixels, got the tag {tag[:80]!r}; add {name}=")
    return float(found.group(1))


def resized(image: Pixels, scale: float) -> Pixels:
    """The image at another scale: by area if smaller, by cubic interpolation if larger."""
    import cv2

    width, height = round(image.shape[1] * scale), round(image.shape[0] * scale)
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, (max(width, 1), max(height, 1)), interpolation=how))


def background_difference(white: Pixels, text: str, renderer: Renderer = rendered) -> tuple[float, float]:
    """Largest and mean squared difference of a rendering over white to that over black, two pixels inside the border."""
    black = at_size(text, white.shape[:2], "#000000", renderer).astype(np.int32)
    inside = (white - black)[2:-2, 2:-2]
    if not inside.size:
        return 0.0, 0.0
    return float(np.abs(inside).max()), float((inside**2).mean())


def compare(images: Sequence[Path], methods: Sequence[Method], sizes: Sequence[float] = SIZES) -> Iterator[dict[str, Any]]:
    """One row per image and method: its measures and the seconds of conversion; methods take turns on every image."""
    for path in images:
        image = shown(path)
        for method in methods:
            ready = method.prepare(image)
            start = time.perf_counter()
            text = method.convert(ready)
            seconds = time.perf_counter() - start
            yield {"image": path.name, "method": method.name, "seconds": seconds, **measure(text, image, sizes)}


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
