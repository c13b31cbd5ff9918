"""Renderers of SVG text: resvg, which comes with pixtree, and librsvg's program as a second opinion where it is installed."""

import io
import re
import shutil
import subprocess
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pixtree.tasks.vectorize import rendered

Pixels = NDArray[np.uint8]
Renderer = Callable[[str, str], Pixels]  # SVG text and colour of the background -> (H, W, 3)
LIBRSVG = "rsvg-convert"


def rendered_by_librsvg(text: str, background: str = "#ffffff") -> Pixels:
    """An SVG text as librsvg renders it at its own size, (H, W, 3)."""
    import PIL.Image

    _check_installed()
    command = [LIBRSVG, "--unlimited", "--background-color", background]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"librsvg must read the drawing, it says: {done.stderr.decode(errors='replace').strip()}; check its text")
    return np.array(PIL.Image.open(io.BytesIO(done.stdout)).convert("RGB"))


def _check_installed() -> None:
    if shutil.which(LIBRSVG) is None:
        raise FileNotFoundError(f"librsvg runs as the program {LIBRSVG}, found none on the PATH; install librsvg2-bin")


RENDERERS: dict[str, Renderer] = {"resvg": rendered, "librsvg": rendered_by_librsvg}


def librsvg_version() -> str:
    """The program's own version text."""
    _check_installed()
    done = subprocess.run([LIBRSVG, "--version"], capture_output=True, check=True)
    return done.stdout.decode().split()[-1]


def at_size(text: str, shape: tuple[int, ...], background: str = "#ffffff", renderer: Renderer = rendered) -> Pixels:
    """An SVG text rendered to exactly (H, W, 3) pixels, each axis scaled for itself."""
    head, rest = text[: text.index("<svg")], text[text.index("<svg") :]
    tag, body = rest[: rest.index(">")], rest[rest.index(">") :]
    size = {name: re.search(rf'\b{name}="([0-9.]+)', tag) for name in ("width", "height")}
    if "viewBox" not in tag and all(size.values()):
        width, height = (match.group(1) for match in size.values() if match is not None)
        tag += f' viewBox="0 0 {width} {height}"'
    tag = re.sub(r'\s(width|height)="[^"]*"', "", tag)
    tag += f' width="{shape[1]}" height="{shape[0]}" preserveAspectRatio="none"'
    return renderer(head + tag + body, background)
