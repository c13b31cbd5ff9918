"""Progress: a bar as soon as work takes longer than a second, lines or a table of what was done, and silence for programs."""

import logging
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.progress import TaskID

logger = logging.getLogger(__name__)
PATIENCE = 1.0  # seconds before a bar appears


class Progress:
    """A bar on stderr, if that is a terminal, for work on `total` images; one image pulses, since nobody knows its end.

    Lines appear at once, but several images of a terminal are a table at the end: the bar would be between the lines.
    """

    def __init__(self, total: int, *, as_json: bool = False) -> None:
        self.total, self.as_json = total, as_json
        self.rows: list[tuple[str, str]] = []
        self.bar: Any = None
        self.task: TaskID | None = None
        self.timer = threading.Timer(PATIENCE, self._appear)
        self.timer.daemon = True
        self.lock = threading.Lock()
        self.words, self.done, self.over = "", 0, False

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            self.timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.end()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        count = () if self.total == 1 else (MofNCompleteColumn(),)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), *count, TimeElapsedColumn())
        with self.lock:
            if self.over:
                return
            console = Console(stderr=True)
            self.bar = Bar(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
            self.task = self.bar.add_task(self.words, total=None if self.total == 1 else self.total, completed=self.done)
            self.bar.start()

    def stage(self, words: str) -> None:
        """Say what is being done."""
        logger.info(words)
        with self.lock:
            self.words = words
            if self.bar is not None:
                self.bar.update(self.task, description=words)

    def advance(self) -> None:
        """One image is done."""
        with self.lock:
            self.done += 1
            if self.bar is not None:
                self.bar.update(self.task, completed=self.done)

    def report(self, lines: list[str], source: Path, summary: str) -> None:
        """Print what became of an image, at once or in the table at the end."""
        if self.as_json:
            return
        if self.total > 1 and sys.stdout.isatty():
            self.rows.append((str(source), summary))
            return
        if self.total == 1:
            self.end()  # nothing follows, and a bar must not stand between lines
        for line in lines:
            typer.echo(line)

    def complain(self, line: str) -> None:
        """Print an error, above the bar if there is one."""
        with self.lock:
            if self.bar is None:
                typer.echo(line, err=True)
            else:
                self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def end(self) -> None:
        """Take the bar away, and print the table if there is one."""
        self.timer.cancel()
        with self.lock:
            self.over = True
            if self.bar is not None:
                self.bar.stop()
                self.bar = None
        if self.rows:
            _show(self.rows)
            self.rows = []


def _show(rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("image", "result", box=None, pad_edge=False)
    for source, summary in rows:
        table.add_row(source, summary)
    Console(soft_wrap=True).print(table)
