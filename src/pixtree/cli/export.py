"""`pixtree export`: a coarsened model or a retrofit as an ONNX file."""

from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.files import checked_target


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("export")(export)


@reported()
def export(
    model: Annotated[
        str, typer.Argument(help="A Vision Transformer of timm by name, or the folder of a Hugging Face model.", show_default=False)
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The .onnx file to write.", show_default=False)],
    compute: Annotated[
        float | None, typer.Option(help="Share of the model's operations to keep, by merging tokens.", show_default="0.5")
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(help="Instead, this many regions as tokens: a retrofit, with their labels as second input.", min=1),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="A .safetensors file with the weights of a timm model.", show_default="timm's, downloaded")
    ] = None,
) -> None:
    """Coarsen or retrofit a model and write it as ONNX, for any batch and the model's image size. Takes minutes."""
    if output.suffix != ".onnx":
        raise UsageError(f"expected an .onnx file as output, got {str(output)!r}; rename it")
    is_folder = Path(model).is_dir()
    if is_folder and weights is not None:
        raise UsageError("a folder has its own weights, got --weights as well; leave it out")
    if tokens is not None and compute is not None:
        raise UsageError(f"a file has merging patches or regions, got --compute {compute} and --tokens {tokens}; give one")
    if tokens is not None and is_folder:
        raise UsageError("retrofits are exported from names of timm, got a folder with --tokens; call pixtree.models.export_onnx")
    checked_target(output)
    import pixtree
    from pixtree.models import export_onnx, named_model

    held = model if is_folder else named_model(model, weights)
    made = pixtree.coarsen(held, compute) if tokens is None else pixtree.retrofit(held, tokens=tokens)
    export_onnx(made.eval(), output)
    second = "" if tokens is None else ", and labels (B, H, W) int32 of their regions"
    typer.echo(f"wrote {output}: inputs images (B, C, H, W), normalised as for the model{second}")
