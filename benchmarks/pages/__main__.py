"""Forty pages such as people have: dashboards, documentation, an app, charts and scans, traced by pixtree, vtracer and potrace.

    make docs                                                    # the site whose pages are photographed
    python benchmarks/pages -o benchmarks/results/pages.json     # needs the programs chromium and potrace
    python benchmarks/pages --only dash chart-pie -o out/some.json   # pages by the starts of their names
    python benchmarks/pages --only scan --pictures out/look      # and what is traced, next to ours and the best other, as PNG

The pages are made once into out/pages and are not committed. vtracer's best is the one of its five settings with the smallest
error.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import numpy as np
from charts import charts
from evidence.records import PACKAGES, provenance, write_record
from measures import quality
from page import Page
from PIL import Image
from scans import scans
from screens import screens
from tracers import DEFAULTS, OURS, POTRACE, VTRACER, processor_seconds, tracers_of

from pixtree.tasks.vectorize import rendered

PAGES = Path(__file__).parents[2] / "out" / "pages"
ROUNDS = 3
LEAST_AHEAD, MOST_BYTES, MOST_TIME = 36, 1.5, 2.0
COLUMNS = [
    ["page", "Page", ""],
    ["kept", "Colours kept", ""],
    ["its_kept", "vtracer's best", ""],
    ["text_error", "Error in text ↓", ".2f"],
    ["its_text_error", "vtracer's", ".2f"],
    ["psnr", "PSNR ↑", ".2f"],
    ["its_psnr", "vtracer's", ".2f"],
    ["psnr_4", "PSNR at 4× ↑", ".2f"],
    ["its_psnr_4", "vtracer's", ".2f"],
    ["bytes", "Bytes ↓", ",d"],
    ["its_bytes", "vtracer's", ",d"],
    ["points", "Points ↓", ",d"],
    ["its_points", "vtracer's", ",d"],
    ["seconds", "CPU s", ".2f"],
    ["default_seconds", "vtracer's defaults", ".2f"],
    ["potrace_psnr_4", "potrace, PSNR at 4×", ".2f"],
    ["potrace_bytes", "potrace, bytes", ",d"],
    ["ahead", "Ahead", ""],
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", nargs="*", default=[""], help="starts of names of pages")
    parser.add_argument("--pictures", type=Path, help="a folder for the page, our drawing and the best other, side by side")
    parser.add_argument("--again", action="store_true", help="make the pages again")
    options = parser.parse_args()
    rows = []
    for page in pages(tuple(options.only), again=options.again):
        methods, texts = traced(page)
        rows.append({"page": page.name, "kind": page.kind, **line(methods)})
        rows[-1]["methods"] = methods
        show(rows[-1])
        if options.pictures:
            picture(page, texts, rows[-1], options.pictures)
    lines = bars(rows)
    for one in lines:
        print(f"{one['what']}: {one['found']:.4g}, wanted {one['wanted']}: {one['met']}")
    if options.output:
        write_record(content(rows, lines), options.output)


def pages(starts: tuple[str, ...], *, again: bool) -> list[Page]:
    """The pages whose names begin so, made where they are not in out/pages yet."""
    makers = {**screens(), **charts(), **scans()}
    wanted = [name for name in makers if name.startswith(starts)]
    for name in wanted:
        if again or not (PAGES / f"{name}.json").exists():
            makers[name]().save(PAGES)
            print("made", name, flush=True)
    return [Page.load(PAGES, name) for name in wanted]


def traced(page: Page) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Measures and texts by tracer, the least processor time of rounds in turn; without PSNR at 4× of what is not the best."""
    texts: dict[str, str] = {}
    seconds: dict[str, float] = {}
    tracers = tracers_of(page)
    for _ in range(ROUNDS):
        for name, trace in tracers.items():
            if name in texts and name not in (OURS, DEFAULTS, *POTRACE):
                continue  # only these are timed against each other
            start = processor_seconds()
            texts[name] = trace()
            seconds[name] = min(processor_seconds() - start, seconds.get(name, np.inf))
    best = max(VTRACER, key=lambda name: quality(texts[name], page, zoomed=False)["psnr"])
    shown = {name: name in (OURS, best, *POTRACE) for name in texts}
    return {name: {**quality(text, page, zoomed=shown[name]), "seconds": seconds[name]} for name, text in texts.items()}, texts


def line(methods: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A row of COLUMNS from the measures of all tracers of a page."""
    ours = methods[OURS]
    best = max(VTRACER, key=lambda name: methods[name]["psnr"])
    its = methods[best]
    row: dict[str, Any] = {
        "best": best,
        "kept": f"{ours['kept']} of {ours['wanted']}",
        "its_kept": f"{its['kept']} of {its['wanted']}",
    }
    for key in ("text_error", "psnr", "psnr_4", "bytes", "points"):
        if key in ours:
            row |= {key: ours[key], f"its_{key}": its[key]}
    row |= {"seconds": ours["seconds"], "default_seconds": methods[DEFAULTS]["seconds"]}
    if POTRACE[0] in methods:
        other = max((methods[name] for name in POTRACE), key=lambda found: found["psnr_4"])
        row |= {f"potrace_{key}": other[key] for key in ("psnr", "psnr_4", "bytes", "points", "seconds")}
    error = ours["psnr"] > its["psnr"] and ours["psnr_4"] > its["psnr_4"] and ours.get("text_error", 0) <= its.get("text_error", 0)
    return row | {"ahead": "yes" if error and ours["bytes"] < its["bytes"] else "no"}


def show(row: dict[str, Any]) -> None:
    parts = [f"{row['page']:22} {row['ahead']:3} kept {row['kept']} / {row['its_kept']} ({row['best']})"]
    for key, form in (("text_error", ".2f"), ("psnr", ".2f"), ("psnr_4", ".2f"), ("bytes", ",d"), ("points", ",d")):
        if key in row:
            parts.append(f"{key} {row[key]:{form}} / {row[f'its_{key}']:{form}}")
    parts.append(f"s {row['seconds']:.2f} / {row['default_seconds']:.2f}")
    if "potrace_bytes" in row:
        parts.append(f"potrace {row['potrace_psnr']:.2f} {row['potrace_psnr_4']:.2f} {row['potrace_bytes']:,d}")
    print("  ".join(parts), flush=True)


def bar(what: str, found: float, *, least: float | None = None, most: float | None = None) -> dict[str, Any]:
    met = (least is None or found >= least) and (most is None or found <= most)
    return {
        "what": what,
        "wanted": f"≥ {least:g}" if least is not None else f"≤ {most:g}",
        "found": found,
        "met": "yes" if met else "no",
    }


def bars(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was wanted of all pages, of scans, and of time."""
    lost = sum(row["methods"][OURS]["wanted"] - row["methods"][OURS]["kept"] for row in rows if row["kind"] != "scan")
    found = [
        bar(
            "pages ahead of vtracer's best: smaller errors, fewer bytes",
            sum(row["ahead"] == "yes" for row in rows),
            least=LEAST_AHEAD,
        ),
        bar("flat colours of at least 0.2 % lost, scans aside", lost, most=0),
    ]
    scanned = [row for row in rows if row["kind"] == "scan"]
    if scanned:
        found += [
            bar("scans: bytes to potrace's, largest", max(row["bytes"] / row["potrace_bytes"] for row in scanned), most=MOST_BYTES),
            bar("scans: dB over potrace, least", min(row["psnr"] - row["potrace_psnr"] for row in scanned), least=0),
            bar("scans: dB over potrace at 4×, least", min(row["psnr_4"] - row["potrace_psnr_4"] for row in scanned), least=0),
        ]
    for kind in dict.fromkeys(row["kind"] for row in rows):
        own = [row for row in rows if row["kind"] == kind]
        share = sum(row["seconds"] for row in own) / sum(row["default_seconds"] for row in own)
        found.append(bar(f"{kind}: CPU time to vtracer's defaults", share, most=MOST_TIME))
    return found


def picture(page: Page, texts: dict[str, str], row: dict[str, Any], folder: Path) -> None:
    """The page, our drawing and that of vtracer's best, side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    size = (page.pixels.shape[1], page.pixels.shape[0])
    shown = [np.asarray(Image.fromarray(rendered(texts[name])).resize(size)) for name in (OURS, row["best"])]
    Image.fromarray(np.concatenate((page.pixels, *shown), axis=1)).save(folder / f"{page.name}.png")
    (folder / f"{page.name}.svg").write_text(texts[OURS], encoding="utf-8")


def content(rows: list[dict[str, Any]], lines: list[dict[str, Any]]) -> dict[str, Any]:
    heading = {"benchmark": "table", "title": "Forty pages, traced by pixtree at its defaults, vtracer and potrace"}
    source = provenance(
        "python benchmarks/pages -o benchmarks/results/pages.json", (*PACKAGES, "vtracer", "resvg-py", "matplotlib")
    )
    notes = [
        "Screenshots are compared with the same layout drawn by Chromium at four times the size, charts with matplotlib's at four "
        "times the resolution, and scans (preset lineart) with the clean drawing, which no tracer has seen. vtracer's best is the "
        f"one with the smallest error of {', '.join(VTRACER)}; ahead means smaller errors at both sizes and in text, and fewer "
        "bytes. potrace is the better of its program on the pixels darker than Otsu's threshold, and on what mkbitmap makes of the "
        "scan.",
        "A colour is kept where at most 5 % of its solid pixels are off by more than ΔE 1. CPU time is the least of "
        f"{ROUNDS} rounds.",
    ]
    return {**heading, **source, "columns": COLUMNS, "rows": rows, "bars": lines, "notes": notes}


if __name__ == "__main__":
    main()
