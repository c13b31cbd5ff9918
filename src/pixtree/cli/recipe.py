"""`pixtree train recipe`: a training whose settings are one YAML file, shipped or your own."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pixtree.cli.errors import reported
from pixtree.cli.progress import Steps

if TYPE_CHECKING:
    from pixtree.training.running import Run

NAMES = ("tokenizer", "pretrain", "finetune", "retrofit", "segment")


@reported()
def recipe(
    name: Annotated[
        str,
        typer.Argument(
            help=f"A recipe of the paper ({', '.join(NAMES)}), its small variant (such as pretrain_laptop), or a YAML file.",
            show_default=False,
        ),
    ],
    data: Annotated[
        Path,
        typer.Argument(
            help="Folder of pictures: a folder per class, in `train` and `val` if some are held out.", show_default=False
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the model, its checkpoint, log and result.", show_default=False)
    ],
    start: Annotated[
        Path | None,
        typer.Option(help="Start from the model that a run left in this folder, or from a timm model's .safetensors file."),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a value of the recipe, as schedule.epochs=2; repeat it for several.", show_default=False
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that read pictures.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in OUTPUT.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say the steps, tokens, memory and time of the training, and do none of it.")
    ] = False,
) -> None:
    """Train by a recipe: the tokenizer, a model from scratch, a fine-tuned or a retrofitted one.

    Killed at any moment, --resume goes on from the last checkpoint with the same data and ends with the same figures.
    """
    from pixtree.training.recipe import GIVEN, read_recipe
    from pixtree.training.running import prepared, trained

    chosen = read_recipe(name, [*(changes or ()), *(() if start is None else (f"model.start={start}",))])
    run = prepared(chosen, str(data), workers=0 if dry_run else workers, weights=not dry_run)
    typer.echo(run.text)
    for note in chosen.notes:
        typer.echo(f"note: {note}")
    if dry_run:
        if getattr(getattr(chosen, "model", None), "start", None) == GIVEN:
            typer.echo("note: A training needs --start with the folder of an earlier run; this is measured with fresh weights.")
        _show_cost(run, workers)
        return
    output.mkdir(parents=True, exist_ok=True)
    with Steps(run.plan.steps) as report:
        found = trained(run, output, resume, report)
    if found:
        measured = [f", {title} {found[key]:.1%}" for key, title in (("top1", "top-1"), ("mean_iou", "mIoU")) if key in found]
        tested = "".join(measured) + (f" of {found['tested']:.0f} held-out pictures" if measured else "")
        typer.echo(f"loss {found['first_loss']:.4f} -> {found['last_loss']:.4f} over {found['steps']} steps{tested}: {output}")


def _show_cost(run: "Run", workers: int) -> None:
    """Tokens, memory and time, from a few measured pictures."""
    from pixtree.training.running import cost

    schedule, found = run.recipe.schedule, cost(run)
    seen, at_once = schedule.epochs * run.pictures, min(schedule.part or schedule.batch, schedule.batch)
    if found.tokens is not None:
        typer.echo(f"tokens: {found.tokens:.0f} per picture, {found.tokens * seen:.3g} in all")
    less = f", {found.memory(1):.2g} GB with one (schedule.part)" if at_once > 1 else ""
    typer.echo(f"memory: {found.memory(at_once):.3g} GB with {at_once} pictures at a time{less}, before what reads the pictures")
    each = found.reading + found.training
    typer.echo(
        f"time: {_duration(found.hours(seen, workers))} on this machine with one process that trains, extrapolated from "
        f"{each:.3f} s per picture, of which reading takes {found.reading:.3f} s"
    )


def _duration(hours: float) -> str:
    """Hours in the unit that people would say."""
    if hours < 1:
        return f"{hours * 60:.1f} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.0f} days"
