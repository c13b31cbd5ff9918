"""`pixtree batch`: the same work on every image of a corpus."""

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import FAILURE, UsageError, reported
from pixtree.cli.options import MAX_BYTES, MAX_PIXELS, Relax, WithRelax, grouped, parsed_relax, with_examples
from pixtree.cli.progress import Progress

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
        help="A folder of images, of webdataset shards (.tar) or of parquet files, or one such file.", show_default=False
    ),
]
Destination = Annotated[Path, typer.Argument(help="Folder for the results and their manifest; created.", show_default=False)]


@dataclass(frozen=True)
class Where:
    """How and where the corpus is processed."""

    to: Annotated[str | None, typer.Option(help="Output: folder, webdataset or parquet; by default as the source.")] = None
    engine: Annotated[
        str, typer.Option(help="Engine: pool (processes on this machine) or ray (a Ray cluster at RAY_ADDRESS or a local one).")
    ] = "pool"
    workers: Annotated[int | None, typer.Option(help="Number of processes; by default one per processor.")] = None
    shard: Annotated[
        str, typer.Option(help="Process part i of n, as i/n from 0/n: for a scheduler that starts n such commands.")
    ] = "0/1"
    max_pixels: Annotated[int | None, typer.Option(min=1, help=MAX_PIXELS)] = None
    max_bytes: Annotated[int | None, typer.Option(min=1, help=MAX_BYTES)] = None
    timeout: Annotated[float | None, typer.Option(help="Seconds that an image may take; by default any time.")] = None


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="Process a whole corpus: resumable, in many processes, with a manifest of every image.")
    for function in (segment, tokenize, vectorize):
        examples = with_examples(tuple(one for one in EXAMPLES if f" {function.__name__} " in one))
        group.command(cls=WithRelax if function is segment else None, epilog=examples)(function)
    app.add_typer(group, name="batch")


@reported()
@grouped
def segment(
    source: Source,
    destination: Destination,
    where: Where,
    tokens: Annotated[int | None, typer.Option(help="Cut into exactly this many regions (default 200).")] = None,
    criterion: Annotated[str | None, typer.Option(help="Let a criterion choose the number: aic, aicc, bic or cic.")] = None,
    relax: Relax = None,
    format: Annotated[str, typer.Option(help="Format of label maps: png, tiff or npz.")] = "png",
) -> None:
    """Cut every image into regions and write label maps."""
    if tokens is None and criterion is None:
        tokens = 200
    _run("segment", source, destination, where, tokens=tokens, criterion=criterion, relax=parsed_relax(relax), format=format)


@reported()
@grouped
def tokenize(
    source: Source,
    destination: Destination,
    where: Where,
    tokens: Annotated[int, typer.Option(help="Tokens per image.")] = 196,
) -> None:
    """Write the tokens of every image: label map, and samples, features, boxes and areas of its regions."""
    _run("tokenize", source, destination, where, tokens=tokens)


@reported()
@grouped
def vectorize(
    source: Source,
    destination: Destination,
    where: Where,
    paths: Annotated[int, typer.Option(help="Draw at most this many paths.")] = 1000,
    preset: Annotated[str | None, typer.Option(help="One of photo, poster, icon, lineart and sketch, instead of --paths.")] = None,
) -> None:
    """Draw every image as SVG."""
    _run("vectorize", source, destination, where, paths=paths, preset=preset)


def _run(task: str, source: Path, destination: Path, where: Where, **options: Any) -> None:
    from pixtree.batch import run

    start, images = time.monotonic(), 0
    with Progress(None) as progress:
        progress.show("the first part")

        def tell(result: "PartResult", parts: int) -> None:
            nonlocal images
            images += result.done + result.failed
            progress.show(f"parts, {images / (time.monotonic() - start):.1f} images/s", done=progress.done + 1, total=parts)

        came = run(task, source, destination, tell=tell, **asdict(where) | {"shard": _parsed_shard(where.shard)}, **options)
    rate = images / max(time.monotonic() - start, 1e-9)
    before = f", {came.parts_before} of {came.parts} parts by an earlier run" if came.parts_before else ""
    typer.echo(f"{came.done} images done, {came.failed} failed{before}: {destination} ({rate:.1f}/s)")
    if came.whole:
        typer.echo(f"{destination / 'manifest' / 'manifest.jsonl'} lists every image")
    if came.failed:
        raise typer.Exit(FAILURE)


def _parsed_shard(text: str) -> tuple[int, int]:
    index, found, count = text.partition("/")
    if not (found and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise UsageError(f"--shard is i/n with i from 0 to n - 1, got {text!r}; the first of eight is 0/8")
    return int(index), int(count)
