"""`pixtree train distill`: a cheaper model that answers as the one it came from, learned from a folder of pictures."""

from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.progress import Steps


@reported()
def distill(
    model: Annotated[str, typer.Argument(help="A Vision Transformer of timm, by name.", show_default=False)],
    images: Annotated[Path, typer.Argument(help="Folder of pictures; they need no labels.", show_default=False)],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the model, its checkpoint and its log.")],
    weights: Annotated[
        Path | None, typer.Option(help="A .safetensors file with the model's weights.", show_default="timm's, downloaded")
    ] = None,
    tokens: Annotated[
        list[int] | None, typer.Option(help="Number of regions; repeat it to train for several.", show_default="196")
    ] = None,
    compute: Annotated[
        float | None, typer.Option(help="Instead of regions: token trees between the blocks, at this share of the compute.")
    ] = None,
    epochs: Annotated[float, typer.Option(help="How often every picture is seen.")] = 3.0,
    batch: Annotated[int, typer.Option(help="Pictures per step, over all processes.")] = 16,
    part: Annotated[int | None, typer.Option(help="Pictures at a time, if a step does not fit the memory.")] = None,
    rate: Annotated[float, typer.Option(help="Peak of the learning rate.")] = 3e-5,
    own_rate: Annotated[float, typer.Option(help="Factor of the rate of the mixing weights λ, β and κ.")] = 30.0,
    regions: Annotated[
        float | None, typer.Option(help="Weight of the patch features of every region.", show_default="1, of token trees 0")
    ] = None,
    crop: Annotated[float, typer.Option(help="Smallest share of a picture that a crop shows.")] = 0.7,
    precision: Annotated[str, typer.Option(help="Precision of the products, float32 or bfloat16.")] = "float32",
    workers: Annotated[int, typer.Option(help="Processes that read pictures.")] = 1,
    seed: Annotated[int, typer.Option(help="Random seed of the order and of the crops.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint in OUTPUT.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do none of it.")] = False,
) -> None:
    """Turn a Vision Transformer into its retrofitted or coarsened self, without labels.

    The student learns the answers of the untouched model on your pictures. Killed at any moment, --resume goes on from the last
    checkpoint with the same data and ends with the same figures.
    """
    if tokens and compute is not None:
        raise UsageError(f"expected --tokens or --compute, got both ({tokens[0]} and {compute}); give one")
    from pixtree.training.distilling import Settings, distilled, prepared

    chosen = Settings(
        model=model,
        tokens=tuple(tokens or () if compute is not None else tokens or (196,)),
        compute=compute,
        epochs=epochs,
        batch=batch,
        part=part,
        rate=rate,
        own_rate=own_rate,
        regions=regions,
        crop=crop,
        precision=precision,
        seed=seed,
    )
    run = prepared(chosen, str(images), weights, workers)
    typer.echo(run.text)
    if dry_run:
        return
    output.mkdir(parents=True, exist_ok=True)
    with Steps(run.plan.steps) as report:
        found = distilled(run, output, resume, report)
    typer.echo(f"loss {found.first:.4f} -> {found.last:.4f} over {run.plan.steps} steps: {found.kept}")
