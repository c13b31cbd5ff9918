"""Renderers of SVG text: resvg, which comes with pixtree, and seven programs and libraries in which designers open drawings.

All of them run locally, each with its own folder for output. A program that is not installed is
an error that names its package.
"""

import io
import json
import os
import re
import shutil
import subprocess
import tempfile
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.evaluation.vectors import SIZES, Pixels, Renderer, at_size, background_difference, resized, svg_length, svg_parts
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.kernels.image.cracks import planar_map
from pixtree.tasks.vectorize import rendered
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines.pieces import exact_outlines
from pixtree.vector.paint import layers_of
from pixtree.vector.svg import Markup

LIBRSVG = "rsvg-convert"
SECONDS = 180  # that a program may take
SMALLEST_WINDOW = 500  # pixels: browsers show nothing in windows that are smaller than their frames
FRAME = 1.5  # pixels around a drawing for LibreOffice, see `_in_libreoffice`
# Per renderer the programs of which one must be on the PATH, or the Python module, and the package that has it.
PROGRAMS = {
    "librsvg": ((LIBRSVG,), "librsvg2-bin"),
    "chromium": (("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "firefox": (("firefox-esr", "firefox"), "firefox-esr"),
    "inkscape": (("inkscape",), "inkscape"),
    "libreoffice": (("soffice", "libreoffice"), "libreoffice-draw"),
    "poppler": (("pdftocairo",), "poppler-utils"),
}
TOGETHER = {"libreoffice_pdf": ("libreoffice", "poppler")}  # renderers of more than one program
MODULES = {"cairosvg": ("cairosvg", "CairoSVG"), "qtsvg": ("PySide6", "PySide6-Essentials")}


def missing(name: str) -> str | None:
    """Why a renderer cannot run here, with the package to install; None if it can."""
    for own in TOGETHER.get(name, (name,)):
        if own in PROGRAMS and _program(own) is None:
            programs, package = PROGRAMS[own]
            return f"{own} runs as the program {programs[0]}, found none on the PATH; install {package}"
    if name in MODULES and find_spec(MODULES[name][0]) is None:
        return f"{name} needs the Python package {MODULES[name][1]}, which is not installed; install it with pip"
    return None


def rendered_by_librsvg(text: str, background: str = "#ffffff") -> Pixels:
    """An SVG text as librsvg renders it at its own size, (H, W, 3)."""
    _check_installed("librsvg")
    command = [LIBRSVG, "--unlimited", "--background-color", background]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise ValueError(
            f"expected librsvg to read the drawing, got: {done.stderr.decode(errors='replace').strip()}; check its text"
        )
    return _opened(done.stdout)


def rendered_by_cairosvg(text: str, background: str = "#ffffff") -> Pixels:
    """An SVG text as CairoSVG renders it at its own size, (H, W, 3)."""
    _check_installed("cairosvg")
    import cairosvg

    return _opened(cairosvg.svg2png(bytestring=over(text, background).encode(), unsafe=True))


def rendered_by_qtsvg(text: str, background: str = "#ffffff") -> Pixels:
    """An SVG text as Qt's SVG module renders it at its own size, (H, W, 3)."""
    _check_installed("qtsvg")
    from PySide6.QtGui import QColor, QImage, QPainter
    from PySide6.QtSvg import QSvgRenderer

    width, height = size_of(text)
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor(background))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    renderer = QSvgRenderer(text.encode())
    renderer.setAspectRatioMode(_stretched(text))
    renderer.render(painter)
    painter.end()
    rows = np.frombuffer(image.constBits(), np.uint8).reshape(height, image.bytesPerLine())[:, : 4 * width]
    return np.ascontiguousarray(rows.reshape(height, width, 4)[..., 2::-1])  # BGRA -> RGB


def rendered_by_program(text: str, background: str = "#ffffff", *, name: str) -> Pixels:
    """An SVG text as a browser or an editor exports it at its own size, (H, W, 3)."""
    _check_installed(name)
    return _exported(name, over(text, background), *size_of(text))


def rendered_by_libreoffice(text: str, background: str = "#ffffff") -> Pixels:
    """An SVG text as LibreOffice draws it in pixels at its own size, (H, W, 3).

    Strokes, but not areas, lie half a pixel of the picture to the right and below, whatever their width and the size of the
    picture: LibreOffice moves every line by (½, ½) on its way to pixels. `rendered_by_libreoffice_pdf` does without.
    """
    return _in_libreoffice("libreoffice", text, background)


def rendered_by_libreoffice_pdf(text: str, background: str = "#ffffff") -> Pixels:
    """An SVG text as LibreOffice writes it to PDF, in pixels by Cairo at its own size, (H, W, 3).

    This shows what LibreOffice reads and prints, without its own way to pixels.
    """
    return _in_libreoffice("libreoffice_pdf", text, background)


def _in_libreoffice(name: str, text: str, background: str) -> Pixels:
    """The picture of LibreOffice's page without the room around it.

    The page of a drawing that lies within its canvas has half a pixel of room on every side, so that a plain square of w pixels,
    exported at the n pixels of its canvas, comes out as a blurred one of w n / (n + 1). With a frame of a pixel and a half around
    the drawing, which also holds what the drawing has beyond its canvas, the page is two pixels larger on every side.
    """
    _check_installed(name)
    width, height = size_of(text)
    crop = round(FRAME + 0.5)
    return _exported(name, _framed(text, background, FRAME), width + 2 * crop, height + 2 * crop)[crop:-crop, crop:-crop]


def _framed(text: str, background: str, frame: float) -> str:
    """The drawing on a sheet of one colour, larger by `frame` pixels on every side."""
    head, tag, body = svg_parts(text)
    width, height = size_of(text)
    box = re.search(r'viewBox="([^"]*)"', tag)
    left, top, across, down = (float(number) for number in box.group(1).split()) if box else (0.0, 0.0, width, height)
    x, y = frame * across / width, frame * down / height
    place = (left - x, top - y, across + 2 * x, down + 2 * y)
    tag = re.sub(r'\s(width|height|viewBox)="[^"]*"', "", tag)
    tag += f' width="{width + 2 * frame:g}" height="{height + 2 * frame:g}" viewBox="{" ".join(f"{v:.10g}" for v in place)}"'
    names = ("x", "y", "width", "height")
    sheet = " ".join(f'{name}="{value:.10g}"' for name, value in zip(names, place, strict=True))
    return f'{head}{tag}><rect {sheet} fill="{background}"/>{body[1:]}'


def _exported(name: str, text: str, width: int, height: int) -> Pixels:
    """The picture of (height, width) pixels that a program makes of an SVG text."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "drawing.svg", Path(folder) / "drawing.png"
        source.write_text(text, encoding="utf-8")
        environment = {**os.environ, "HOME": folder, "LC_ALL": "C.UTF-8"}
        for command in _commands(name, source, target, width, height):
            done = subprocess.run(command, capture_output=True, check=False, timeout=SECONDS, env=environment)
        if not target.exists():
            output = (done.stderr or done.stdout).decode(errors="replace").strip()[-300:]
            raise ValueError(f"expected {name} to render the drawing, got no picture and the output: {output}; check its text")
        return np.ascontiguousarray(_opened(target.read_bytes())[:height, :width])


def _commands(name: str, source: Path, target: Path, width: int, height: int) -> list[list[str]]:
    """The commands, one after the other, that write a drawing as a picture of (height, width) pixels."""
    program, profile = str(_program(TOGETHER.get(name, (name,))[0])), source.parent / "profile"
    window = f"--window-size={max(width, SMALLEST_WINDOW)},{max(height, SMALLEST_WINDOW)}"
    if name == "chromium":
        quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
        return [[program, *quiet, f"--user-data-dir={profile}", window, f"--screenshot={target}", source.as_uri()]]
    if name == "firefox":
        profile.mkdir()
        own = ["--headless", "--no-remote", "--profile", str(profile)]
        return [[program, *own, "--screenshot", str(target), window, source.as_uri()]]
    if name == "inkscape":
        size = [f"--export-width={width}", f"--export-height={height}"]
        return [[program, str(source), "--export-type=png", f"--export-filename={target}", *size]]
    office = [program, f"-env:UserInstallation={profile.as_uri()}", "--headless", "--convert-to"]
    place = ["--outdir", str(source.parent), str(source)]
    if name == "libreoffice_pdf":
        cairo = [str(_program("poppler")), "-png", "-singlefile", "-scale-to-x", str(width), "-scale-to-y", str(height)]
        files = [str(source.with_suffix(".pdf")), str(target.with_suffix(""))]
        return [[*office, "pdf:draw_pdf_Export", *place], [*cairo, *files]]
    sides = {"PixelWidth": width, "PixelHeight": height}
    filtered = json.dumps({side: {"type": "long", "value": str(n)} for side, n in sides.items()})
    return [[*office, f"png:draw_png_Export:{filtered}", *place]]


RENDERERS: dict[str, Renderer] = {
    "resvg": rendered,
    "librsvg": rendered_by_librsvg,
    "cairosvg": rendered_by_cairosvg,
    "qtsvg": rendered_by_qtsvg,
    **{name: partial(rendered_by_program, name=name) for name in ("chromium", "firefox", "inkscape")},
    "libreoffice": rendered_by_libreoffice,
    "libreoffice_pdf": rendered_by_libreoffice_pdf,
}


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


def librsvg_version() -> str:
    """The version number that librsvg's program prints."""
    _check_installed("librsvg")
    done = subprocess.run([LIBRSVG, "--version"], capture_output=True, check=True)
    return done.stdout.decode().split()[-1]


def over(text: str, background: str) -> str:
    """The drawing with a background of one colour."""
    head, tag, body = svg_parts(text)
    return f'{head}{tag}><rect width="100%" height="100%" fill="{background}"/>{body[1:]}'


def size_of(text: str) -> tuple[int, int]:
    """Width and height of a drawing in pixels."""
    _, tag, _ = svg_parts(text)
    return round(svg_length(tag, "width")), round(svg_length(tag, "height"))


def _stretched(text: str) -> Any:
    from PySide6.QtCore import Qt

    stretch = 'preserveAspectRatio="none"' in svg_parts(text)[1]
    return Qt.AspectRatioMode.IgnoreAspectRatio if stretch else Qt.AspectRatioMode.KeepAspectRatio


def _opened(content: bytes) -> Pixels:
    import PIL.Image

    return np.array(PIL.Image.open(io.BytesIO(content)).convert("RGB"))


def _program(name: str) -> str | None:
    return next((found for program in PROGRAMS[name][0] if (found := shutil.which(program))), None)


def _check_installed(name: str) -> None:
    reason = missing(name)
    if reason is not None:
        raise FileNotFoundError(reason)
