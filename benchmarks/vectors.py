"""Drawings: quality at budgets, two renderers, other photos beside vtracer, speed, large photos, and pictures of them.

    PIXTREE_DATA=... python benchmarks/vectors.py            # all of it, one after the other
    python benchmarks/vectors.py quality     # DiffVG's five at budgets, beside vtracer and the paper's pipeline; the plot
    python benchmarks/vectors.py release CHECKOUT  # the same five compared with the authors' released demo
    python benchmarks/vectors.py renderers   # DiffVG's five in resvg and librsvg: hairlines, and polygons pixel by pixel
    python benchmarks/vectors.py others      # photos on which nothing was tuned, beside vtracer at equal bytes
    python benchmarks/vectors.py speed       # seconds beside vtracer's defaults and version 0.1 (PIXTREE_BEFORE), in turn
    python benchmarks/vectors.py large       # bytes and seconds per pixel at 0.75, 3 and 12 megapixels
    python benchmarks/vectors.py pictures    # drawings with enlarged parts, for the documentation

Records go to benchmarks/results, pictures to docs/pictures. librsvg and potrace are programs (librsvg2-bin, potrace).
CHECKOUT is the folder of a checkout of the authors' repository dsb-ifi/dHT; without arguments, `release` is left out.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from evidence.renderers import RENDERERS, hairlines, librsvg_version, polygon_faults
from rich.console import Console
from rich.progress import track
from vector_pictures import pictures
from vector_speed import COLUMNS as SPEED_COLUMNS
from vector_speed import timed

from pixtree.evaluation.plots import plot_rate_distortion
from pixtree.evaluation.vectors import (
    VTRACER,
    Method,
    compare,
    own_method,
    shown,
    summary,
    vtracer_method,
)
from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.tasks.segment import segment
from pixtree.tasks.vectorize import paper_layers, planes_of, rendered, vectorize
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.tokenizer.weights import RELEASE_OPTIONS, from_release
from pixtree.vector.potrace import traced_layers

RESULTS, PICTURES = Path(__file__).parent / "results", Path(__file__).parents[1] / "docs" / "pictures"
BEGUN = Path(__file__).parents[1] / "out" / "vectors_others.json"  # photos that are done, for a run that goes on
SUFFIXES = (".png", ".jpg")
BUNDLED = ("astronaut", "chelsea", "coffee", "hubble_deep_field", "immunohistochemistry", "retina", "rocket")  # no download
BUDGETS: dict[str, dict[str, Any]] = {
    "pixtree 500 paths": {"paths": 500},
    "pixtree 1000 paths": {"paths": 1000},
    "pixtree 5000 paths": {"paths": 5000},
    "pixtree 5000 paths, fast": {"paths": 5000, "fast": True},
    "pixtree 300 kB": {"bytes": 300_000},
    "pixtree 1 MB": {"bytes": 1_000_000},
}
# The paper's table of results (`tab:imagetrace`), as printed there.
PRINTED = [
    {"method": "Adobe", "mse": 0.00712, "psnr": 21.84, "ssim": 0.7318},
    {"method": "DiffVG-MC", "mse": 0.00316, "psnr": 25.54, "ssim": 0.8287},
    {"method": "DiffVG-AP", "mse": 0.00265, "psnr": 26.22, "ssim": 0.8494},
    {"method": "the paper's own (dHT)", "mse": 0.00178, "psnr": 27.50, "ssim": 0.8541},
]
PAPER_NOTE = (
    "The last table quotes the paper, and nothing in it is measured by us. The paper calls its images five examples of DiffVG and "
    "gives no counts of paths for them, so the files and the counts may differ from ours."
)
PATHS_PER_MEGAPIXEL, DECIBELS = 2000, 28.0  # of the large photo


def watched(items: Sequence[Any], what: str) -> Iterable[Any]:
    """The items, with a bar of progress on the error stream."""
    return track(items, what, console=Console(stderr=True))


def folder_of(name: str) -> list[Path]:
    if "PIXTREE_DATA" not in os.environ:
        raise SystemExit("PIXTREE_DATA must name the folder of the image sets, it is not set; set it first")
    return sorted(path for path in (Path(os.environ["PIXTREE_DATA"]) / name).iterdir() if path.suffix in SUFFIXES)


def bar(what: str, found: float, *, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    """One thing that was wanted, and what was found."""
    met = (least is None or found >= least) and (most is None or found <= most)
    wanted = f"≥ {least:,g}" if least is not None else f"≤ {most:,g}"
    return {"what": what, "wanted": wanted, "found": found, "met": "yes" if met else "no"}


def record(name: str, what: str, title: str, **content: Any) -> None:
    """Write benchmarks/results/<name>.json and show its bars."""
    heading = {"benchmark": "table", "title": title}
    source = provenance(f"python benchmarks/vectors.py {what}", (*PACKAGES, "vtracer", "resvg-py"))
    write_record({**heading, **source, **content}, RESULTS / f"{name}.json")
    for line in content["bars"]:
        print(f"{line['what']}: {line['found']:.4g}, wanted {line['wanted']}: {line['met']}")


# Quality


def paper_methods() -> list[Method]:
    """The paper's layers of 5,000 paths, by the tokenizer that ships with pixtree and by the authors' released weights."""
    tokenizer = Tokenizer(options=RELEASE_OPTIONS.changed(width=None))
    state = torch.load(Path(os.environ["PIXTREE_DATA"]) / "weights" / "r2v.pth", map_location="cpu", weights_only=True)
    tokenizer.regions = from_release(state)

    def released(picture: np.ndarray) -> str:
        planes = planes_of(picture)
        return str(traced_layers(planes, paper_layers(planes, 5000, tokenizer)))

    shipped = own_method("paper 5000 paths", paths=5000, style="paper")
    return [shipped, Method("paper 5000 paths, released weights", lambda picture: picture, released)]


def quality() -> None:
    """DiffVG's five at budgets of paths and bytes, vtracer at its settings, the paper's pipeline."""
    own = [own_method(name, **options) for name, options in BUDGETS.items()]
    others = [*(vtracer_method(setting) for setting in VTRACER), *paper_methods()]
    rows: list[dict[str, Any]] = []
    for path in watched(folder_of("diffvg5"), "quality"):
        for row in chain(compare([path], own), compare([path], others, ())):
            print(f"{row['image']}, {row['method']}: {row['psnr']:.2f} dB, {row['bytes']:,.0f} bytes", flush=True)
            rows.append(row)
    rows.sort(key=lambda row: [method.name for method in (*own, *others)].index(row["method"]))
    table = summary(rows)
    content = {"rows": table, "images": rows, "printed": PRINTED, "notes": [PAPER_NOTE], "bars": quality_bars(table)}
    record("vectors", "quality", "Drawings of DiffVG's five images", benchmark="vectors", **content)
    plot_rate_distortion(table, PICTURES / "vectors.png")


def quality_bars(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_name = {row["method"].removeprefix("pixtree "): row for row in table}
    flat, few = by_name["5000 paths"], by_name["1000 paths"]
    return [
        bar("5,000 paths: mean PSNR", flat["psnr"], least=32.0),
        bar("5,000 paths: MSE", flat["mse"], most=0.0013),
        bar("5,000 paths: SSIM", flat["ssim"], least=0.885),
        bar("5,000 paths: bytes", flat["bytes"], most=700_000),
        bar("5,000 paths: dB lost at 0.73×", flat["psnr"] - flat["psnr_0.73"], most=0.5),
        bar("5,000 paths: dB lost at 1.37×", flat["psnr"] - flat["psnr_1.37"], most=0.5),
        bar("1,000 paths: mean PSNR", few["psnr"], least=27.3),
        bar("1,000 paths: bytes", few["bytes"], most=270_000),
        bar("300 kB: mean PSNR", by_name["300 kB"]["psnr"], least=28.5),
        bar("1 MB: mean PSNR", by_name["1 MB"]["psnr"], least=32.5),
    ]


# The authors' released demo


RELEASE_COLUMNS = [
    ["method", "Method", ""],
    ["image", "Image", ""],
    ["paths", "Paths", ".0f"],
    ["bytes", "Bytes", ",.0f"],
    ["psnr", "PSNR dB", ".2f"],
    ["psnr_of_mean", "PSNR of the mean error, dB", ".2f"],
    ["ssim", "SSIM", ".4f"],
]
MULTIPLE = 32  # the demo takes sides that its encoder and the squares below its paths divide


def released_demo(checkout: Path) -> Method:
    """The raster-to-vector model of the authors' repository with its weights and default options."""
    if not (checkout / "dht" / "models.py").is_file():
        raise SystemExit(f"expected a checkout of the authors' repository dsb-ifi/dHT, {str(checkout)!r} is none; check the folder")
    sys.path.insert(0, str(checkout))
    model = importlib.import_module("dht.models").load_dht_ras2vec(normalize=True)

    def convert(picture: np.ndarray) -> str:
        height, width = picture.shape[:2]
        padded = np.pad(picture, ((0, -height % MULTIPLE), (0, -width % MULTIPLE), (0, 0)), mode="edge")
        torch.manual_seed(0)  # its inference draws random merges
        with torch.no_grad():
            text: str = model(torch.from_numpy(padded).permute(2, 0, 1)[None] / 255)  # HWC -> NCHW
        return text.replace("<svg ", f'<svg viewBox="0 0 {width} {height}" ', 1)  # without the padding

    return Method("released demo", lambda picture: picture, convert)


def release(checkout: Path) -> None:
    """The authors' demo on DiffVG's five, and our drawings and the paper's pipeline with as many paths on each."""
    demo = released_demo(checkout)
    rows: list[dict[str, Any]] = []
    for path in watched(folder_of("diffvg5"), "release"):
        (first,) = compare([path], [demo], ())
        paths = int(first["paths"])
        ours = [own_method("paper, as many paths", paths=paths, style="paper"), own_method("pixtree, as many paths", paths=paths)]
        rows += [first, *compare([path], ours, ())]
        print(f"{path.name}: {paths} paths", flush=True)
    for row in rows:
        del row["seconds"]  # nothing else takes turns with them
    rows.sort(key=lambda row: row["method"], reverse=True)
    notes = [
        "The demo chooses its own number of paths, over a background of squares of 32 px that are not counted; it has its default "
        "options and one seed. Images are padded to multiples of 32 px for it. The published figures have about 5,000 paths.",
    ]
    table = [{"image": "all five", **row} for row in summary(rows)]
    title = "Drawings compared with the authors' released demo"
    record("vectors_release", "release CHECKOUT", title, columns=RELEASE_COLUMNS, rows=[*table, *rows], notes=notes, bars=[])


# Two renderers


RENDERER_COLUMNS = [
    ["renderer", "Renderer", ""],
    ["image", "Image", ""],
    ["gap_largest", "Black against white, largest", ".0f"],
    ["gap_mean_square", "mean square", ".4f"],
    ["psnr_0.73", "PSNR at 0.73×", ".2f"],
    ["psnr_1", "at 1×", ".2f"],
    ["psnr_1.37", "at 1.37×", ".2f"],
    ["uncovered", "Uncovered pixels", "d"],
    ["wrong", "Wrong pixels", "d"],
]


def renderers() -> None:
    """What shows between shapes over black and white, and whether polygons give the label map back, in both renderers."""
    rows, version = [], librsvg_version()
    own_and_librsvg = {name: RENDERERS[name] for name in ("resvg", "librsvg")}
    for path in watched(folder_of("diffvg5"), "renderers"):
        picture = shown(path)
        text = str(vectorize(picture, paths=5000))
        labels = np.asarray(segment(picture, tokens=5000), np.int32)
        for name, renderer in own_and_librsvg.items():
            scales = hairlines(text, picture, renderer)
            worst = {key: max(scale[key] for scale in scales) for key in ("gap_largest", "gap_mean_square")}
            uncovered, wrong = polygon_faults(labels, renderer)
            quality = {f"psnr_{scale['scale']:g}": scale["psnr"] for scale in scales}
            rows.append({"renderer": name, "image": path.name, **worst, **quality, "uncovered": uncovered, "wrong": wrong})
    rows.sort(key=lambda row: row["renderer"], reverse=True)
    bars = []
    for name in own_and_librsvg:
        own = [row for row in rows if row["renderer"] == name]
        mean_square = float(np.mean([row["gap_mean_square"] for row in own]))
        bars += [
            bar(f"{name}: largest difference, of 255", max(row["gap_largest"] for row in own), most=8),
            bar(f"{name}: mean squared difference", mean_square, most=1),
            bar(f"{name}: uncovered pixels of polygons", sum(row["uncovered"] for row in own), most=0),
            bar(f"{name}: wrong pixels of polygons", sum(row["wrong"] for row in own), most=0),
        ]
    notes = [
        "Fitted outlines, 5,000 paths: renderings over black and over white, the worst of 0.73×, 1× and 1.37×, without the "
        f"outermost two pixels. Polygons: `crispEdges`, 5,000 regions, each in a colour of its own. librsvg {version}.",
    ]
    record(
        "vectors_renderers", "renderers", "Drawings in two renderers", columns=RENDERER_COLUMNS, rows=rows, notes=notes, bars=bars
    )


# Other photos


def others() -> None:
    """Lead in decibels over vtracer at no more bytes than its settings take."""
    photos = [(path.name, shown(path)) for path in folder_of("dht_testimgs")] + bundled_photos()
    found: list[dict[str, Any]] = json.loads(BEGUN.read_text(encoding="utf-8")) if BEGUN.exists() else []
    done = {row["image"] for row in found}
    for name, picture in watched([photo for photo in photos if photo[0] not in done], "others"):
        own = [{"image": name, **at_equal_bytes(picture, rival)} for rival in undominated(picture)]
        print(name, *(f"{row['setting']} {row['lead']:.2f}" for row in own), sep=", ", flush=True)
        found += own
        BEGUN.parent.mkdir(exist_ok=True)
        BEGUN.write_text(json.dumps(found), encoding="utf-8")
    numbers = ("bytes", "own_bytes", "vtracer", "pixtree", "lead")
    settings = []
    for setting in VTRACER:
        own = [row for row in found if row["setting"] == setting]
        if own:
            means = {key: float(np.mean([row[key] for row in own])) for key in numbers}
            settings.append({"setting": setting, "photos": len(own), **means})
    nearest = [min((row for row in found if row["image"] == name), key=lambda row: row["lead"]) for name, _ in photos]
    content = {
        "settings": settings,
        "rows": nearest,
        "images": found,
        "notes": [
            "Twelve photos of $PIXTREE_DATA/dht_testimgs and seven that scikit-image ships; nothing was tuned on them. Ours may "
            "take as many bytes as vtracer's file, never more. vtracer's best setting: where our lead is smallest. They are "
            f"{', '.join(VTRACER)}; those that take more bytes than another for less quality cannot be its best, and ours was not "
            "drawn beside them: the first table has the photos on which a setting was not beaten by another.",
        ],
        "bars": [
            bar("Mean lead, vtracer's best setting per photo", float(np.mean([row["lead"] for row in nearest])), least=5.3),
            bar("Least lead on any photo, vtracer's best setting", min(row["lead"] for row in nearest), least=4),
            bar("Bytes, ours to vtracer's, largest", max(row["own_bytes"] / row["bytes"] for row in found), most=1),
        ],
    }
    title = "Drawings beside vtracer at equal bytes, photos on which nothing was tuned"
    record("vectors_others", "others", title, benchmark="vectors_others", **content)
    BEGUN.unlink()


def undominated(picture: np.ndarray) -> list[dict[str, Any]]:
    """vtracer's drawings of a picture at its settings, without those of more bytes and less quality than another."""
    drawings = []
    for setting in VTRACER:
        rival = vtracer_method(setting)
        text = rival.convert(rival.prepare(picture))
        quality = psnr(mean_squared_error(rendered(text), picture))
        drawings.append({"setting": setting, "bytes": len(text.encode()), "vtracer": quality})
    return [a for a in drawings if not any(b["bytes"] < a["bytes"] and b["vtracer"] > a["vtracer"] for b in drawings)]


def at_equal_bytes(picture: np.ndarray, rival: dict[str, Any]) -> dict[str, Any]:
    """A drawing of vtracer's with ours beside it, of no more bytes."""
    own = vectorize(picture, bytes=rival["bytes"])
    quality = psnr(mean_squared_error(rendered(str(own)), picture))
    return {**rival, "own_bytes": own.bytes, "pixtree": quality, "lead": quality - rival["vtracer"]}


def bundled_photos() -> list[tuple[str, np.ndarray]]:
    """scikit-image's colour photos."""
    from skimage import data

    return [(name, getattr(data, name)()) for name in BUNDLED]


# Time


def speed(rounds: int = 3) -> None:
    """Seconds of one conversion, programs in turn, least of the rounds; and their ratios on the same image."""
    rows = timed(folder_of("diffvg5"), rounds)
    bars = [
        bar("5,000 paths, × vtracer's defaults, slowest image", max(row["own_ratio"] for row in rows), most=3),
        bar("fast, × vtracer's defaults, slowest image", max(row["fast_ratio"] for row in rows), most=1),
    ]
    if "before_ratio" in rows[0]:
        bars.append(bar("5,000 paths, × version 0.1, mean", float(np.mean([row["before_ratio"] for row in rows])), most=1.2))
    notes = [
        f"Wall-clock time of one conversion, pixels in memory to SVG text, in turn, least of {rounds} rounds. PIXTREE_BEFORE named "
        "the source tree of version 0.1.",
    ]
    record("vectors_speed", "speed", "Time of drawings", columns=SPEED_COLUMNS, rows=rows, notes=notes, bars=bars)


# Large photos


LARGE_COLUMNS = [
    ["megapixels", "Megapixels", ".2f"],
    ["paths", "Paths", "d"],
    ["psnr", "PSNR dB", ".2f"],
    ["bytes_per_pixel", "Bytes per pixel", ".4f"],
    ["seconds", "Seconds", ".2f"],
    ["seconds_per_megapixel", "Seconds per megapixel", ".2f"],
    ["paths_at_quality", f"Paths at {DECIBELS:g} dB", "d"],
    ["bytes_per_pixel_at_quality", f"Bytes per pixel at {DECIBELS:g} dB", ".4f"],
]


def large_photo() -> np.ndarray:
    """Twelve megapixels, (3000, 4000, 3): twelve photos enlarged to 1000 × 1000 (Lanczos), side by side, with fine grain."""
    from PIL.Image import Resampling, fromarray

    side = 1000
    photos = [np.array(fromarray(shown(path)).resize((side, side), Resampling.LANCZOS)) for path in folder_of("dht_testimgs")]
    mosaic = np.vstack([np.hstack(photos[row : row + 4]) for row in (0, 4, 8)])
    grain = np.random.default_rng(0).normal(0, 3, mosaic.shape)
    return np.clip(np.rint(mosaic + grain), 0, 255).astype(np.uint8)


def large(rounds: int = 2) -> None:
    """Bytes and seconds per pixel of one picture at 0.75, 3 and 12 megapixels."""
    import cv2

    whole = large_photo()
    sizes = [cv2.resize(whole, None, fx=f, fy=f, interpolation=cv2.INTER_AREA) if f < 1 else whole for f in (0.25, 0.5, 1)]
    rows = [{"megapixels": picture.shape[0] * picture.shape[1] / 1e6, "seconds": float("inf")} for picture in sizes]
    for work in watched([(row, picture) for _ in range(rounds) for row, picture in zip(rows, sizes, strict=True)], "large"):
        row, picture = work
        start = time.perf_counter()
        drawing = vectorize(picture, paths=round(PATHS_PER_MEGAPIXEL * row["megapixels"]))
        row["seconds"] = min(row["seconds"], time.perf_counter() - start)
        row["paths"], row["bytes_per_pixel"] = drawing.paths, drawing.bytes / row["megapixels"] / 1e6
        row["psnr"] = psnr(mean_squared_error(rendered(str(drawing)), picture))
    for row, picture in watched(list(zip(rows, sizes, strict=True)), f"large, {DECIBELS:g} dB"):
        row["seconds_per_megapixel"] = row["seconds"] / row["megapixels"]
        drawing = vectorize(picture, psnr=DECIBELS)
        row["paths_at_quality"], row["bytes_per_pixel_at_quality"] = drawing.paths, drawing.bytes / row["megapixels"] / 1e6
    notes = [
        "Not one photo: no free photo of 12 megapixels is at hand, so the twelve of $PIXTREE_DATA/dht_testimgs, each enlarged from "
        "672 to 1000 pixels a side (Lanczos), stand side by side, with grain (normal, 3 grey levels, fixed seed); 3 and 0.75 "
        f"megapixels are that picture reduced by area. Paths: {PATHS_PER_MEGAPIXEL:,} per megapixel; seconds: least of {rounds}, "
        "sizes in turn.",
    ]
    _, middle, largest = rows
    bars = [
        bar(f"{what}, 12 against 3 megapixels", largest[key] / middle[key], most=1.2)
        for what, key in (
            ("Bytes per pixel", "bytes_per_pixel"),
            (f"Bytes per pixel at {DECIBELS:g} dB", "bytes_per_pixel_at_quality"),
            ("Seconds per pixel", "seconds_per_megapixel"),
        )
    ]
    record("vectors_large", "large", "Drawings of large photos", columns=LARGE_COLUMNS, rows=rows, notes=notes, bars=bars)


PARTS = {
    "quality": quality,
    "renderers": renderers,
    "others": others,
    "speed": speed,
    "large": large,
    "pictures": lambda: pictures(PICTURES),
}


def main(arguments: Sequence[str]) -> None:
    if list(arguments[:1]) == ["release"]:
        if len(arguments) != 2:
            raise SystemExit("release needs a checkout of the authors' repository dsb-ifi/dHT; give its folder")
        release(Path(arguments[1]))
        return
    unknown = [name for name in arguments if name not in PARTS]
    if unknown:
        raise SystemExit(
            f"a part of this benchmark is one of release, {', '.join(PARTS)}, got {unknown[0]!r}; choose some of these or none"
        )
    vectorize(np.zeros((8, 8, 3), np.uint8))  # compile outside the clock
    for name in arguments or PARTS:
        PARTS[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
