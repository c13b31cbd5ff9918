"""Options that commands share: a group of them is one value for the command, and separate options for its user."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import typer
from commands import invoke

from pixtree.cli.options import grouped
from pixtree.cli.progress import Steps


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option(help="Width.")]
    height: Annotated[int, typer.Option("--tall", help="Height.")] = 3


@grouped
def area(name: Annotated[str, typer.Argument()], size: Size, twice: Annotated[bool, typer.Option("--twice")] = False) -> None:
    """Print an area."""
    typer.echo(f"{name} {size} {size.width * size.height * (1 + twice)}")


def test_a_group_is_one_value_for_the_command_and_options_for_its_user():
    app = typer.Typer()
    app.command()(area)
    assert invoke(app, ["wall", "--width", "4"]).stdout == "wall Size(width=4, height=3) 12\n"
    assert invoke(app, ["wall", "--width", "4", "--tall", "2", "--twice"]).stdout == "wall Size(width=4, height=2) 16\n"
    assert invoke(app, ["wall"]).exit_code == 2  # a field without a default is required


def test_a_group_stands_where_its_parameter_stood():
    assert list(inspect.signature(area).parameters) == ["name", "width", "height", "twice"]


def test_steps_of_a_training_show_their_figures():
    with Steps(3) as report:
        report(0, {"loss": 0.5, "tokens": 80.2, "images_per_second": 2.25})
        assert (report.done, report.words) == (1, "loss 0.50000, 80 tokens, 2.2 images/s")
        report(1, {"loss": 0.25})
    assert (report.done, report.words) == (2, "loss 0.25000")
