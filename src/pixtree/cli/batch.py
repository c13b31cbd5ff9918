"""`pixtree batch`: the same work on every picture of a corpus."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import FAILURE, UsageError, reported
from pixtree.cli.examples import with_examples

if TYPE_CHECKING:
    from pixtree.batch import PartResult

EXAMPLES = (
    "pixtree batch segment photos labels --tokens 200",
    "pixtree batch tokenize shards tokens --tokens 196 --to webdataset",
    "pixtree batch vectorize photos drawings --paths 500 --shard 0/8",
)
Source = Annotated[
    Path,
    typer.Argument(
        help="A folder of pictures, of webdataset shards (.tar) or of parquet files, or one such file.", show_default=False
    ),
]
Destination = Annotated[Path, typer.Argument(help="The folder for results and their manifest; it is made.", show_default=False)]
To = Annotated[str | None, typer.Option("--to", help="Write a folder, webdataset or parquet; by default what the source is.")]
Engine = Annotated[
    str, typer.Option(help="Where to work: pool, processes on this machine, or ray, a Ray cluster (RAY_ADDRESS) or a local one.")
]
Workers = Annotated[int | None, typer.Option(help="Number of processes; by default one per processor.")]
Shard = Annotated[
    str, typer.Option(help="Do part i of n of the corpus, as i/n from 0/n: for a scheduler that starts n such commands.")
]
MaxPixels = Annotated[
    int | None, typer.Option("--max-pixels", min=1, help="Open pictures of so many pixels; by default 179 million are the most.")
]
Format = Annotated[str, typer.Option(help="Format of label maps: png, tiff or npz.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="Work on a whole corpus: resumable, by many processes, with a manifest of every picture.")
    for function in (segment, tokenize, vectorize):
        group.command(epilog=with_examples(tuple(one for one in EXAMPLES if f" {function.__name__} " in one)))(function)
    app.add_typer(group, name="batch")


@reported()
def segment(
    source: Source,
    destination: Destination,
    tokens: Annotated[int | None, typer.Option(help="Cut into exactly this many regions (default 200).")] = None,
    criterion: Annotated[str | None, typer.Option(help="Let a criterion choose the number: aic, aicc, bic or cic.")] = None,
    relax: Annotated[bool, typer.Option("--relax", help="Polish the boundaries.")] = False,
    format: Format = "png",
    to: To = None,
    engine: Engine = "pool",
    workers: Workers = None,
    shard: Shard = "0/1",
    max_pixels: MaxPixels = None,
) -> None:
    """Cut every picture into regions and write label maps."""
    if tokens is None and criterion is None:
        tokens = 200
    options = {"tokens": tokens, "criterion": criterion, "relax": relax, "format": format}
    _run("segment", source, destination, {"to": to, "engine": engine, "workers": workers, "max_pixels": max_pixels}, shard, options)


@reported()
def tokenize(
    source: Source,
    destination: Destination,
    tokens: Annotated[int, typer.Option(help="Tokens per picture.")] = 196,
    to: To = None,
    engine: Engine = "pool",
    workers: Workers = None,
    shard: Shard = "0/1",
    max_pixels: MaxPixels = None,
) -> None:
    """Write the tokens of every picture: label map, and samples, features, boxes and areas of its regions."""
    _run(
        "tokenize",
        source,
        destination,
        {"to": to, "engine": engine, "workers": workers, "max_pixels": max_pixels},
        shard,
        {"tokens": tokens},
    )


@reported()
def vectorize(
    source: Source,
    destination: Destination,
    paths: Annotated[int, typer.Option(help="Draw at most this many paths.")] = 1000,
    preset: Annotated[str | None, typer.Option(help="One of photo, poster, icon and sketch, instead of --paths.")] = None,
    to: To = None,
    engine: Engine = "pool",
    workers: Workers = None,
    shard: Shard = "0/1",
    max_pixels: MaxPixels = None,
) -> None:
    """Draw every picture as SVG."""
    _run(
        "vectorize",
        source,
        destination,
        {"to": to, "engine": engine, "workers": workers, "max_pixels": max_pixels},
        shard,
        {"paths": paths, "preset": preset},
    )


def _run(task: str, source: Path, destination: Path, where: dict[str, Any], shard: str, options: dict[str, Any]) -> None:
    from pixtree.batch import run

    start = time.monotonic()
    with _Bar() as bar:
        came = run(task, source, destination, shard=_parsed_shard(shard), tell=bar.tell, **where, **options)
    seconds = time.monotonic() - start
    before = f", {came.parts_before} of {came.parts} parts by an earlier run" if came.parts_before else ""
    typer.echo(
        f"{came.done} pictures done, {came.failed} failed{before}: {destination} ({bar.pictures / max(seconds, 1e-9):.1f}/s)"
    )
    if came.whole:
        typer.echo(f"{destination / 'manifest' / 'manifest.jsonl'} accounts for every picture")
    if came.failed:
        raise typer.Exit(FAILURE)


def _parsed_shard(text: str) -> tuple[int, int]:
    index, found, count = text.partition("/")
    if not (found and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise UsageError(f"--shard is i/n with i from 0 to n - 1, got {text!r}; the first of eight is 0/8")
    return int(index), int(count)


class _Bar:
    """A bar of parts with pictures per second and the time that is left, on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
        self.task = self.bar.add_task("the first part", total=None)
        self.pictures, self.start = 0, time.monotonic()

    def __enter__(self) -> "_Bar":
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def tell(self, result: "PartResult", parts: int) -> None:
        """One part is done."""
        self.pictures += result.done + result.failed
        rate = self.pictures / (time.monotonic() - self.start)
        self.bar.update(self.task, total=parts, advance=1, description=f"parts, {rate:.1f} pictures/s")
