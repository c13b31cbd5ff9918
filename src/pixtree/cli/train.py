"""`pixtree train`: pretrain the tokenizer on a folder of images, distil a model, or follow a recipe."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pixtree.cli.distill import distill
from pixtree.cli.errors import reported
from pixtree.cli.progress import Steps
from pixtree.cli.recipe import recipe

PRESETS = ("default", "paper")


def register(app: typer.Typer) -> None:
    """Add the group of commands of this file."""
    group = typer.Typer(help="Train the tokenizer or a whole model, with labels or without.", no_args_is_help=True)
    group.command("tokenizer")(tokenizer)
    group.command("distill")(distill)
    group.command("recipe")(recipe)
    app.add_typer(group, name="train")


@reported()
def tokenizer(
    folder: Annotated[Path, typer.Argument(help="Folder of images; folders inside it are searched too.", show_default=False)],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write the weights to this .safetensors file.", show_default=False)
    ],
    preset: Annotated[
        str, typer.Option(help="Recipe: default, or paper for its tokenizer, regions by AICC, L_rec alone and its optimiser.")
    ] = "default",
    steps: Annotated[
        int | None, typer.Option(help="Number of optimisation steps.", show_default="400; paper: 10 crops per image")
    ] = None,
    batch: Annotated[int, typer.Option(help="Number of crops per step.")] = 4,
    size: Annotated[int, typer.Option(help="Side of a crop in pixels.")] = 160,
    tokens: Annotated[
        int | None, typer.Option(help="Number of regions per crop; not with the paper's preset.", show_default="80")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Peak of the learning rate.", show_default="0.01; paper: 0.0001, constant")
    ] = None,
    decay: Annotated[float | None, typer.Option(help="Weight decay of AdamW.", show_default="0; paper: 0.01")] = None,
    association: Annotated[
        float | None,
        typer.Option(
            help="Weight of the association loss, which trains the partition; 0 leaves it out. Not with the paper's preset.",
            show_default="1",
        ),
    ] = None,
    features: Annotated[int, typer.Option(help="Number of feature channels d.")] = 8,
    compactness: Annotated[
        float | None,
        typer.Option(help="Weight of pixel coordinates while training; not with the paper's preset.", show_default="0"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of the crops and of the initial weights.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the .checkpoint file beside OUTPUT.")] = False,
) -> None:
    """Pretrain the encoder of the tokenizer by reconstruction.

    A .checkpoint file is written beside OUTPUT, from which --resume continues an interrupted run.
    """
    _check_options(output, preset, {"--tokens": tokens, "--association": association, "--compactness": compactness})

    import torch

    from pixtree.files import checked_target
    from pixtree.tokenizer.tokenizer import region_encoder
    from pixtree.training import presets
    from pixtree.training.data import RandomCrops, image_files
    from pixtree.training.reconstruction import Pretraining

    checked_target(output)
    files = image_files(folder)
    crops = RandomCrops(files, batch, size, seed)
    chosen = presets.PRESETS[preset].changed(features, tokens, association, compactness)
    plan = chosen.plan_for(len(files), batch, steps=steps, rate=rate, decay=decay, seed=seed)
    torch.manual_seed(seed)
    encoder = region_encoder(chosen.options)
    objective = Pretraining(encoder, chosen.budget, chosen.losses)
    settings: dict[str, object] = {
        "images": [path.name for path in files],
        "crops": [batch, size, str(chosen.budget)],
        "model": [preset, features, chosen.options.tree.compactness, chosen.losses.association],
    }
    _train_and_save(objective, crops, plan, output, resume, settings)


def _train_and_save(objective: Any, crops: Any, plan: Any, output: Path, resume: bool, settings: dict[str, object]) -> None:
    """Run a plan under a progress bar, and write the weights with a few words about the run."""
    from pixtree.tokenizer.weights import save_weights
    from pixtree.training.loop import train

    with Steps(plan.steps) as report:
        beside = output.with_suffix(".checkpoint")
        curve = train(objective, crops, plan, checkpoint=beside, resume=resume, settings=settings, report=report).losses
    images = len(settings["images"])  # type: ignore[arg-type]
    about = {"images": str(images), "steps": str(plan.steps), "seed": str(plan.seed), "last_loss": f"{_tail(curve):.6f}"}
    save_weights(objective.learner, output, about)
    typer.echo(f"loss {_head(curve):.5f} -> {_tail(curve):.5f} over {len(curve)} steps: {output}")


def _check_options(output: Path, preset: str, options: dict[str, Any]) -> None:
    """Refuse other files and presets, and `options` that the paper's preset decides itself."""
    if output.suffix != ".safetensors":
        raise ValueError(f"weights are written as .safetensors, got {output.name!r}; name them {output.stem}.safetensors")
    if preset not in PRESETS:
        raise ValueError(f"a preset is one of {', '.join(PRESETS)}, got {preset!r}; choose one of them")
    given = [name for name, value in options.items() if value is not None]
    if preset == "paper" and given:
        raise ValueError(f"the paper's preset has no {', '.join(given)}, got it with --preset paper; leave it out or use default")


def _head(curve: list[float]) -> float:
    first = curve[:20]
    return sum(first) / len(first)


def _tail(curve: list[float]) -> float:
    return _head(curve[::-1])
