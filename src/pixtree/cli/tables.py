"""Tables of benchmarks on the command line: shown, written as a record, and plotted."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pixtree.cli.errors import UsageError

Columns = Sequence[Sequence[str]]  # of key, heading and format
WIDEST = 160  # columns that a table may take where the output is no terminal


def check_outputs(outputs: Mapping[str, Path | None]) -> None:
    """Refuse outputs that cannot be written, given by their suffix, before any work."""
    from pixtree.files import checked_target

    for suffix, path in outputs.items():
        if path is None:
            continue
        if path.suffix.lower() != suffix:
            raise UsageError(f"expected a file name that ends in {suffix}, got {str(path)!r}; change its suffix")
        checked_target(path)


def show(columns: Columns, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table

    view = Table(*(heading for _, heading, _ in columns), box=None)
    for row in rows:
        view.add_row(*(_cell(row.get(key), form) for key, _, form in columns))
    Console(width=max(Console().width, WIDEST)).print(view)


def write(
    path: Path | None, title: str, command: str, columns: Columns, rows: Sequence[Mapping[str, Any]], notes: list[str]
) -> None:
    """Write a record of a table, if a path was given."""
    if path is None:
        return
    from pixtree.evaluation.records import PACKAGES, provenance, write_record

    record = {"benchmark": "table", "title": title, **provenance(command, (*PACKAGES, "timm"))}
    write_record({**record, "columns": [list(column) for column in columns], "rows": list(rows), "notes": notes}, path)


def named(path: str | Path) -> str:
    """A path as a record names it: below $PIXTREE_DATA, or by its last part; records hold no paths of a machine."""
    data = os.environ.get("PIXTREE_DATA")
    given = Path(path)
    if data and given.absolute().is_relative_to(Path(data).absolute()):
        return f"$PIXTREE_DATA/{given.absolute().relative_to(Path(data).absolute())}"
    return given.name


def _cell(value: Any, form: str) -> str:
    if value is None:
        return "–"
    return format(value, form) if isinstance(value, int | float) and form else str(value)
