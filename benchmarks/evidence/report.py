"""The page of results: every record of benchmarks/results as a table, so that no figure is typed by hand.

A record is a JSON object. Its "benchmark" names the kind of its section, one of SECTIONS; "title", "command", "date", "machine" and
"versions" stand at the head of the section, and "bars" (targets and the values reached) at its end. Chapters, their order and
the words above tables come from `chapters`; the first table comes from `summary`. Long tables have their own page.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from evidence.chapters import CHAPTERS, DIFFERENCES, OTHERS, WORDS, Chapter
from evidence.summary import summary
from pixtree.evaluation.records import markdown_table, with_errors
from pixtree.evaluation.superpixels import MEASURES
from pixtree.files import replacing

Record = Mapping[str, Any]
RESULTS, PAGE = Path("benchmarks/results"), Path("docs/results.md")
LONG = "results_long.md"
QUOTES = "paper.json"  # next to the folder of records
LONGEST = 24  # rows of a section on the page itself
SHOWN = 200  # the count of regions whose table stays on the page
HEADER = """# Results

`make report` generates this page from the records `benchmarks/results/*.json`, so please edit neither by hand.
↑ means that higher is better, ↓ that lower is better. `make records` lists records that are older than the sources they measure.

## In a minute

Figures of the paper are quoted. They come from other data, larger models and longer training, so they are not directly comparable.
"Best other" is the best of the other methods that were measured in the same run as ours. Data are small public subsets, named in
each section: these figures compare methods with one another and not with published ones.
"""
LONG_HEADER = """# Long tables

`make report` generates this page, too. It holds the tables that are too long for [the page of results](results.md),
with the command, the date and the machine of each.
"""
_SUMMARY_COLUMNS = (
    ("claim", "What", ""),
    ("paper", "The paper", ""),
    ("ours", "pixtree", ""),
    ("other", "Best other", ""),
    ("command", "Command", ""),
    ("date", "Date", ""),
)


def render(results: str | Path = RESULTS, long: str = LONG) -> tuple[str, str]:
    """The page in Markdown and that of its long tables, which it links by the file name `long`."""
    records = records_in(results)
    quotes = Path(results).parent / QUOTES
    first = summary(records, json.loads(quotes.read_text(encoding="utf-8")) if quotes.is_file() else {})
    rows = [{**row, "command": f"[`{script(records[row['record']])}`](#{anchor(records[row['record']])})"} for row in first]
    lines, contents, moved = [], [], [LONG_HEADER]
    for chapter, names in chapters(records):
        contents.append(f"- [{chapter.title}](#{slug(chapter.title)})")
        lines += [f"## {chapter.title}\n\n{chapter.words}\n"]
        for name in names:
            contents.append(f"  - [{title(records[name])}](#{anchor(records[name])})")
            lines.append(section(records[name], name, long))
            if is_long(records[name]):
                moved.append(whole_section(records[name], name))
    page = [HEADER, markdown_table(_SUMMARY_COLUMNS, rows), "## Contents\n\n" + "\n".join(contents) + "\n", *lines]
    return "\n".join(page), "\n".join(moved)


def records_in(results: str | Path) -> dict[str, Record]:
    """The records of a folder by the names of their files without suffix."""
    folder = Path(results)
    paths = sorted(folder.glob("*.json"))
    if not paths:
        raise FileNotFoundError(f"expected records *.json in {folder}, found none; run a benchmark with -o first")
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    for name, record in found.items():
        if record.get("benchmark") not in SECTIONS:
            kind = record.get("benchmark")
            raise ValueError(f"{name}.json has no known benchmark: {kind!r}; choose one of {', '.join(SECTIONS)}")
    return found


def chapters(records: Mapping[str, Record]) -> list[tuple[Chapter, list[str]]]:
    """Chapters that have records, with the names of these; each record is in the first chapter that takes it."""
    left, found = list(records), []
    for chapter in (*CHAPTERS, OTHERS):
        names = chapter.of(left)
        left = [name for name in left if name not in names]
        found += [(chapter, names)] if names else []
    return found


def write_report(results: str | Path = RESULTS, page: str | Path = PAGE) -> None:
    """Render the records into the page and that of its long tables, each whole or not at all."""
    long = long_page(page)
    for path, text in zip((Path(page), long), render(results, long.name), strict=True):
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8")


def is_current(results: str | Path = RESULTS, page: str | Path = PAGE) -> bool:
    """Whether the pages match the records."""
    paths = (Path(page), long_page(page))
    texts = render(results, paths[1].name)
    return all(path.is_file() and path.read_text(encoding="utf-8") == text for path, text in zip(paths, texts, strict=True))


def long_page(page: str | Path) -> Path:
    """The page of long tables that goes with a page."""
    return Path(page).with_name(f"{Path(page).stem}_long.md")


def title(record: Record) -> str:
    """The heading of a record's section."""
    return str(record.get("title", record["benchmark"]))


def slug(heading: str) -> str:
    """The anchor that GitHub and the site of the documentation give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower().replace(" ", "-"))


def anchor(record: Record) -> str:
    """The anchor of a record's section."""
    return slug(title(record))


def script(record: Record) -> str:
    """The command of a record without its options."""
    command = re.split(r" (?=-|\$|[A-Z]{3})", record["command"].removeprefix("chrt -r 1 "))[0]
    return re.sub(r"^\S+=\S+ ", "", command) + (" …" if len(command) < len(record["command"]) else "")


def section(record: Record, name: str, long: str = LONG) -> str:
    """One section of the page: heading, words, the source of the figures, tables; of a long one the short part and a link."""
    parts = [f"### {title(record)}\n", f"{words}\n" if (words := record.get("shows", WORDS.get(name))) else "", source(record), ""]
    if is_long(record):
        parts += [short_section(record), f"[The whole table]({long}#{anchor(record)}).\n"]
    else:
        parts.append(body(record, name))
    return "\n".join([*parts, *bars(record)])


def whole_section(record: Record, name: str) -> str:
    """A section of the page of long tables."""
    raised = body(record, name).replace("\n#### ", "\n### ")  # headings follow one another without a gap
    return "\n".join([f"## {title(record)}", "", source(record), "", raised, *bars(record)])


def body(record: Record, name: str) -> str:
    """All tables of a record; where differences have standard errors, those below two are called ties."""
    shown = with_verdicts(record, *DIFFERENCES[name]) if name in DIFFERENCES and "columns" in record else record
    return SECTIONS[record["benchmark"]](shown)


def short_section(record: Record) -> str:
    """The part of a long record on the page itself: superpixels at one count; of others the notes alone."""
    if record["benchmark"] == "superpixels":
        return superpixels_section({**record, "rows": [row for row in record["rows"] if row["tokens"] == SHOWN] or record["rows"]})
    return "\n".join(f"{note}\n" for note in record.get("notes", []))


def is_long(record: Record) -> bool:
    """Whether a section is too long for the page."""
    return sum(len(record.get(key, ())) for key in ("rows", "settings")) > LONGEST


def bars(record: Record) -> list[str]:
    """The table of targets, if there is one."""
    return [markdown_table(_BAR_COLUMNS, record["bars"])] if record.get("bars") else []


def with_verdicts(record: Record, difference: str, error: str) -> Record:
    """The record with a column of verdicts: ahead, behind or tie."""
    place = next(at for at, (key, *_) in enumerate(record["columns"]) if key == error) + 1
    columns = [*record["columns"][:place], ["verdict", "Verdict", ""], *record["columns"][place:]]
    return {
        **record,
        "columns": columns,
        "rows": [{**row, "verdict": verdict(row.get(difference), row.get(error))} for row in record["rows"]],
    }


def verdict(difference: float | None, error: float | None) -> str | None:
    """Ahead or behind by at least two standard errors, otherwise a tie."""
    if difference is None or not error:
        return None
    if abs(difference) < 2 * error:
        return "tie"
    return "ahead" if difference > 0 else "behind"


def source(record: Record) -> str:
    """One paragraph: command, date, machine, versions."""
    machine, versions = record["machine"], record.get("versions", {})
    parts = [
        f"`{record['command']}`",
        f"{record['date']}; {machine['cpu']}, {machine['cores']} cores, {machine['platform']}",
    ]
    parts += [", ".join(f"{package} {version}" for package, version in versions.items())] if versions else []
    return "  \n".join(parts)


def table_section(record: Record) -> str:
    """Any record that brings its own "columns" ([key, heading, format]), "rows" and, after them, "notes"."""
    return "\n".join([markdown_table(record["columns"], record["rows"]), *(f"{note}\n" for note in record.get("notes", []))])


def superpixels_section(record: Record) -> str:
    """One table per requested count, and the definition of each measure; standard errors are in the record."""
    data = record["dataset"]
    columns = [("method", "Method", ""), ("segments", "Regions", ".1f"), ("pieces", "4-connected", ".1f")]
    columns += [(key, heading, form) for key, heading, form in _SUPERPIXEL_COLUMNS]
    lines = [f"{data['name']}, {data['split']}: {data['photos']} photos, {data['annotations']} annotations.", ""]
    for count in dict.fromkeys(row["tokens"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["tokens"] == count]
        lines += [f"#### {count} regions requested", "", markdown_table(columns, rows)]
        lines += paired_differences(record, count) if "reference" in record else ties(rows)
    lines += [f"- {measure.name}: {measure.meaning}." for measure in MEASURES]
    lines += [f"- {note}" for note in record.get("notes", [])]
    for name, about in record.get("programs", {}).items():
        lines.append(f"- {name}: " + "; ".join(f"{key} {value}" for key, value in about.items()) + ".")
    return "\n".join(lines) + "\n"


def paired_differences(record: Record, count: int) -> list[str]:
    """How far the methods are from the one that the record names as its reference, photo by photo."""
    columns = [("method", "Method", ""), *_SUPERPIXEL_COLUMNS[:5], ("contour_density", "Contours", ".4f")]
    rows = [row for row in record["differences"] if row["tokens"] == count]
    return [
        f"Minus {record['reference']}, paired by photo, ± standard error:\n",
        markdown_table(columns, with_errors(rows, columns)),
    ]


def ties(rows: Sequence[Record]) -> list[str]:
    """A sentence about the methods that differ from the first one by less than two standard errors."""
    first, found = rows[0], []
    for key, heading, _ in _SUPERPIXEL_COLUMNS[:5]:
        near = [row["method"] for row in rows[1:] if _tied(first, row, key)]
        found += [f"{heading.removesuffix(' ↑').removesuffix(' ↓')}: {', '.join(near)}"] if near else []
    if not found:
        return []
    return [f"Ties with {first['method']}, differences below two standard errors (photos not paired): {'; '.join(found)}.\n"]


def _tied(first: Record, row: Record, key: str) -> bool:
    known = all(one.get(name) is not None for one in (first, row) for name in (key, f"{key}_se"))
    return known and bool(abs(first[key] - row[key]) < 2 * math.hypot(first[f"{key}_se"], row[f"{key}_se"]))


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
    parts = [markdown_table(_VECTOR_COLUMNS, record["rows"])]
    if "printed" in record:
        parts += ["As printed in the paper:\n", markdown_table(_PRINTED_COLUMNS, record["printed"])]
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
    parts = [markdown_table(_SETTING_COLUMNS, record["settings"]), markdown_table(_LEAD_COLUMNS, record["rows"])]
    return "\n".join([*parts, *(f"{note}\n" for note in record.get("notes", []))])


SECTIONS: dict[str, Callable[[Record], str]] = {
    "superpixels": superpixels_section,
    "table": table_section,
    "vectors": vectors_section,
    "vectors_others": leads_section,
}
