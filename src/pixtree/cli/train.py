"""`pixtree train`: follow a recipe, or its short forms: pretrain the tokenizer, and distil a model."""

import logging
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import grouped
from pixtree.cli.progress import Steps

if TYPE_CHECKING:
    from pixtree.training.recipe import AnyRecipe
    from pixtree.training.running import Run

NAMES = ("tokenizer", "pretrain", "finetune", "retrofit", "segment")
log = logging.getLogger("pixtree")

Seed = Annotated[int, typer.Option(help="Random seed of the weights, the order and the crops.")]
Folder = Annotated[
    Path, typer.Option("--output", "-o", help="Folder for the model, its checkpoint, log and result.", show_default=False)
]
Workers = Annotated[int, typer.Option(help="Processes that read images, for each training process.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint of an interrupted run.")]
Compile = Annotated[bool, typer.Option("--compile", help="Compile the model with torch.compile: the first steps take minutes.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print steps, tokens, memory and time without training.")]


def register(app: typer.Typer) -> None:
    """Add the group of commands of this file."""
    group = typer.Typer(help="Train the tokenizer or a whole model, with labels or without.", no_args_is_help=True)
    for command in (tokenizer, distill, recipe):
        group.command()(command)
    app.add_typer(group, name="train")


@dataclass(frozen=True)
class TokenizerOptions:
    """The options of `pixtree train tokenizer` that make its recipe."""

    preset: Annotated[
        str, typer.Option(help="Preset: default, or paper for its tokenizer, regions by AICC, L_rec alone and its optimiser.")
    ] = "default"
    steps: Annotated[
        int | None, typer.Option(help="Number of optimisation steps.", show_default="400; paper: 10 crops per image")
    ] = None
    batch: Annotated[int | None, typer.Option(help="Number of crops per step.", show_default="4; paper: 256")] = None
    size: Annotated[int, typer.Option(help="Side of a crop in pixels.")] = 160
    tokens: Annotated[
        int | None, typer.Option(help="Number of regions per crop; not with the paper's preset.", show_default="80")
    ] = None
    rate: Annotated[float | None, typer.Option(help="Peak learning rate.", show_default="0.01; paper: 0.0001, constant")] = None
    decay: Annotated[float | None, typer.Option(help="Weight decay of AdamW.", show_default="0; paper: 0.01")] = None
    association: Annotated[
        float | None,
        typer.Option(
            help="Weight of the association loss, which trains the partition; 0 disables it. Not with the paper's preset.",
            show_default="1",
        ),
    ] = None
    features: Annotated[int, typer.Option(help="Number of feature channels d.")] = 8
    compactness: Annotated[
        float | None,
        typer.Option(help="Weight of pixel coordinates while training; not with the paper's preset.", show_default="0"),
    ] = None
    seed: Seed = 0


@reported()
@grouped
def tokenizer(
    folder: Annotated[Path, typer.Argument(help="Folder of images; folders inside it are searched too.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the weights to this .safetensors file.", show_default=False)
    ],
    options: TokenizerOptions,
    workers: Workers = 0,
    resume: Resume = False,
    compiled: Compile = False,
    dry_run: DryRun = False,
) -> None:
    """Pretrain the encoder of the tokenizer by reconstruction.

    A .checkpoint file is written next to OUTPUT, from which --resume continues an interrupted run.
    """
    if output.suffix != ".safetensors":
        raise ValueError(f"weights are written as .safetensors, got {output.name!r}; name them {output.stem}.safetensors")

    from pixtree.files import checked_target
    from pixtree.runtime.processes import joined
    from pixtree.tokenizer.weights import save_weights
    from pixtree.training.running import ends_of, fitted, prepared
    from pixtree.training.short_forms import tokenizer_recipe
    from pixtree.training.sources import image_files

    checked_target(output)
    images, checkpoint, first = len(image_files(folder)), output.with_suffix(".checkpoint"), joined().first
    chosen = tokenizer_recipe(images=images, **asdict(options))
    run = prepared(chosen, str(folder), workers=0 if dry_run else workers, continues=checkpoint if resume else None)
    if dry_run:
        if first:
            typer.echo(run.text)
            _show_cost(run, workers)
        return
    with Steps(run.plan.steps) as report:
        losses = fitted(run, checkpoint, resume, report, compiled=compiled).losses
    if not first:
        return
    ends = ends_of(losses)
    about = {"images": str(images), "steps": str(len(losses)), "seed": str(options.seed), "last_loss": f"{ends['last_loss']:.6f}"}
    save_weights(run.objective.learner, output, about)  # type: ignore[arg-type]
    typer.echo(f"loss {ends['first_loss']:.5f} -> {ends['last_loss']:.5f} over {len(losses)} steps: {output}")


@reported()
def distill(
    model: Annotated[str, typer.Argument(help="A Vision Transformer of timm, by name.", show_default=False)],
    images: Annotated[Path, typer.Argument(help="Folder of images; they need no labels.", show_default=False)],
    output: Folder,
    weights: Annotated[
        Path | None, typer.Option(help="A .safetensors file with the model's weights.", show_default="timm's, downloaded")
    ] = None,
    tokens: Annotated[
        list[int] | None, typer.Option(help="Number of regions; repeat it to train for several.", show_default="196")
    ] = None,
    compute: Annotated[
        float | None, typer.Option(help="Instead of regions: token trees between the blocks, at this share of the compute.")
    ] = None,
    epochs: Annotated[float, typer.Option(help="Passes over all images.")] = 3.0,
    batch: Annotated[int, typer.Option(help="Images per step, over all processes.")] = 16,
    micro_batch: Annotated[int | None, typer.Option(help="Images at a time, if a step does not fit the memory.")] = None,
    rate: Annotated[float, typer.Option(help="Peak learning rate.")] = 3e-5,
    tokenizer_lr_scale: Annotated[
        float, typer.Option(help="Learning-rate scale of the mixing weights λ and β, of κ and of the encoder.")
    ] = 30.0,
    regions: Annotated[
        float | None,
        typer.Option(help="Weight of the loss on the patch features of every region.", show_default="1, of token trees 0"),
    ] = None,
    crop: Annotated[float, typer.Option(help="Smallest share of an image that a crop shows.")] = 0.7,
    precision: Annotated[str, typer.Option(help="Precision of matrix products, float32 or bfloat16.")] = "float32",
    workers: Workers = 1,
    seed: Seed = 0,
    resume: Resume = False,
    compiled: Compile = False,
    dry_run: DryRun = False,
    part: Annotated[int | None, typer.Option(hidden=True, help="Deprecated: use --micro-batch.")] = None,
    own_rate: Annotated[float | None, typer.Option(hidden=True, help="Deprecated: use --tokenizer-lr-scale.")] = None,
) -> None:
    """Distil a Vision Transformer into its retrofitted or coarsened version, without labels.

    The student learns the outputs of the original model on your images. --resume continues a killed run from its last checkpoint,
    and ends with the same figures.
    """
    if tokens and compute is not None:
        raise UsageError(f"expected --tokens or --compute, got both ({tokens[0]} and {compute}); give one")
    from pixtree.training.short_forms import distillation_recipe

    chosen = distillation_recipe(
        model,
        weights=weights,
        tokens=tokens or (196,),
        compute=compute,
        epochs=epochs,
        batch=batch,
        micro_batch=_renamed("--part", part, "--micro-batch", micro_batch),
        rate=rate,
        tokenizer_lr_scale=_renamed("--own-rate", own_rate, "--tokenizer-lr-scale", tokenizer_lr_scale),
        regions=regions,
        crop=crop,
        precision=precision,
        seed=seed,
    )
    _follow(chosen, images, output, workers, resume, dry_run, compiled)


def _renamed(old: str, former: Any, new: str, value: Any) -> Any:
    """The value of an option, which may come by its former name."""
    if former is None:
        return value
    log.warning("%s is deprecated; use %s", old, new)
    return former


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
        typer.Argument(help="Folder of images: a folder per class, in `train` and `val` if some are held out.", show_default=False),
    ],
    output: Folder,
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
    workers: Workers = 1,
    resume: Resume = False,
    compiled: Compile = False,
    dry_run: DryRun = False,
) -> None:
    """Train by a recipe: the tokenizer, a model from scratch, a fine-tuned, retrofitted or distilled one.

    --resume continues a killed run from its last checkpoint with the same data, and ends with the same figures.
    """
    from pixtree.training.recipe import read_recipe

    chosen = read_recipe(name, [*(changes or ()), *(() if start is None else (f"model.start={start}",))])
    _follow(chosen, data, output, workers, resume, dry_run, compiled)


def _follow(chosen: "AnyRecipe", data: Path, output: Path, workers: int, resume: bool, dry_run: bool, compiled: bool) -> None:
    """Train by a recipe under a progress bar, or print what it would cost."""
    from pixtree.runtime.processes import joined
    from pixtree.training.recipe import GIVEN
    from pixtree.training.running import CHECKPOINT, prepared, trained

    first = joined().first
    begun = output / CHECKPOINT if resume else None
    run = prepared(chosen, str(data), workers=0 if dry_run else workers, weights=not dry_run, continues=begun)
    if first:
        typer.echo(run.text)
        for note in chosen.notes:
            typer.echo(f"note: {note}")
    if dry_run and not first:
        return
    if dry_run:
        if getattr(getattr(chosen, "model", None), "start", None) == GIVEN:
            typer.echo("note: A training needs --start with the folder of an earlier run; this is measured with fresh weights.")
        _show_cost(run, workers)
        return
    output.mkdir(parents=True, exist_ok=True)
    with Steps(run.plan.steps) as report:
        found = trained(run, output, resume, report, compiled=compiled)
    if found:
        measured = [f", {title} {found[key]:.1%}" for key, title in (("top1", "top-1"), ("mean_iou", "mIoU")) if key in found]
        tested = "".join(measured) + (f" of {found['tested']:.0f} held-out images" if measured else "")
        typer.echo(f"loss {found['first_loss']:.4f} -> {found['last_loss']:.4f} over {found['steps']} steps{tested}: {output}")


def _show_cost(run: "Run", workers: int) -> None:
    """Tokens, memory and time, from a few measured images."""
    from pixtree.training.running import cost

    plan, found = run.plan, cost(run)
    seen = plan.steps * plan.batch if plan.epochs is None else plan.epochs * run.images
    at_once = min(plan.micro_batch or plan.batch, plan.batch)
    if found.tokens is not None:
        typer.echo(f"tokens: {found.tokens:.0f} per image, {found.tokens * seen:.3g} in all")
    less = f", {found.memory(1):.2g} GB with one (schedule.micro_batch)" if at_once > 1 else ""
    typer.echo(f"memory: {found.memory(at_once):.3g} GB with {at_once} images at a time{less}, without the data loader")
    each = found.reading + found.training
    typer.echo(
        f"time: {_duration(found.hours(seen, workers))} on this machine with one training process, extrapolated from "
        f"{each:.3f} s per image, of which reading takes {found.reading:.3f} s"
    )


def _duration(hours: float) -> str:
    """Hours in a readable unit."""
    if hours < 1:
        return f"{hours * 60:.1f} minutes"
    return f"{hours:.1f} hours" if hours < 48 else f"{hours / 24:.0f} days"
