"""The entry point: `pixtree`, its groups of commands and its version."""

from importlib.metadata import version
from typing import Annotated

import typer

from pixtree.cli import doctor, evaluate, hierarchy, segment, train, vectorize

GROUPS = (segment, hierarchy, vectorize, train, evaluate, doctor)

app = typer.Typer(
    name="pixtree",
    help="Turn images into trees of regions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for group in GROUPS:
    group.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pixtree {version('pixtree')}")
        raise typer.Exit


@app.callback()
def options(
    wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Turn images into trees of regions, and trees into superpixels, drawings and tokens."""


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
