"""Eight drawings in eight programs: PSNR of every program's picture against that of resvg.

    python benchmarks/programs.py        # writes benchmarks/results/programs.json

A program that is not installed is named in the record as not tried: librsvg2-bin, chromium, firefox-esr, inkscape,
libreoffice-draw and poppler-utils are Debian's packages, CairoSVG and PySide6-Essentials those of pip.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from eight_pictures import PICTURES
from evidence.records import PACKAGES, provenance, version_of, write_record
from evidence.renderers import MODULES, PROGRAMS, RENDERERS, TOGETHER, missing

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import rendered, vectorize

RESULTS = Path(__file__).parent / "results"
LEAST = 35.0  # decibels


def version_line(name: str) -> str:
    """What a program says of its version, or the version of a package."""
    if name in MODULES:
        return str(version_of(MODULES[name][1]))
    program = next(found for each in PROGRAMS[name][0] if (found := shutil.which(each)))
    said = subprocess.run([program, "--version"], capture_output=True, check=False, timeout=60)
    return (said.stdout or said.stderr).decode(errors="replace").strip().splitlines()[0][:80]


def lowest(what: str, rows: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """The bar of the lowest PSNR of some programs."""
    found = min(row[name] for row in rows for name in names)
    return {"what": what, "wanted": f"≥ {LEAST:g}", "found": found, "met": "yes" if found >= LEAST else "no"}


def main() -> None:
    others = [name for name in RENDERERS if name != "resvg"]
    tried = [name for name in others if missing(name) is None]
    rows: list[dict[str, Any]] = []
    for picture, (make, options) in PICTURES.items():
        drawing = vectorize(make(), **options)
        text = str(drawing)
        wanted = rendered(text)
        row: dict[str, Any] = {
            "picture": picture,
            "options": options,
            "artwork": getattr(drawing, "artwork", False),
            "paths": drawing.paths,
            "bytes": drawing.bytes,
        }
        for name in tried:
            row[name] = min(psnr(mean_squared_error(RENDERERS[name](text, "#ffffff"), wanted)), 99.0)
        rows.append(row)
        print(picture, {name: round(row[name], 1) for name in tried}, flush=True)
    bars = [lowest("lowest PSNR against resvg", rows, tried)]
    if {"libreoffice", "libreoffice_pdf"} <= set(tried):
        read = [name for name in tried if name != "libreoffice"]
        bars.append(lowest("lowest PSNR against resvg, LibreOffice by its PDF instead of its pixels", rows, read))
    heading = {"benchmark": "table", "title": "Eight drawings in other programs: PSNR in dB against resvg's rendering"}
    source = provenance("python benchmarks/programs.py", (*PACKAGES, "resvg-py"))
    columns = [
        ["picture", "Drawing", ""],
        ["paths", "Paths", "d"],
        ["bytes", "Bytes", ",d"],
        *([name, name.replace("_pdf", ", PDF"), ".1f"] for name in tried),
    ]
    programs = {name: version_line(name) for name in tried if name not in TOGETHER}
    not_tried = {name: missing(name) for name in others if name not in tried}
    notes = [
        "Both renderings are over white, at the drawing's own size. "
        + "; ".join(f"{name}: {said}" for name, said in programs.items())
        + ".",
        "LibreOffice leaves half a pixel of room around any drawing, a plain rectangle too; drawings are given a frame, so that "
        "their pixels are pixels of the picture. It draws strokes, but not areas, half a pixel of the screen or of the exported "
        "picture to the right and below, at any size; thin lines suffer most from it. Its PDF, drawn by Cairo, has every line in "
        "its place.",
        *not_tried.values(),
    ]
    content = {"programs": programs, "columns": columns, "rows": rows, "notes": notes, "bars": bars}
    write_record({**heading, **source, **content}, RESULTS / "programs.json")
    for bar in bars:
        print(f"{bar['what']}: {bar['found']:.1f}, wanted {bar['wanted']}: {bar['met']}")


if __name__ == "__main__":
    main()
