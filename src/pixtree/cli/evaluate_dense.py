"""`pixtree evaluate salient`: salient objects of a folder of photos and masks."""

from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import reported
from pixtree.cli.progress import Progress
from pixtree.cli.salient import ModelName, PictureSize, RegionCount, SideRule, WeightsFile, named_model

Limit = Annotated[int | None, typer.Option(help="Use only this many images, evenly spaced in the order of their names.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the record to this .json file.")]

SALIENT_COLUMNS = [
    ["way", "Tokens", ""],
    ["photos", "n", "d"],
    ["iou", "IoU ↑", ".3f"],
    ["accuracy", "Accuracy ↑", ".3f"],
    ["f_max", "F_max ↑", ".3f"],
]


@reported()
def salient(
    folder: Annotated[
        Path,
        typer.Argument(help="A folder with images and masks, in the layout of ECSSD, DUTS or DUT-OMRON.", show_default=False),
    ],
    model: ModelName = "deit_tiny_patch16_224",
    weights: WeightsFile = None,
    tokens: RegionCount = 196,
    side: SideRule = "border",
    size: PictureSize = 448,
    limit: Limit = None,
    output: Output = None,
) -> None:
    """Benchmark salient objects, found without training: the model's own tokens, and its features pooled into regions."""
    from pixtree.cli.evaluate import _check_outputs

    _check_outputs(output, None, None)
    from pixtree.evaluation.labelled_folders import labelled_set
    from pixtree.evaluation.records import PACKAGES, provenance, write_record
    from pixtree.evaluation.report import table
    from pixtree.evaluation.salient import Found, Way, measured, summary
    from pixtree.tasks.sides import checked_rule

    photos, rule = labelled_set(folder, "salient", limit=limit), checked_rule(side)
    loaded = named_model(model, weights)
    ways = [Way("its own", None), Way("its own, snapped", None, "snap"), Way("its own, bilateral solver", None, "bilateral")]
    if tokens:
        ways += [Way(f"{tokens} regions", tokens), Way(f"{tokens} regions, snapped", tokens, "snap")]
    found: list[Found] = []
    with Progress(len(photos)) as progress:
        for photo in photos.images:
            found += measured(photo, loaded, ways, side=rule, rules=(), size=size)
            progress.advance()
    rows = summary(found)
    typer.echo(table([(key, heading, form) for key, heading, form in SALIENT_COLUMNS], rows))
    if output is not None:
        command = f"pixtree evaluate salient {folder.name} --model {model} --tokens {tokens} --side {side} --size {size}"
        record = {"benchmark": "table", "title": f"Salient objects on {folder.name}", **provenance(command, [*PACKAGES, "timm"])}
        write_record({**record, "columns": SALIENT_COLUMNS, "rows": rows}, output)
