"""Eight drawings in eight programs: PSNR of every program's picture against that of resvg.

    python benchmarks/programs.py        # writes benchmarks/results/programs.json

A program that is not installed is named in the record as not tried: librsvg2-bin, chromium, firefox-esr, inkscape and
libreoffice-draw are Debian's packages, CairoSVG and PySide6-Essentials those of pip.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from eight_pictures import PICTURES

from pixtree.evaluation.records import PACKAGES, provenance, version_of, write_record
from pixtree.evaluation.renderers import MODULES, PROGRAMS, RENDERERS, missing
from pixtree.kernels.fidelity import mean_squared_error, psnr
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
    lowest = min(row[name] for row in rows for name in tried)
    bar = {
        "what": "lowest PSNR against resvg",
        "wanted": f"≥ {LEAST:g}",
        "found": lowest,
        "met": "yes" if lowest >= LEAST else "no",
    }
    heading = {"benchmark": "table", "title": "Eight drawings in other programs: PSNR in dB against resvg's rendering"}
    source = provenance("python benchmarks/programs.py", (*PACKAGES, "resvg-py"))
    columns = [
        ["picture", "Drawing", ""],
        ["paths", "Paths", "d"],
        ["bytes", "Bytes", ",d"],
        *([name, name, ".1f"] for name in tried),
    ]
    programs = {name: version_line(name) for name in tried}
    not_tried = {name: missing(name) for name in others if name not in tried}
    notes = [
        "Both renderings are over white, at the drawing's own size. "
        + "; ".join(f"{name}: {said}" for name, said in programs.items())
        + ".",
        "LibreOffice's export draws any page of n pixels over n − 1 of them, a plain rectangle too; it is given one pixel more "
        "and a frame, so that pixels of the drawing are pixels of the picture.",
        *not_tried.values(),
    ]
    content = {"programs": programs, "columns": columns, "rows": rows, "notes": notes, "bars": [bar]}
    write_record({**heading, **source, **content}, RESULTS / "programs.json")
    print(f"{bar['what']}: {lowest:.1f}, wanted {bar['wanted']}: {bar['met']}")


if __name__ == "__main__":
    main()
