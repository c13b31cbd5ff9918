"""The page of results: every record of benchmarks/results as a table, so that no figure is typed by hand.

`python -m pixtree.evaluation.report` writes docs/results.md; `--check` only says whether it is up to date.
A record is a JSON object whose "benchmark" names its renderer here; "title", "command", "date", "machine" and "versions"
head its section; "bars" (what was wanted and what was found) end it.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pixtree.evaluation.superpixels import MEASURES
from pixtree.files import replacing

Record = Mapping[str, Any]
RESULTS, PAGE = Path("benchmarks/results"), Path("docs/results.md")
HEADER = """# Results

This page is generated from `benchmarks/results/*.json` by `python -m pixtree.evaluation.report`; edit neither by hand.
"""


def render(results: str | Path = RESULTS) -> str:
    """The page in Markdown, one section per record in the order of file names."""
    folder = Path(results)
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise FileNotFoundError(f"expected records *.json in {folder}, found none; run a benchmark with -o first")
    return "\n".join([HEADER, *(section(json.loads(path.read_text(encoding="utf-8")), path.name) for path in paths)])


def write_report(results: str | Path = RESULTS, page: str | Path = PAGE) -> None:
    """Render the records into the page, whole or not at all."""
    text = render(results)
    with replacing(page) as temporary:
        temporary.write_text(text, encoding="utf-8")


def section(record: Record, name: str) -> str:
    """Heading, where the figures come from, then what the record's renderer makes of it."""
    kind = record.get("benchmark")
    if kind not in RENDERERS:
        raise ValueError(f"{name} has no known benchmark: {kind!r}; choose one of {', '.join(RENDERERS)}")
    parts = [f"## {record.get('title', kind)}", "", source(record), "", RENDERERS[kind](record)]
    return "\n".join(parts + ([table(_BAR_COLUMNS, record["bars"])] if "bars" in record else []))


def source(record: Record) -> str:
    """One paragraph: command, date, machine, versions."""
    machine, versions = record["machine"], record.get("versions", {})
    parts = [
        f"`{record['command']}`",
        f"{record['date']}; {machine['cpu']}, {machine['cores']} cores, {machine['platform']}",
    ]
    parts += [", ".join(f"{package} {version}" for package, version in versions.items())] if versions else []
    return "  \n".join(parts)


def table(columns: Sequence[tuple[str, str, str]], rows: Sequence[Record]) -> str:
    """A Markdown table; a column is its key in the rows, its heading and the format of its numbers ("" as they are)."""
    lines = ["| " + " | ".join(heading for _, heading, _ in columns) + " |", "|" + "---|" * len(columns)]
    for row in rows:
        lines.append("| " + " | ".join(_cell(row.get(key), form) for key, _, form in columns) + " |")
    return "\n".join(lines) + "\n"


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "–"
    return format(value, form) if isinstance(value, int | float) and form else str(value)


def render_table(record: Record) -> str:
    """Any record that brings its own "columns" ([key, heading, format]), "rows" and, after them, "notes"."""
    columns = [(key, heading, form) for key, heading, form in record["columns"]]
    return "\n".join([table(columns, record["rows"]), *(f"{note}\n" for note in record.get("notes", []))])


def render_superpixels(record: Record) -> str:
    """One table per count asked for, with what each measure is; standard errors are in the record."""
    data = record["dataset"]
    columns = [("method", "Method", ""), ("segments", "Regions", ".1f"), ("pieces", "4-connected", ".1f")]
    columns += [(key, heading, form) for key, heading, form in _SUPERPIXEL_COLUMNS]
    lines = [f"{data['name']}, {data['split']}: {data['photos']} photos, {data['annotations']} annotations.", ""]
    for count in dict.fromkeys(row["tokens"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["tokens"] == count]
        lines += [f"### {count} regions asked for", "", table(columns, rows)]
    lines += [f"- {measure.name}: {measure.meaning}." for measure in MEASURES]
    lines += [f"- {note}" for note in record.get("notes", [])]
    return "\n".join(lines) + "\n"


_SUPERPIXEL_COLUMNS = (
    ("boundary_recall", "Boundary recall ↑", ".4f"),
    ("boundary_precision", "Boundary precision ↑", ".4f"),
    ("undersegmentation_error", "Underseg. error ↓", ".4f"),
    ("achievable_accuracy", "ASA ↑", ".4f"),
    ("explained_variation", "Expl. variation ↑", ".4f"),
    ("psnr", "PSNR dB ↑", ".2f"),
    ("psnr_of_mean_error", "PSNR of mean error", ".2f"),
    ("compactness", "Compactness", ".3f"),
    ("contour_density", "Contour density", ".3f"),
    ("seconds", "CPU s per image", ".3f"),
)

_BAR_COLUMNS = (("what", "Bar", ""), ("wanted", "Wanted", ""), ("found", "Found", ".4g"), ("met", "Met", ""))

_VECTOR_COLUMNS = (
    ("method", "Drawing", ""),
    ("paths", "Paths", ".0f"),
    ("bytes", "Bytes", ",.0f"),
    ("psnr", "Mean PSNR dB ↑", ".2f"),
    ("psnr_of_mean", "PSNR of mean MSE ↑", ".2f"),
    ("mse", "MSE ↓", ".5f"),
    ("ssim", "SSIM ↑", ".4f"),
    ("psnr_0.73", "PSNR at 0.73×", ".2f"),
    ("psnr_1.37", "PSNR at 1.37×", ".2f"),
    ("gap_largest", "Black against white, largest", ".0f"),
    ("gap_mean_square", "mean square", ".4f"),
)


def render_vectors(record: Record) -> str:
    """Means over the images of a record of drawings; each image is in the record."""
    return table(_VECTOR_COLUMNS, record["rows"])


_LEAD_COLUMNS = (
    ("image", "Photo", ""),
    ("setting", "vtracer's best setting", ""),
    ("bytes", "Its bytes", ",.0f"),
    ("own_bytes", "Our bytes", ",.0f"),
    ("vtracer", "vtracer dB", ".2f"),
    ("pixtree", "pixtree dB", ".2f"),
    ("lead", "Lead dB", ".2f"),
)
_SETTING_COLUMNS = (("setting", "Setting", ""), ("photos", "Photos", "d"), *_LEAD_COLUMNS[2:])


def render_leads(record: Record) -> str:
    """Our lead at equal bytes: means per setting of the other program, then every photo at the setting that comes nearest to us."""
    parts = [table(_SETTING_COLUMNS, record["settings"]), table(_LEAD_COLUMNS, record["rows"])]
    return "\n".join([*parts, *(f"{note}\n" for note in record.get("notes", []))])


RENDERERS: dict[str, Callable[[Record], str]] = {
    "superpixels": render_superpixels,
    "table": render_table,
    "vectors": render_vectors,
    "vectors_others": render_leads,
}


def main(arguments: Sequence[str]) -> int:
    """Write the page, or with --check compare it; the exit code is 1 for a page that is out of date."""
    if list(arguments) == ["--check"]:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == render()
        print(f"{PAGE} is {'up to date' if current else 'out of date; run python -m pixtree.evaluation.report'}")
        return 0 if current else 1
    if arguments:
        raise SystemExit(f"expected no argument or --check, got {' '.join(arguments)}")
    write_report()
    print(f"wrote {PAGE}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
