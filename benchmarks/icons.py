"""Icons: originals as pixels at three sizes, traced, and the trace compared with the original at four times the size.

    npm pack openmoji @tabler/icons lucide-static             # in a folder of its own; the packages are read as they are
    PIXTREE_ICONS=that/folder python benchmarks/icons.py      # the part of the sample on which nothing was tuned
    PIXTREE_ICONS=that/folder python benchmarks/icons.py tuning 12    # a dozen of the other part, printed and not recorded

Beside vtracer at several settings and, where an icon has one colour on white, potrace (a program) on the pixels darker than half,
as they are and enlarged fourfold by cubic interpolation first. Points are coordinate pairs in path data; of the originals, the
corners of polygons and the ends of lines count as well, a circle or an ellipse as 4 and a rectangle as 4.
"""

import io
import os
import random
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
from evidence.records import PACKAGES, provenance, write_record
from rich.console import Console
from rich.progress import track

from pixtree.evaluation.vectors import Pixels, at_size
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.vectorize import vectorize
from pixtree.vector.svg import NUMBER, points_of

RESULTS = Path(__file__).parent / "results"
SIZES, ZOOM = (48, 128, 256), 4
TUNED, REPORTED, SEED = 40, 40, 0  # icons of each set on which constants were tuned, and others that are reported
MOST_POINTS, LEAST_DECIBELS = 2.0, 29.0  # of openmoji at 128 pixels


class Icons(NamedTuple):
    """A package of icons: the start of its archive's name, which files are icons, and its licence."""

    package: str
    files: str
    licence: str


SETS = {
    "openmoji": Icons("openmoji", r"package/color/svg/[^/]+\.svg", "CC BY-SA 4.0"),
    "tabler": Icons("tabler-icons", r"package/icons/(outline|filled)/[^/]+\.svg", "MIT"),
    "lucide": Icons("lucide-static", r"package/icons/[^/]+\.svg", "ISC"),
}
COLUMNS = [
    ["set", "Icons", ""],
    ["size", "Pixels", "d"],
    ["method", "Tracer", ""],
    ["icons", "Number", "d"],
    ["psnr", "PSNR at 4× ↑", ".2f"],
    ["points", "Points ↓", ".1f"],
    ["original_points", "of the originals", ".1f"],
    ["bytes", "Bytes ↓", ",.0f"],
]
VTRACER: dict[str, dict[str, Any]] = {
    "vtracer": {},
    "vtracer, no speckle filter": {"filter_speckle": 1},
    "vtracer, fine": {"filter_speckle": 1, "color_precision": 8, "layer_difference": 32, "path_precision": 1},
}


def archive_of(package: str) -> Path:
    if "PIXTREE_ICONS" not in os.environ:
        raise SystemExit("PIXTREE_ICONS must name the folder with the packages of icons, it is not set; set it first")
    found = sorted(Path(os.environ["PIXTREE_ICONS"]).glob(f"{package}-[0-9]*.tgz"))
    if not found:
        raise SystemExit(f"the folder must hold {package}-*.tgz, it does not; run npm pack there first")
    return found[-1]


def sample_of(icons: Icons) -> list[tuple[str, str]]:
    """Names and texts of icons of a set, the same ones for the same archive: the first TUNED are for tuning."""
    with tarfile.open(archive_of(icons.package)) as archive:
        names = sorted(name for name in archive.getnames() if re.fullmatch(icons.files, name))
        chosen = random.Random(SEED).sample(names, 2 * TUNED)
        files = {name: archive.extractfile(name) for name in chosen}
        return [(name.removeprefix("package/"), file.read().decode()) for name, file in files.items() if file is not None]


def points_of_original(text: str) -> int:
    """Coordinate pairs of an original, with those of shapes that are no paths."""
    corners = sum(len(NUMBER.findall(points)) // 2 for points in re.findall(r'\spoints="([^"]*)"', text))
    shapes = 4 * len(re.findall(r"<(?:circle|ellipse|rect)\b", text)) + 2 * len(re.findall(r"<line\b", text))
    return points_of(text) + corners + shapes


def traced_by_vtracer(picture: Pixels, options: dict[str, Any]) -> str:
    import vtracer
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "png", compress_level=0)
    return str(vtracer.convert_raw_image_to_svg(stream.getvalue(), img_format="png", **options))


def traced_by_potrace(picture: Pixels, enlargement: int) -> str:
    """The pixels darker than half, as potrace traces them with its defaults; its SVG has the size of the bitmap."""
    grey = picture.mean(axis=2).astype(np.float32)
    side = grey.shape[0] * enlargement
    dark = cv2.resize(grey, (side, side), interpolation=cv2.INTER_CUBIC) < 127.5
    bitmap = b"P4\n%d %d\n" % (side, side) + np.packbits(dark, axis=1).tobytes()
    return subprocess.run(["potrace", "--svg", "--output", "-", "-"], input=bitmap, capture_output=True, check=True).stdout.decode()


def methods_for(picture: Pixels) -> dict[str, Callable[[Pixels], str]]:
    """Every tracer that applies to a picture, by name."""
    found: dict[str, Callable[[Pixels], str]] = {"pixtree": lambda pixels: str(vectorize(pixels))}
    for name, options in VTRACER.items():
        found[name] = lambda pixels, options=options: traced_by_vtracer(pixels, options)  # type: ignore[misc]
    if one_coloured(picture):
        found["potrace"] = lambda pixels: traced_by_potrace(pixels, 1)
        found["potrace, enlarged 4×"] = lambda pixels: traced_by_potrace(pixels, 4)
    return found


def one_coloured(picture: Pixels) -> bool:
    """Whether the picture is black on white and nothing else but blends of both: no area, large or small, has another grey."""
    levels = picture.astype(np.int16)
    inside = np.ones(picture.shape[:2], np.bool_)  # pixels that equal all their neighbours are no blends
    for axis in (0, 1):
        for step in (-1, 1):
            inside &= (levels == np.roll(levels, step, axis)).all(axis=2)
    areas = levels[inside]
    return bool((np.ptp(levels, axis=2) <= 2).all() and levels.min() < 30 and ((areas < 30) | (areas > 225)).all())


def rows_of(name: str, icons: list[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """What every tracer makes of every icon at every size."""
    for icon, text in track(icons, name, console=Console(stderr=True)):
        for size in SIZES:
            picture, truth = at_size(text, (size, size)), at_size(text, (size * ZOOM, size * ZOOM))
            about = {
                "set": name,
                "icon": icon,
                "size": size,
                "original_points": points_of_original(text),
                "original_bytes": len(text.encode()),
            }
            for method, trace in methods_for(picture).items():
                drawn = trace(picture)
                quality = psnr(mean_squared_error(at_size(drawn, truth.shape[:2]), truth))
                yield {
                    **about,
                    "method": method,
                    "psnr": min(quality, 60.0),
                    "points": points_of(drawn),
                    "bytes": len(drawn.encode()),
                }


def summary(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the icons of each set, size and method."""
    together: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for row in rows:
        together.setdefault((row["set"], row["size"], row["method"]), []).append(row)
    table = []
    for (name, size, method), group in together.items():
        means = {key: float(np.mean([row[key] for row in group])) for key in ("psnr", "points", "bytes", "original_points")}
        table.append({"set": name, "size": size, "method": method, "icons": len(group), **means})
    return table


def bar(what: str, found: float, wanted: str, *, met: bool) -> dict[str, Any]:
    return {"what": what, "wanted": wanted, "found": found, "met": "yes" if met else "no"}


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was wanted: openmoji at 128 pixels, and a lead over every other tracer in the set and size where it is smallest."""
    ours = {(row["set"], row["size"], row["icon"]): row for row in rows if row["method"] == "pixtree"}
    emoji = [row for row in ours.values() if row["set"] == "openmoji" and row["size"] == 128]
    decibels = float(np.mean([row["psnr"] for row in emoji]))
    share = float(np.sum([row["points"] for row in emoji]) / np.sum([row["original_points"] for row in emoji]))
    found = [
        bar("openmoji at 128 px: dB at 4×", decibels, f"≥ {LEAST_DECIBELS:g}", met=decibels >= LEAST_DECIBELS),
        bar("openmoji at 128 px: points over the originals'", share, f"≤ {MOST_POINTS:g}", met=share <= MOST_POINTS),
    ]
    for method in dict.fromkeys(row["method"] for row in rows if row["method"] != "pixtree"):
        groups: dict[tuple[str, int], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
        for row in rows:
            if row["method"] == method:
                groups.setdefault((row["set"], row["size"]), []).append((ours[row["set"], row["size"], row["icon"]], row))
        leads = {key: float(np.mean([own["psnr"] - row["psnr"] for own, row in group])) for key, group in groups.items()}
        least = min(leads, key=lambda key: leads[key])
        found.append(bar(f"dB over {method}, least: {least[0]} at {least[1]} px", leads[least], "> 0", met=leads[least] > 0))
        for kind in ("points", "bytes"):
            shares = {key: sum(own[kind] for own, _ in group) / sum(row[kind] for _, row in group) for key, group in groups.items()}
            most = max(shares, key=lambda key: shares[key])
            what = f"share of the {kind} of {method}, most: {most[0]} at {most[1]} px"
            found.append(bar(what, float(shares[most]), "< 1", met=shares[most] < 1))
    return found


def show(table: list[dict[str, Any]], lines: list[dict[str, Any]]) -> None:
    for row in table:
        name = f"{row['set']} {row['size']} {row['method']}"
        cost = f"{row['points']:7.1f} points (original {row['original_points']:.0f}) {row['bytes']:8.0f} bytes"
        print(f"{name:45} n={row['icons']:3} {row['psnr']:6.2f} dB {cost}")
    for line in lines:
        if line["met"] == "no":
            print(f"not met: {line['what']}: {line['found']:.4g}, wanted {line['wanted']}")


def main() -> None:
    tuning = sys.argv[1:2] == ["tuning"]
    count = int(sys.argv[2]) if tuning and len(sys.argv) > 2 else TUNED
    rows = []
    for name, icons in SETS.items():
        sample = sample_of(icons)
        rows += list(rows_of(name, sample[:count] if tuning else sample[TUNED : TUNED + REPORTED]))
    table, lines = summary(rows), bars(rows)
    show(table, lines)
    if tuning:
        return
    heading = {"benchmark": "table", "title": "Icons traced from pixels, compared with their originals at four times the size"}
    source = provenance("PIXTREE_ICONS=... python benchmarks/icons.py", (*PACKAGES, "vtracer", "resvg-py"))
    about = {name: {"archive": archive_of(icons.package).name, "licence": icons.licence} for name, icons in SETS.items()}
    sample = (
        f"of each set {REPORTED} icons by seed {SEED}, on none of which a constant was tuned; {TUNED} others were used for that"
    )
    notes = [
        "The sets are " + ", ".join(f"{each['archive']} ({each['licence']})" for each in about.values()) + f"; {sample}.",
        "Icons are rasterised by resvg, traced, and the trace is compared with the original at four times the size, both by resvg. "
        "Potrace traces icons of one colour only, on the pixels darker than half.",
    ]
    content = {"sets": about, "sample": sample, "columns": COLUMNS, "rows": table, "bars": lines, "icons": rows, "notes": notes}
    write_record({**heading, **source, **content}, RESULTS / "icons.json")


if __name__ == "__main__":
    main()
