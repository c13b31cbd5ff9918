"""`pixtree evaluate salient` and `oracle`: salient objects, and the best that regions allow in segmentation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from pixtree.cli.errors import reported
from pixtree.cli.options import ImageSize, ModelName, RegionCount, SideRule, WeightsFile, parsed_counts
from pixtree.cli.progress import Progress
from pixtree.cli.tables import check_outputs

Folder = Annotated[
    Path, typer.Argument(help="A folder of images and labels in the layout that --layout names.", show_default=False)
]
Layout = Annotated[str, typer.Option(help="Layout of the folder: ade20k, coco-stuff-164k, coco-stuff-10k, camvid or voc.")]
Split = Annotated[str, typer.Option(help="Part of the data to use.")]
Limit = Annotated[int | None, typer.Option(help="Use only this many images, evenly spaced in the order of their names.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the record to this .json file.")]

ORACLE_METHODS = "pixtree,pixtree-nested,felzenszwalb,slic,seeds,lsc,watershed,quadtree,spit,grid"
SALIENT_COLUMNS = [
    ["way", "Tokens", ""],
    ["photos", "n", "d"],
    ["iou", "IoU ↑", ".3f"],
    ["accuracy", "Accuracy ↑", ".3f"],
    ["f_max", "F_max ↑", ".3f"],
]
ORACLE_COLUMNS = [
    ["method", "Method", ""],
    ["tokens", "Asked", "d"],
    ["regions", "Regions", ".1f"],
    ["miou", "mIoU ↑", ".3f"],
    ["boundary_f", "Boundary F ↑", ".3f"],
    ["accuracy", "Pixel accuracy ↑", ".3f"],
]
ORACLE_NOTES = [
    "Every region takes the class that most of its pixels have: no model that gives a region one class can do better. mIoU is over "
    "all pixels together; the boundary F, within 3 px, is a mean over images. Each method is measured by its own segments.",
]


@reported()
def oracle(
    folder: Folder,
    layout: Layout = "camvid",
    split: Split = "val",
    tokens: Annotated[str, typer.Option(help="Numbers of regions, separated by commas.")] = "64,144,256,576",
    methods: Annotated[str, typer.Option(help="Methods, separated by commas.")] = ORACLE_METHODS,
    limit: Limit = None,
    output: Output = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Plot mIoU and boundary F to this .png file.")] = None,
) -> None:
    """Measure the best mIoU that partitions allow: every region takes its majority class, and nothing is trained."""
    counts, names = parsed_counts(tokens, "--tokens"), [name.strip() for name in methods.split(",")]
    check_outputs({".json": output, ".png": plot})
    from pixtree.evaluation.labelled_folders import labelled_set
    from pixtree.evaluation.oracle import oracle as oracle_rows
    from pixtree.evaluation.records import provenance, write_record
    from pixtree.evaluation.report import table

    data = labelled_set(folder, layout, split, limit)
    rows: list[dict[str, Any]] = []
    with Progress(len(data)) as progress:
        for after in oracle_rows(data.images, len(data.classes), names, counts):
            rows = after
            progress.advance()
    typer.echo(table([(key, heading, form) for key, heading, form in ORACLE_COLUMNS], rows))
    if output is not None:
        command = f"pixtree evaluate oracle {folder.name} --layout {layout} --split {split} --tokens {tokens} --methods {methods}"
        title = f"Oracle of partitions on {data.name}, {split}: {len(data)} images"
        record = {"benchmark": "table", "title": title, **provenance(command)}
        write_record({**record, "columns": ORACLE_COLUMNS, "rows": rows, "notes": ORACLE_NOTES}, output)
    if plot is not None:
        from pixtree.evaluation.dense_plots import plot_oracle

        plot_oracle(rows, plot)


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
    size: ImageSize = 448,
    limit: Limit = None,
    output: Output = None,
) -> None:
    """Benchmark salient objects, found without training: the model's own tokens, and its features pooled into regions."""
    check_outputs({".json": output})
    from pixtree.evaluation.labelled_folders import labelled_set
    from pixtree.evaluation.records import PACKAGES, provenance, write_record
    from pixtree.evaluation.report import table
    from pixtree.evaluation.salient import Found, Way, measured, summary
    from pixtree.evaluation.variants import model_of
    from pixtree.tasks.sides import checked_rule

    photos, rule = labelled_set(folder, "salient", limit=limit), checked_rule(side)
    loaded = model_of(model, weights)
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
