"""Records of benchmark runs as JSON and CSV files, with the command, date, machine and versions of the run, and tables of them."""

import csv
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from pixtree.files import replacing

Columns = Sequence[Sequence[str]]  # of key, heading and format; "" leaves numbers as they are
PACKAGES = ("pixtree", "torch", "numpy", "numba", "scikit-image", "opencv-contrib-python-headless")


def provenance(command: str, packages: Iterable[str] = PACKAGES) -> dict[str, Any]:
    """The first keys of every record: command, UTC date, minutes, machine and versions.

    The minutes are the processor time that this process and its finished children have used so far, so that the cost of a rerun
    is known on a busy machine, too; a run that continued after an interruption counts its last part alone.
    """
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "cpu_minutes": round(sum(os.times()[:4]) / 60, 1),
        "machine": {"cpu": cpu_model(), "cores": os.cpu_count(), "platform": f"{platform.system()} {platform.machine()}"},
        "versions": {"python": platform.python_version(), **versions_of(packages)},
    }


def cpu_model() -> str:
    """The processor's name as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def version_of(package: str) -> str | None:
    """The version of an installed package, None without it; nothing is imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def versions_of(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {package: version_of(package) for package in packages}
    return {package: version for package, version in found.items() if version is not None}


def write_record(record: Mapping[str, Any], path: str | Path) -> None:
    """The record as JSON, whole or not at all; values that are not finite become null."""
    with replacing(path) as temporary:
        temporary.write_text(record_text(record), encoding="utf-8")


def record_text(record: Mapping[str, Any]) -> str:
    """A record as JSON with one line per key and, in a table, one line per row: short, and a changed row is a changed line."""
    lines = [f"{_json(key)}: {_table_text(value)}" for key, value in _finite(record).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _table_text(value: Any) -> str:
    """Lists and objects whose members are lists or objects have one member per line; anything else is one line."""
    if isinstance(value, list) and any(isinstance(one, list | dict) for one in value):
        return "[\n " + ",\n ".join(_json(one) for one in value) + "\n]"
    if isinstance(value, dict) and any(isinstance(one, list | dict) for one in value.values()):
        return "{\n " + ",\n ".join(f"{_json(key)}: {_json(one)}" for key, one in value.items()) + "\n}"
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def markdown_table(columns: Columns, rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a Markdown table."""
    lines = ["| " + " | ".join(heading for _, heading, _ in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(row.get(key), form) for key, _, form in columns) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def cell(value: Any, form: str) -> str:
    """A value of a table as text: numbers in the format of their column, a dash where there is no value."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format(value, form) if isinstance(value, int | float) and form else str(value)


def with_errors(rows: Sequence[Mapping[str, Any]], columns: Columns) -> list[dict[str, Any]]:
    """Rows of differences as text: "+0.0123 ± 0.0045" for every key of `columns` whose standard error the rows have."""

    def text(row: Mapping[str, Any], key: str, form: str) -> Any:
        if row.get(key) is None or f"{key}_se" not in row:
            return row.get(key)
        return f"{row[key]:+{form}} ± {cell(row[f'{key}_se'], form)}"

    return [{key: text(row, key, form) for key, _, form in columns} for row in rows]


def write_table(rows: Sequence[Mapping[str, Any]], path: str | Path) -> None:
    """Rows with equal keys as CSV, a header first."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
