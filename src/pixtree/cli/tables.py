"""Tables of benchmarks on the command line: printed, written as a record, and plotted; options that the benchmarks share."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError

if TYPE_CHECKING:
    from pixtree.evaluation.records import Columns

WIDEST = 160  # columns that a table may take where the output is not a terminal

Split = Annotated[str, typer.Option(help="Part of the data to use.")]
Tokens = Annotated[str, typer.Option(help="Numbers of regions, separated by commas.")]
Methods = Annotated[str, typer.Option(help="Methods, separated by commas.")]
Limit = Annotated[int | None, typer.Option(help="Use only this many images, evenly spaced.", show_default="all")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the record to this .json file.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Plot the table to this .png file.")]


def check_outputs(output: Path | None, plot: Path | None = None, csv: Path | None = None) -> None:
    """Refuse outputs that cannot be written, before any work."""
    from pixtree.files import checked_target

    for path, suffix in ((output, ".json"), (csv, ".csv"), (plot, ".png")):
        if path is None:
            continue
        if path.suffix.lower() != suffix:
            raise UsageError(f"expected a file name that ends in {suffix}, got {str(path)!r}; change its suffix")
        checked_target(path)


def show(columns: "Columns", rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table; a pipe or a narrow window does not cut it off. Of several processes, the first prints and writes."""
    from pixtree.runtime.processes import joined

    if not joined().first:
        return
    from rich.console import Console
    from rich.table import Table

    from pixtree.evaluation.records import cell

    view = Table(*(heading for _, heading, _ in columns), box=None)
    for row in rows:
        view.add_row(*(cell(row.get(key), form) for key, _, form in columns))
    Console(width=max(Console().width, WIDEST)).print(view)


def write(
    path: Path | None, title: str, command: str, columns: "Columns", rows: Sequence[Mapping[str, Any]], notes: Sequence[str] = ()
) -> None:
    """Write the record of a table, if a path was given."""
    from pixtree.runtime.processes import joined

    if path is None or not joined().first:
        return
    from pixtree.evaluation.records import PACKAGES, provenance, write_record

    record = {"benchmark": "table", "title": title, **provenance(command, (*PACKAGES, "timm"))}
    record |= {"columns": [list(column) for column in columns], "rows": list(rows)}
    write_record(record | ({"notes": list(notes)} if notes else {}), path)


def refuse_several(command: str) -> None:
    """Refuse several processes for a command that measures in one."""
    from pixtree.runtime.processes import launched

    if launched():
        raise UsageError(f"pixtree evaluate {command} measures in one process, got several from a launcher; leave out torchrun")


def named(path: str | Path) -> str:
    """A path as a record names it: below $PIXTREE_DATA, or by its last part; records hold no paths of a machine."""
    data = os.environ.get("PIXTREE_DATA")
    given = Path(path)
    if data and given.absolute().is_relative_to(Path(data).absolute()):
        return f"$PIXTREE_DATA/{given.absolute().relative_to(Path(data).absolute())}"
    return given.name
