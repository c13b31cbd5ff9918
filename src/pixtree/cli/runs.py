"""`pixtree runs`: the curves of training runs, side by side."""

from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import reported


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("runs")(runs)


@reported()
def runs(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs that `pixtree train` wrote.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Write the curves to this .png, .svg or .pdf file.")] = Path(
        "runs.png"
    ),
) -> None:
    """Plot the curves of training runs side by side: loss, accuracy, learning rate, tokens and speed; also of unfinished runs."""
    from pixtree.training.logs import logs_of, plot_runs, summary

    if output.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"curves are written as .png, .svg or .pdf, got {output.name!r}; name them {output.stem}.png")
    logs = logs_of(folders)
    plot_runs(logs, output)
    for name, lines in logs.items():
        found = summary(lines)
        figures = [f"{key.replace('_', ' ')} {value:.4g}" for key, value in found.items() if key != "steps"]
        typer.echo(f"{name}: {found['steps']:.0f} steps, at the end {', '.join(figures)}")
    typer.echo(f"curves: {output}")
