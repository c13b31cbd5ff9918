"""The tracers of the benchmark: pixtree, vtracer at five settings, and potrace on thresholded scans."""

import io
import resource
import subprocess
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from page import Page, Pixels
from PIL import Image

from pixtree.tasks.vectorize import vectorize

OURS, DEFAULTS = "pixtree", "vtracer defaults"
# vtracer's defaults, the three presets of its command line, and one that keeps what it can.
VTRACER: dict[str, dict[str, Any]] = {
    DEFAULTS: {},
    "vtracer bw": {"colormode": "binary"},
    "vtracer poster": {"color_precision": 8, "layer_difference": 16},
    "vtracer photo": {"filter_speckle": 10, "color_precision": 8, "layer_difference": 48, "corner_threshold": 180},
    "vtracer fine": {"filter_speckle": 1, "color_precision": 8, "layer_difference": 8, "path_precision": 2},
}
POTRACE = ("potrace", "potrace after mkbitmap")


def tracers_of(page: Page) -> dict[str, Callable[[], str]]:
    """Every tracer that applies to a page, by its name; reading the page is not part of any of them."""
    png = _png(page.pixels)
    options: dict[str, Any] = {"preset": "lineart"} if page.kind == "scan" else {}
    found: dict[str, Callable[[], str]] = {OURS: lambda: str(vectorize(page.pixels, **options))}
    for name, setting in VTRACER.items():
        found[name] = lambda setting=setting: by_vtracer(png, setting)  # type: ignore[misc]
    if page.kind == "scan":
        found |= {POTRACE[0]: lambda: by_potrace(page.pixels), POTRACE[1]: lambda: by_mkbitmap(page.pixels)}
    return found


def by_vtracer(png: bytes, setting: dict[str, Any]) -> str:
    import vtracer

    return str(vtracer.convert_raw_image_to_svg(png, img_format="png", **setting))


def by_potrace(pixels: Pixels) -> str:
    """The pixels darker than Otsu's threshold, as potrace traces them with its defaults."""
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    _, ink = cv2.threshold(grey, 0, 1, cv2.THRESH_BINARY_INV | cv2.THRESH_OTSU)
    height, width = ink.shape
    return _potrace(b"P4\n%d %d\n" % (width, height) + np.packbits(ink, axis=1).tobytes())


def by_mkbitmap(pixels: Pixels) -> str:
    """The bitmap of potrace's own program for scans (a high-pass filter, twice the size, a threshold), as potrace traces it."""
    height, width = pixels.shape[:2]
    header = b"P6\n%d %d\n255\n" % (width, height)
    bitmap = subprocess.run(["mkbitmap", "-o", "-", "-"], input=header + pixels.tobytes(), capture_output=True, check=True).stdout
    return _potrace(bitmap)


def _potrace(bitmap: bytes) -> str:
    return subprocess.run(["potrace", "--svg", "--output", "-", "-"], input=bitmap, capture_output=True, check=True).stdout.decode()


def _png(pixels: Pixels) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "png", compress_level=0)
    return stream.getvalue()


def processor_seconds() -> float:
    """Processor time of this process, its threads and the programs that it has run."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
