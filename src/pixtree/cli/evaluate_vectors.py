"""`pixtree evaluate vectors`: drawings of a folder of images, measured beside vtracer's."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.jobs import expanded
from pixtree.cli.progress import Progress
from pixtree.cli.tables import check_outputs

if TYPE_CHECKING:
    from pixtree.evaluation.vectors import Method

COLUMNS = {
    "paths": ("paths", ".0f"),
    "bytes": ("bytes", ".0f"),
    "mse": ("MSE", ".5f"),
    "psnr": ("PSNR", ".2f"),
    "psnr_of_mean": ("of mean", ".2f"),
    "ssim": ("SSIM", ".4f"),
    "psnr_0.73": ("0.73×", ".2f"),
    "psnr_1.37": ("1.37×", ".2f"),
    "gap_mean_square": ("gaps²", ".3f"),
    "seconds": ("s", ".2f"),
}


@reported()
def vectors(
    folder: Annotated[Path, typer.Argument(help="Folder of images.", show_default=False)],
    paths: Annotated[str, typer.Option(help="Budgets of paths, separated by commas; empty for none.")] = "500,1000,2000,5000",
    bytes: Annotated[str, typer.Option("--bytes", help="Budgets of bytes, separated by commas.")] = "",
    style: Annotated[str, typer.Option(help="One of polyline, smooth, polygon and paper.")] = "polyline",
    fast: Annotated[bool, typer.Option("--fast", help="Faster and rougher: whole pixels, no colour refit.")] = False,
    baselines: Annotated[bool, typer.Option(help="Measure vtracer at seven settings as well.")] = True,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the record to this .json file.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot PSNR against bytes to this .png file.")] = None,
) -> None:
    """Measure drawings of the images of a folder: error, similarity, paths, bytes, seconds."""
    images = expanded([folder])
    check_outputs({".json": output, ".png": plot})
    methods = _methods(_numbers("--paths", paths), _numbers("--bytes", bytes), baselines, style=style, fast=fast)

    from pixtree.evaluation.records import provenance, write_record
    from pixtree.evaluation.vectors import compare, plot_rate_distortion, summary

    rows = []
    with Progress(len(images) * len(methods)) as progress:
        for row in compare(images, methods):
            rows.append(row)
            progress.stage(f"{row['image']}: {row['method']}")
            progress.advance()
    table = summary(rows)
    _show(table)
    if output is not None:
        command = f"pixtree evaluate vectors {folder.name} --paths {paths} --bytes {bytes} --style {style}"
        heading = {"benchmark": "vectors", "title": f"Drawings of {folder.name}", **provenance(command)}
        write_record({**heading, "rows": table, "images": rows}, output)
    if plot is not None:
        plot_rate_distortion(table, plot)


def _methods(paths: Sequence[int], sizes: Sequence[int], baselines: bool, **options: Any) -> "list[Method]":
    from pixtree.evaluation.vectors import VTRACER, own_method, vtracer_method

    own = [own_method(f"pixtree {count} paths", paths=count, **options) for count in paths]
    own += [own_method(f"pixtree {size // 1000} kB", bytes=size, **options) for size in sizes]
    if not own and not baselines:
        raise UsageError("something must be measured, got no --paths, no --bytes and --no-baselines; give one of them")
    return own + ([vtracer_method(setting) for setting in VTRACER] if baselines else [])


def _numbers(name: str, text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise UsageError(f"{name} are whole numbers of at least 1 separated by commas, got {text!r}; try 1000,5000")
    return [int(word) for word in words]


def _show(table: Sequence[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    view = Table("method", *(heading for heading, _ in COLUMNS.values()), box=None)
    for row in table:
        view.add_row(row["method"], *(format(row[key], form) for key, (_, form) in COLUMNS.items()))
    Console(width=max(Console().width, 130)).print(view)
