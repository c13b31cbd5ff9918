"""`pixtree evaluate`: benchmarks of superpixels, drawings, salient objects, segmenters, the oracle of regions, and models."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli import evaluate_models, evaluate_paper, evaluate_speed
from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import AffinityName, ImageSize, ModelName, RegionCount, SideRule, WeightsFile, parsed_counts
from pixtree.cli.progress import Progress
from pixtree.cli.tables import Limit, Methods, Output, Plot, Split, Tokens, check_outputs, named, refuse_several, show, write

if TYPE_CHECKING:
    from pixtree.evaluation.annotated_photos import AnnotatedPhoto, LabelFolder
    from pixtree.evaluation.superpixel_comparison import Sample
    from pixtree.evaluation.vectors import Method

Layout = Annotated[str, typer.Option(help="Layout of the folder: ade20k, coco-stuff-164k, coco-stuff-10k, camvid or voc.")]
SUPERPIXEL_METHODS = "pixtree,pixtree-nested,slic,felzenszwalb,seeds,lsc,watershed,quadtree,grid,spit"
ORACLE_METHODS = "pixtree,pixtree-nested,felzenszwalb,slic,seeds,lsc,watershed,quadtree,spit,grid"
SUPERPIXEL_COLUMNS = [
    ["method", "method", ""],
    ["tokens", "asked", ""],
    ["segments", "regions", ".1f"],
    ["boundary_recall", "recall", ".4f"],
    ["boundary_precision", "precision", ".4f"],
    ["undersegmentation_error", "underseg.", ".4f"],
    ["achievable_accuracy", "ASA", ".4f"],
    ["explained_variation", "EV", ".4f"],
    ["psnr", "PSNR", ".2f"],
    ["compactness", "compact", ".3f"],
    ["contour_density", "contours", ".3f"],
    ["seconds", "CPU s", ".3f"],
]
DIFFERENCE_COLUMNS = [
    ["method", "minus {}", ""],
    ["tokens", "asked", ""],
    ["boundary_recall", "recall", ".4f"],
    ["boundary_precision", "precision", ".4f"],
    ["undersegmentation_error", "underseg.", ".4f"],
    ["achievable_accuracy", "ASA", ".4f"],
    ["explained_variation", "EV", ".4f"],
    ["contour_density", "contours", ".4f"],
]
VECTOR_COLUMNS = [
    ["method", "method", ""],
    ["paths", "paths", ".0f"],
    ["bytes", "bytes", ".0f"],
    ["mse", "MSE", ".5f"],
    ["psnr", "PSNR", ".2f"],
    ["psnr_of_mean", "of mean", ".2f"],
    ["ssim", "SSIM", ".4f"],
    ["psnr_0.73", "0.73×", ".2f"],
    ["psnr_1.37", "1.37×", ".2f"],
    ["gap_mean_square", "gaps²", ".3f"],
    ["seconds", "s", ".2f"],
]
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
SUPERPIXEL_NOTES = [
    "The figures are means over the annotators of a photo, then over the photos. Each method is measured by its own "
    "segments, at the setting whose count comes nearest to the one requested; the 4-connected column counts their "
    "connected pieces.",
    "CPU s is the median processor time of one run at that setting, with the image in memory and without the search for "
    "the setting.",
    "The options of slic, seeds and lsc were chosen at 200 regions on eight photos of BSDS500 val itself, which favours them.",
]
SEGMENTATION_COLUMNS = [
    ["class", "Class", ""],
    ["miou", "IoU ↑", ".4f"],
    ["boundary_f", "Boundary F ↑", ".4f"],
    ["accuracy", "Pixel accuracy ↑", ".4f"],
]
SEGMENTATION_NOTE = (
    "{count} images, resized to {size} × {size} px as in training and measured at the size of their annotations. The IoU of all "
    "classes is the mean over those that occur; the boundary F, within 3 px, is a mean over images."
)
ORACLE_NOTE = (
    "Every region takes the class that most of its pixels have: no model that gives a region one class can do better. mIoU is over "
    "all pixels together; the boundary F, within 3 px, is a mean over images. Each method is measured by its own segments."
)


def register(app: typer.Typer) -> None:
    """Add the group of commands of this file."""
    group = typer.Typer(help="Run benchmarks.", no_args_is_help=True)
    group.command("superpixels")(superpixels)
    group.command("vectors")(vectors)
    for name, command in (evaluate_models.COMMANDS | evaluate_paper.COMMANDS).items():
        group.command(name)(command)
    group.command("speed")(evaluate_speed.speed)
    group.command("salient")(salient)
    group.command("oracle")(oracle)
    group.command("segmentation")(segmentation)
    app.add_typer(group, name="evaluate")


@reported()
def superpixels(
    data: Annotated[
        Path | None,
        typer.Argument(
            help="Folder with images/<split> and groundTruth/<split> (default $PIXTREE_DATA/bsds500).", show_default=False
        ),
    ] = None,
    split: Split = "val",
    tokens: Tokens = "50,100,200,400,800,1600",
    methods: Methods = SUPERPIXEL_METHODS,
    labels: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FOLDER: measure another program's label maps as well, <photo>.png, .pgm, .tif or .npy; with one count only.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            help="Also report how far all others are from this method, photo by photo, with standard errors.", show_default=False
        ),
    ] = None,
    limit: Limit = None,
    workers: Annotated[int, typer.Option(help="Number of parallel processes; 0 starts one per core.")] = 0,
    output: Output = None,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the rows to this .csv file.")] = None,
    plot: Plot = None,
) -> None:
    """Benchmark superpixel methods against human annotations."""
    refuse_several("superpixels")
    counts, names, given = parsed_counts(tokens, "--tokens"), _words(methods), _named_folders(labels or [])
    known = (*names, *given)
    if reference is not None and reference not in known:
        raise UsageError(f"--reference is one of the methods {', '.join(known)}, got {reference!r}; choose one of these")
    check_outputs(output, plot, csv)

    from pixtree.evaluation.annotated_photos import annotated_photos, data_folder, label_folder
    from pixtree.evaluation.records import provenance, write_record, write_table
    from pixtree.evaluation.superpixel_comparison import compare_superpixels, rows

    photos = annotated_photos(data, split, limit)
    folders = [label_folder(name, folder, photos) for name, folder in given.items()]
    ready = compare_superpixels(photos, names, counts, workers or os.cpu_count() or 1, folders)
    samples = [sample for some in _with_progress(ready, len(photos) * len(counts)) for sample in some]
    found, folder = rows(samples), data_folder(data)
    show(SUPERPIXEL_COLUMNS, found)
    paired = {} if reference is None else _paired(samples, reference)
    if output is not None:
        command = f"pixtree evaluate superpixels {named(folder)} --split {split} --tokens {tokens} --methods {methods}"
        command += "" if limit is None else f" --limit {limit}"
        command += "".join(f" --labels {name}=FOLDER" for name in given)
        command += "" if reference is None else f" --reference {reference}"
        write_record({**_heading(folder.name, split, photos, folders), **provenance(command), "rows": found, **paired}, output)
    if csv is not None:
        write_table(found, csv)
    if plot is not None:
        from pixtree.evaluation.plots import plot_superpixels

        plot_superpixels(found, plot)


@reported()
def vectors(
    folder: Annotated[Path, typer.Argument(help="Folder of images.", show_default=False)],
    paths: Annotated[str, typer.Option(help="Budgets of paths, separated by commas; empty for none.")] = "500,1000,2000,5000",
    bytes: Annotated[str, typer.Option("--bytes", help="Budgets of bytes, separated by commas.")] = "",
    style: Annotated[str, typer.Option(help="One of polyline, smooth, polygon and paper.")] = "polyline",
    fast: Annotated[bool, typer.Option("--fast", help="Faster and rougher: whole pixels, no colour refit.")] = False,
    baselines: Annotated[bool, typer.Option(help="Measure vtracer at seven settings as well.")] = True,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure drawings of the images of a folder: error, similarity, paths, bytes, seconds."""
    refuse_several("vectors")
    from pixtree.cli.jobs import expanded

    images = expanded([folder])
    check_outputs(output, plot)
    methods = _drawing_methods(_numbers("--paths", paths), _numbers("--bytes", bytes), baselines, style=style, fast=fast)

    from pixtree.evaluation.records import provenance, write_record
    from pixtree.evaluation.vectors import compare, summary

    rows = []
    with Progress(len(images) * len(methods)) as progress:
        for row in compare(images, methods):
            rows.append(row)
            progress.stage(f"{row['image']}: {row['method']}")
            progress.advance()
    table = summary(rows)
    show(VECTOR_COLUMNS, table)
    if output is not None:
        command = f"pixtree evaluate vectors {folder.name} --paths {paths} --bytes {bytes} --style {style}"
        heading = {"benchmark": "vectors", "title": f"Drawings of {folder.name}", **provenance(command)}
        write_record({**heading, "rows": table, "images": rows}, output)
    if plot is not None:
        from pixtree.evaluation.plots import plot_rate_distortion

        plot_rate_distortion(table, plot)


@reported()
def oracle(
    folder: Annotated[
        Path, typer.Argument(help="A folder of images and labels in the layout that --layout names.", show_default=False)
    ],
    layout: Layout = "camvid",
    split: Split = "val",
    tokens: Tokens = "64,144,256,576",
    methods: Methods = ORACLE_METHODS,
    limit: Limit = None,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure the best mIoU that partitions allow: every region takes its majority class, and nothing is trained."""
    refuse_several("oracle")
    counts, names = parsed_counts(tokens, "--tokens"), _words(methods)
    check_outputs(output, plot)
    from pixtree.evaluation.label_maps import labelled_set
    from pixtree.evaluation.records import markdown_table
    from pixtree.evaluation.segmentation_measures import oracle as oracle_rows

    data = labelled_set(folder, layout, split, limit)
    rows: list[dict[str, Any]] = []
    with Progress(len(data)) as progress:
        for rows in oracle_rows(data.images, len(data.classes), names, counts):  # noqa: B007, the last list is the result
            progress.advance()
    typer.echo(markdown_table(ORACLE_COLUMNS, rows))
    command = f"pixtree evaluate oracle {folder.name} --layout {layout} --split {split} --tokens {tokens} --methods {methods}"
    title = f"Oracle of partitions on {data.name}, {split}: {len(data)} images"
    write(output, title, command, ORACLE_COLUMNS, rows, [ORACLE_NOTE])
    if plot is not None:
        from pixtree.evaluation.plots import plot_oracle

        plot_oracle(rows, plot)


@reported()
def segmentation(
    run: Annotated[Path, typer.Argument(help="The folder of a run of a segmentation recipe.", show_default=False)],
    folder: Annotated[
        Path, typer.Argument(help="A folder of images and labels in the layout that --layout names.", show_default=False)
    ],
    layout: Layout = "camvid",
    split: Split = "val",
    size: Annotated[int | None, typer.Option(help="Side of the images in pixels.", show_default="the model's own")] = None,
    limit: Limit = None,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure a trained segmenter: mIoU, boundary F, pixel accuracy, and the IoU of every class."""
    check_outputs(output, plot)
    from pixtree.evaluation.classification import image_side
    from pixtree.evaluation.label_maps import labelled_set
    from pixtree.evaluation.segmentation_measures import segmented
    from pixtree.training.segmenting import load_segmenter

    data, segmenter = labelled_set(folder, layout, split, limit), load_segmenter(run)
    if segmenter.classes != len(data.classes):
        raise ValueError(
            f"expected images of the {segmenter.classes} classes of the model, got {len(data.classes)} in {folder.name}; "
            "give the data set that it was trained on"
        )
    side = size or image_side(segmenter.model)
    with Progress(len(data)) as progress:
        found = segmented(segmenter, data.images, side, report=lambda count: progress.advance())
    each = zip(data.classes, found.confusion.intersections_over_unions.tolist(), strict=True)
    rows = [{"class": "all", **found.row()}, *({"class": name, "miou": None if iou != iou else iou} for name, iou in each)]
    show(SEGMENTATION_COLUMNS, rows)
    command = f"pixtree evaluate segmentation {run.name} {named(folder)} --layout {layout} --split {split}"
    note = SEGMENTATION_NOTE.format(count=len(data), size=side)
    write(output, f"Segmentation of {data.name}, {split}", command, SEGMENTATION_COLUMNS, rows, [note])
    if plot is not None:
        from pixtree.evaluation.plots import plot_bars

        plot_bars({row["class"]: row["miou"] for row in rows if row["miou"] is not None}, plot, x="IoU")


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
    affinity: AffinityName = None,
    limit: Limit = None,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Benchmark salient objects, found without training: the model's own tokens, and its features pooled into regions."""
    refuse_several("salient")
    check_outputs(output, plot)
    from pixtree.evaluation.label_maps import labelled_set
    from pixtree.evaluation.records import markdown_table
    from pixtree.evaluation.salient_measures import Found, Way, measured, summary
    from pixtree.evaluation.variants import model_of
    from pixtree.tasks.token_graph import checked_rule, named_affinity

    chosen = None if affinity is None else named_affinity(affinity)
    photos, rule = labelled_set(folder, "salient", limit=limit), checked_rule(side)
    loaded = model_of(model, weights)
    ways = [Way("its own", None), Way("its own, snapped", None, "snap"), Way("its own, bilateral solver", None, "bilateral")]
    if tokens:
        ways += [Way(f"{tokens} regions", tokens), Way(f"{tokens} regions, snapped", tokens, "snap")]
    ways = [replace(way, affinity=chosen) for way in ways]
    found: list[Found] = []
    with Progress(len(photos)) as progress:
        for photo in photos.images:
            found += measured(photo, loaded, ways, side=rule, rules=(), size=size)
            progress.advance()
    rows = summary(found)
    typer.echo(markdown_table(SALIENT_COLUMNS, rows))
    command = f"pixtree evaluate salient {folder.name} --model {model} --tokens {tokens} --side {side} --size {size}"
    command += f" --affinity {affinity}" if affinity else ""
    write(output, f"Salient objects on {folder.name}", command, SALIENT_COLUMNS, rows)
    if plot is not None:
        from pixtree.evaluation.plots import plot_bars

        plot_bars({row["way"]: row["f_max"] for row in rows}, plot, x="F_max")


def _paired(samples: Sequence["Sample"], reference: str) -> dict[str, Any]:
    """Print how far the methods are from `reference`, and return it for the record."""
    from pixtree.evaluation.records import with_errors
    from pixtree.evaluation.superpixel_comparison import differences

    apart = differences(samples, reference)
    columns = [[key, heading.format(reference), form] for key, heading, form in DIFFERENCE_COLUMNS]
    show(columns, with_errors(apart, columns))
    return {"reference": reference, "differences": apart}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _named_folders(words: Sequence[str]) -> dict[str, str]:
    """The folders by name, from NAME=FOLDER."""
    pairs = [word.partition("=")[::2] for word in words]
    if len({name for name, _ in pairs}) < len(pairs) or not all(name and folder for name, folder in pairs):
        raise ValueError(f"--labels takes NAME=FOLDER, each name once, got {' '.join(words)!r}; give every folder a different name")
    return dict(pairs)


def _heading(folder: str, split: str, photos: Sequence["AnnotatedPhoto"], others: Sequence["LabelFolder"]) -> dict[str, Any]:
    annotations = sum(len(photo.segmentations()) for photo in photos)
    heading: dict[str, Any] = {"programs": {one.name: dict(one.about) for one in others}} if others else {}
    return heading | {
        "benchmark": "superpixels",
        "title": f"Superpixels on {folder}" + (", compared with other programs" if others else ""),
        "dataset": {"name": folder, "split": split, "photos": len(photos), "annotations": annotations},
        "notes": SUPERPIXEL_NOTES,
    }


def _with_progress(ready: Iterator[list["Sample"]], total: int) -> Iterator[list["Sample"]]:
    with Progress(total) as progress:
        progress.stage("photos × counts")
        for samples in ready:
            yield samples
            progress.advance()


def _drawing_methods(paths: Sequence[int], sizes: Sequence[int], baselines: bool, **options: Any) -> "list[Method]":
    from pixtree.evaluation.vectors import VTRACER, own_method, vtracer_method

    own = [own_method(f"pixtree {count} paths", paths=count, **options) for count in paths]
    own += [own_method(f"pixtree {size // 1000} kB", bytes=size, **options) for size in sizes]
    if not own and not baselines:
        raise UsageError("expected something to measure, got no --paths, no --bytes and --no-baselines; give one of them")
    return own + ([vtracer_method(setting) for setting in VTRACER] if baselines else [])


def _numbers(name: str, text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise UsageError(f"{name} are whole numbers of at least 1 separated by commas, got {text!r}; try 1000,5000")
    return [int(word) for word in words]
