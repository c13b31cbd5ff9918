"""`pixtree evaluate`: benchmark superpixels against human annotations, and write the page of results."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import reported
from pixtree.cli.evaluate_dense import oracle, salient
from pixtree.cli.evaluate_models import COMMANDS
from pixtree.cli.evaluate_vectors import vectors
from pixtree.cli.options import parsed_counts
from pixtree.cli.progress import Progress
from pixtree.cli.tables import check_outputs, named

if TYPE_CHECKING:
    from pixtree.evaluation.datasets import AnnotatedPhoto
    from pixtree.evaluation.label_folders import LabelFolder
    from pixtree.evaluation.superpixel_comparison import Sample

DEFAULT_METHODS = "pixtree,pixtree-nested,slic,felzenszwalb,seeds,lsc,watershed,quadtree,grid,spit"
WIDTH = 130  # columns of the table shown
DEFAULT_COUNTS = "50,100,200,400,800,1600"


def register(app: typer.Typer) -> None:
    """Add the group of commands of this file."""
    group = typer.Typer(help="Run benchmarks, and write the page of results.", no_args_is_help=True)
    group.command("superpixels")(superpixels)
    group.command("vectors")(vectors)
    for name, command in COMMANDS.items():
        group.command(name)(command)
    group.command("salient")(salient)
    group.command("oracle")(oracle)
    group.command("report")(report)
    app.add_typer(group, name="evaluate")


@reported()
def superpixels(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with images/<split> and groundTruth/<split> (default $PIXTREE_DATA/bsds500).", show_default=False
        ),
    ] = None,
    split: Annotated[str, typer.Option(help="Part of the data to use.")] = "val",
    tokens: Annotated[str, typer.Option(help="Numbers of regions, separated by commas.")] = DEFAULT_COUNTS,
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = DEFAULT_METHODS,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FOLDER: measure another program's label maps as well, <photo>.png, .pgm, .tif or .npy; with one count only.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Use only this many photos, evenly spaced in the order of their names.")] = None,
    workers: Annotated[int, typer.Option(help="Number of parallel processes; 0 starts one per core.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the record to this .json file.")] = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this .csv file.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Plot every measure against the number of regions to this .png file.")
    ] = None,
) -> None:
    """Benchmark superpixel methods against human annotations."""
    counts, names = parsed_counts(tokens, "--tokens"), [name.strip() for name in methods.split(",")]
    given = _named_folders(labels or [])
    check_outputs({".json": output, ".csv": csv, ".png": plot})

    from pixtree.evaluation.datasets import annotated_photos, data_folder
    from pixtree.evaluation.label_folders import label_folder
    from pixtree.evaluation.records import provenance, write_record, write_table
    from pixtree.evaluation.superpixel_comparison import compare_superpixels, rows

    photos = annotated_photos(data, split, limit)
    folders = [label_folder(name, folder, photos) for name, folder in given.items()]
    ready = compare_superpixels(photos, names, counts, workers or os.cpu_count() or 1, folders)
    samples: list[Sample] = []
    with Progress(len(photos) * len(counts)) as progress:
        for some in ready:
            samples += some
            progress.advance()
    found = rows(samples)
    folder = data_folder(data)
    limited = "" if limit is None else f" --limit {limit}"
    limited += "".join(f" --labels {name}=FOLDER" for name in given)
    command = f"pixtree evaluate superpixels {named(folder)} --split {split} --tokens {tokens} --methods {methods}{limited}"
    _show(found)
    if output is not None:
        write_record({**_heading(folder.name, split, photos, folders), **provenance(command), "rows": found}, output)
    if csv is not None:
        write_table(found, csv)
    if plot is not None:
        from pixtree.evaluation.plots import plot_superpixels

        plot_superpixels(found, plot)


@reported()
def report(
    results: Annotated[Path, typer.Argument(help="Folder of the records.")] = Path("benchmarks/results"),
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the page to this file.")] = Path("docs/results.md"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if the page is out of date.")] = False,
) -> None:
    """Write the page of results from the records of the benchmarks."""
    from pixtree.evaluation.report import is_current, write_report

    if check:
        if not is_current(results, output):
            raise ValueError(f"{output} does not match the records; run pixtree evaluate report")
        typer.echo(f"{output} is up to date")
        return
    write_report(results, output)
    typer.echo(f"wrote {output}")


def _named_folders(words: Sequence[str]) -> dict[str, str]:
    """The folders by name, from NAME=FOLDER."""
    pairs = [word.partition("=")[::2] for word in words]
    if len({name for name, _ in pairs}) < len(pairs) or not all(name and folder for name, folder in pairs):
        raise ValueError(
            f"--labels takes NAME=FOLDER, each name once, got {' '.join(words)!r}; give every folder a name of its own"
        )
    return dict(pairs)


def _heading(folder: str, split: str, photos: Sequence["AnnotatedPhoto"], others: Sequence["LabelFolder"]) -> dict[str, Any]:
    annotations = sum(len(photo.segmentations()) for photo in photos)
    heading: dict[str, Any] = {"programs": {one.name: dict(one.about) for one in others}} if others else {}
    return heading | {
        "benchmark": "superpixels",
        "title": f"Superpixels on {folder}" + (", beside other programs" if others else ""),
        "dataset": {"name": folder, "split": split, "photos": len(photos), "annotations": annotations},
        "notes": [
            "The figures are means over the annotators of a photo, then over the photos. Each method is measured by its own "
            "segments, at the setting whose count comes nearest to the one requested; the 4-connected column counts their "
            "connected pieces.",
            "CPU s is the median processor time of one run at that setting, with the image in memory and without the search for "
            "the setting.",
            "The options of slic, seeds and lsc were chosen at 200 regions on eight photos of BSDS500 val itself, which favours "
            "them.",
        ],
    }


def _show(found: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    shown = {
        "segments": ("regions", ".1f"),
        "boundary_recall": ("recall", ".4f"),
        "boundary_precision": ("precision", ".4f"),
        "undersegmentation_error": ("underseg.", ".4f"),
        "achievable_accuracy": ("ASA", ".4f"),
        "explained_variation": ("EV", ".4f"),
        "psnr": ("PSNR", ".2f"),
        "compactness": ("compact", ".3f"),
        "contour_density": ("contours", ".3f"),
        "seconds": ("CPU s", ".3f"),
    }
    view = Table("method", "asked", *(heading for heading, _ in shown.values()), box=None)
    for row in found:
        view.add_row(row["method"], str(row["tokens"]), *(format(row[key], form) for key, (_, form) in shown.items()))
    terminal = Console()
    # a table cut off at the edge of a narrow window, or of a pipe, would be no table
    Console(width=max(terminal.width, WIDTH)).print(view)
