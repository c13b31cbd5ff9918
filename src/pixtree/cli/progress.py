"""Progress: a bar as soon as work takes longer than a second, lines or a table of results, and silence for programs."""

import logging
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer

from pixtree import messages

if TYPE_CHECKING:
    from rich.progress import TaskID

logger = logging.getLogger(__name__)
PATIENCE = 1.0  # seconds before a bar appears


class Progress:
    """A bar on stderr, if that is a terminal, for `total` units of work; one unit pulses, since its end is unknown, as does None.

    Lines appear at once, but several images in a terminal become a table at the end: the bar would stand between the lines.
    """

    def __init__(self, total: int | None, *, as_json: bool = False) -> None:
        self.total, self.as_json = total, as_json
        self.rows: list[tuple[str, str]] = []
        self.bar: Any = None
        self.task: TaskID | None = None
        self.timer = threading.Timer(PATIENCE, self._appear)
        self.timer.daemon = True
        self.lock = threading.Lock()
        self.words, self.waiting, self.done, self.over = "", "", 0, False

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and os.environ.get("RANK", "0") == "0":  # of several processes, the first
            self.timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        count = () if self.total == 1 else (MofNCompleteColumn(), TextColumn("left"), TimeRemainingColumn())
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn(), *count)
        with self.lock:
            if self.over:
                return
            console = Console(stderr=True)
            self.bar = Bar(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
            self.task = self.bar.add_task(self.words, total=None if self.total == 1 else self.total, completed=self.done)
            self.bar.start()
            messages.displays.append(self.wait_for)

    def wait_for(self, words: str) -> None:
        """Show what the present step waits for, such as a compiler; nothing if that is over."""
        with self.lock:
            self.waiting = words
            self._update()

    def _update(self) -> None:
        if self.bar is not None:
            words, total = self.waiting or self.words, None if self.total == 1 else self.total
            self.bar.update(self.task, description=words, completed=self.done, total=total)

    def stage(self, words: str) -> None:
        """Log and show the present step of the work."""
        logger.info(words)
        self.show(words)

    def show(self, words: str, *, done: int | None = None, total: int | None = None) -> None:
        """Show a text next to the bar, and the units that are done of the total."""
        with self.lock:
            self.words, self.done, self.total = words, self.done if done is None else done, total or self.total
            self._update()

    def advance(self, count: int = 1) -> None:
        """Count finished units."""
        with self.lock:
            self.done += count
            self._update()

    def report(self, lines: list[str], source: Path, summary: str) -> None:
        """Print the result of an image, at once or in the table at the end."""
        if self.as_json:
            return
        if self.total != 1 and sys.stdout.isatty():
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
        """Remove the bar, and print the table if there is one."""
        self.timer.cancel()
        with self.lock:
            self.over = True
            if self.bar is not None:
                messages.displays.remove(self.wait_for)
                self.bar.stop()
                self.bar = None
        if self.rows:
            _show(self.rows)
            self.rows = []


class Steps(Progress):
    """Progress of a training; called after every step with its figures."""

    def __call__(self, step: int, figures: Mapping[str, float]) -> None:
        """Show a step."""
        forms = {"loss": "loss {:.5f}", "tokens": "{:.0f} tokens", "images_per_second": "{:.1f} images/s"}
        self.show(", ".join(form.format(figures[name]) for name, form in forms.items() if name in figures), done=step + 1)


def _show(rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("image", "result", box=None, pad_edge=False)
    for source, summary in rows:
        table.add_row(source, summary)
    Console(soft_wrap=True).print(table)
