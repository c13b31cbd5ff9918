"""`pixtree salient`: the object of a photo that stands out to a Vision Transformer."""

from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import ImageFile, checked_paths

ModelName = Annotated[
    str, typer.Option("--model", help="A Vision Transformer of timm by name, or a folder that a retrofit was saved to.")
]
WeightsFile = Annotated[
    Path | None, typer.Option("--weights", help="A .safetensors file with the model's weights.", show_default="timm's, downloaded")
]
RegionCount = Annotated[
    int,
    typer.Option("--tokens", min=0, help="Average the model's features over so many regions of the photo; 0 for its own tokens."),
]
SideRule = Annotated[
    str, typer.Option("--side", help="Rule for the object's side: border, centre, largest, attention or occlusion (the paper's).")
]
PictureSize = Annotated[int, typer.Option("--size", help="Pixels a side of the square that the model sees.")]


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("salient")(salient)


@reported()
def salient(
    image: ImageFile,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Write the mask to this .png file: white inside, or the number of each object.",
            show_default=False,
        ),
    ],
    model: ModelName = "deit_tiny_patch16_224",
    weights: WeightsFile = None,
    tokens: RegionCount = 0,
    side: SideRule = "border",
    refine: Annotated[str, typer.Option(help="How the outline is made sharp: snap, bilateral or none.")] = "snap",
    objects: Annotated[int, typer.Option(min=1, max=254, help="Look for so many objects, one after the other.")] = 1,
    size: PictureSize = 448,
    overlay: Annotated[
        Path | None, typer.Option(help="Also draw the outline over the image and write the picture to this .png file.")
    ] = None,
) -> None:
    """Find the object of a photo that stands out to a model, without training, and write its mask."""
    checked_paths(image, output, overlay, weights)
    _check(output, overlay, refine)

    import numpy as np

    from pixtree.evaluation.variants import model_of
    from pixtree.exports.pictures import boundaries, save_png
    from pixtree.images import checked
    from pixtree.tasks.salient import salient as salient_object

    picture = checked(image)
    mask = salient_object(
        picture,
        model_of(model, weights),
        tokens=tokens or None,
        side=side,
        refine=None if refine == "none" else refine,
        objects=objects,
        size=size,
    )
    save_png(output, mask.astype(np.uint8) * (255 if objects == 1 else 1))
    found = int(mask.max())
    typer.echo(f"{found} object{'' if found == 1 else 's'}, {int((mask > 0).sum())} of {mask.size} pixels: {output}")
    if overlay is not None:
        save_png(overlay, boundaries(picture, mask.astype(np.int32)))
        typer.echo(f"outline: {overlay}")


def _check(output: Path, overlay: Path | None, refine: str) -> None:
    """Refuse what cannot be written or is not known, before any work."""
    from pixtree.exports.pictures import checked_png
    from pixtree.files import checked_target

    for path in (output, overlay):
        if path is not None:
            checked_target(checked_png(path))
    if refine not in ("snap", "bilateral", "none"):
        raise UsageError(f"--refine is snap, bilateral or none, got {refine!r}; choose one of these")
