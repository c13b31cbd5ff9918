"""The entry point: `pixtree`, its groups of commands and its version."""

import logging
from importlib.metadata import version
from typing import Annotated

import typer

from pixtree.cli import batch, demo, doctor, evaluate, export, hierarchy, masks, runs, segment, train, vectorize, warmup
from pixtree.cli.errors import end_in_order, log_to_stderr

FIRST_STEPS = """pixtree turns images into trees of regions. Try first:

  pixtree doctor                                              # is everything in place?
  pixtree segment photo.jpg -o labels.png --overlay seen.png  # 200 superpixels
  pixtree vectorize photo.jpg                                 # an SVG drawing next to the photo
  pixtree hierarchy photo.jpg -o levels.png                   # the tree, as a stack of cuts

pixtree --help lists all commands, pixtree segment --help the options of one.
pixtree --install-completion lets the Tab key complete them."""
GROUPS = (segment, hierarchy, masks, vectorize, train, runs, evaluate, export, batch, demo, doctor, warmup)

app = typer.Typer(
    name="pixtree",
    help="Turn images into trees of regions, and trees into superpixels, drawings and tokens.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in GROUPS:
    group.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pixtree {version('pixtree')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print more about the progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Turn images into trees of regions, and trees into superpixels, drawings and tokens."""
    log_to_stderr(logging.INFO if verbose else logging.ERROR if quiet else logging.WARNING)
    if context.invoked_subcommand is None:
        typer.echo(FIRST_STEPS)


def main() -> None:
    """Run the command line."""
    end_in_order()
    app()


if __name__ == "__main__":
    main()
