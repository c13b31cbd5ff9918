"""The page of results: every record of benchmarks/results as a table, so that no figure is typed by hand.

A record is a JSON object. Its "benchmark" names the kind of its section, one of SECTIONS; "title", "command", "date", "machine" and
"versions" stand at the head of the section, and "bars" (targets and the values reached) at its end.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pixtree.evaluation.superpixels import MEASURES
from pixtree.files import replacing

Record = Mapping[str, Any]
RESULTS, PAGE = Path("benchmarks/results"), Path("docs/results.md")
HEADER = """# Results

`pixtree evaluate report` generates this page from the records `benchmarks/results/*.json`, so please edit neither by hand.
Every section starts with the command, the date, the machine and the versions that produced its figures.
↑ means that more is better, ↓ that less is.
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


def is_current(results: str | Path = RESULTS, page: str | Path = PAGE) -> bool:
    """Whether the page matches the records."""
    return Path(page).is_file() and Path(page).read_text(encoding="utf-8") == render(results)


def section(record: Record, name: str) -> str:
    """One section of the page: heading, the source of the figures, tables."""
    kind = record.get("benchmark")
    if kind not in SECTIONS:
        raise ValueError(f"{name} has no known benchmark: {kind!r}; choose one of {', '.join(SECTIONS)}")
    parts = [f"## {record.get('title', kind)}", "", source(record), "", SECTIONS[kind](record)]
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
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form) if isinstance(value, int | float) and form else str(value)


def table_section(record: Record) -> str:
    """Any record that brings its own "columns" ([key, heading, format]), "rows" and, after them, "notes"."""
    columns = [(key, heading, form) for key, heading, form in record["columns"]]
    return "\n".join([table(columns, record["rows"]), *(f"{note}\n" for note in record.get("notes", []))])


def superpixels_section(record: Record) -> str:
    """One table per requested count, and the definition of each measure; standard errors are in the record."""
    data = record["dataset"]
    columns = [("method", "Method", ""), ("segments", "Regions", ".1f"), ("pieces", "4-connected", ".1f")]
    columns += [(key, heading, form) for key, heading, form in _SUPERPIXEL_COLUMNS]
    lines = [f"{data['name']}, {data['split']}: {data['photos']} photos, {data['annotations']} annotations.", ""]
    for count in dict.fromkeys(row["tokens"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["tokens"] == count]
        lines += [f"### {count} regions requested", "", table(columns, rows)]
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

_BAR_COLUMNS = (("what", "Target", ""), ("wanted", "Required", ""), ("found", "Measured", ".4g"), ("met", "Met", ""))

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

_PRINTED_COLUMNS = (("method", "Method", ""), ("mse", "MSE ↓", ".5f"), ("psnr", "PSNR ↑", ".2f"), ("ssim", "SSIM ↑", ".4f"))


def vectors_section(record: Record) -> str:
    """Means over the images of a record of drawings, each of which is in the record; and figures that others have printed."""
    parts = [table(_VECTOR_COLUMNS, record["rows"])]
    if "printed" in record:
        parts += ["As printed in the paper:\n", table(_PRINTED_COLUMNS, record["printed"])]
    return "\n".join([*parts, *(f"{note}\n" for note in record.get("notes", []))])


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


def leads_section(record: Record) -> str:
    """Our lead at equal bytes: means per setting of the other program, then every photo at the other program's best setting."""
    parts = [table(_SETTING_COLUMNS, record["settings"]), table(_LEAD_COLUMNS, record["rows"])]
    return "\n".join([*parts, *(f"{note}\n" for note in record.get("notes", []))])


SECTIONS: dict[str, Callable[[Record], str]] = {
    "superpixels": superpixels_section,
    "table": table_section,
    "vectors": vectors_section,
    "vectors_others": leads_section,
}
