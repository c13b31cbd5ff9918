"""`pixtree evaluate scale`, `ablations` and `tokenizer`: the paper's experiments that vary a model, its images or its tokenizer."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.evaluate_models import PREPARED, Data, Model, Settings, SmallBatches, checked, reporter, title_of
from pixtree.cli.options import grouped
from pixtree.cli.progress import Progress
from pixtree.cli.tables import Limit, Output, Plot, check_outputs, named, refuse_several, show, write


@reported()
@grouped
def scale(
    model: Model,
    data: Data,
    run: Annotated[
        Path | None, typer.Option(help="A folder with a trained retrofit of the model, to take the untrained one's place.")
    ] = None,
    sizes: Annotated[
        str, typer.Option(help="Sides of the images in pixels, separated by commas.")
    ] = "64,96,128,224,256,384,512,768",
    *,
    settings: SmallBatches,
) -> None:
    """Measure accuracy at several image sizes: patches, a criterion's regions merged to as many, and exact numbers of regions."""
    from pixtree.cli.options import parsed_counts

    chosen = parsed_counts(sizes, "--sizes")
    from pixtree.evaluation.ablations import SCALE_COLUMNS, scale_rows
    from pixtree.evaluation.plots import plot_curves
    from pixtree.evaluation.variants import model_in

    images, patches = checked(model, data, settings)
    regions = None if run is None else model_in(run)
    with Progress(len(images) * len(chosen)) as progress:
        rows = scale_rows(patches, regions, images, chosen, settings.reading(), reporter(progress))
    command = settings.command("scale", model, data) + f" --sizes {sizes}" + (f" --run {run.name}" if run else "")
    state = "not trained" if run is None else "trained"
    note = f"{len(images)} images, resized and cropped to each size. The retrofit is {state}."
    kinds = dict.fromkeys(row["kind"] for row in rows)
    curves = {kind: [(row["size"], row["top1"]) for row in rows if row["kind"] == kind] for kind in kinds}
    title = f"Scale invariance of {title_of(model)} on {images.name}"
    draw = partial(plot_curves, curves, x="side of the image, px", y="top-1", logarithmic=True)
    settings.finish(title, command, SCALE_COLUMNS, rows, [note], draw)


@reported()
@grouped
def ablations(
    model: Model,
    data: Data,
    preset: Annotated[
        str, typer.Option(help="What is varied: paper, its own system, or default, ours with 196 regions.")
    ] = "paper",
    tables: Annotated[str, typer.Option(help="Tables to measure, separated by commas.", show_default="all")] = "",
    *,
    settings: Settings,
) -> None:
    """Measure a retrofit with one thing changed at a time, right after the retrofit, without training."""
    from pixtree.evaluation.ablations import ABLATION_COLUMNS, BASES, ablation_rows, chosen_ablations
    from pixtree.evaluation.plots import plot_bars

    if preset not in BASES:
        raise UsageError(f"a preset is one of {', '.join(BASES)}, got {preset!r}; choose one of them")
    wanted = chosen_ablations(BASES[preset], [word.strip() for word in tables.split(",") if word.strip()])
    images, patches = checked(model, data, settings)
    with Progress(len(images)) as progress:
        rows = ablation_rows(patches, BASES[preset], wanted, images, settings.reading(), reporter(progress))
    command = settings.command("ablations", model, data) + f" --preset {preset}" + (f" --tables {tables!r}" if tables else "")
    note = f"{len(images)} images. {PREPARED} Nothing is trained, so rows whose difference has to be trained are equal."
    title = f"Ablations of the retrofitted {title_of(model)}, {preset} preset"
    draw = partial(plot_bars, {f"{row['table']}: {row['name']}": row["top1"] for row in rows}, x="top-1")
    settings.finish(title, command, ABLATION_COLUMNS, rows, [note], draw)


@reported()
def tokenizer(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs of tokenizer recipes.", show_default=False)],
    data: Annotated[Path, typer.Argument(help="Folder of images; folders inside it are searched too.", show_default=False)],
    size: Annotated[
        int | None, typer.Option(help="Crop images to a square of this side in pixels.", show_default="their own size")
    ] = None,
    limit: Limit = None,
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure how well pretrained tokenizers reconstruct images: MSE and SSIM of W f* over their regions."""
    refuse_several("tokenizer")
    check_outputs(output, plot)
    if size is not None and size < 8:
        raise UsageError(f"expected a side of at least 8 pixels, got {size}; try 224")
    from pixtree.evaluation.plots import plot_bars
    from pixtree.evaluation.tokenizer_measures import TOKENIZER_COLUMNS, image_at, reconstruction_rows
    from pixtree.training.reconstruction import load_encoder
    from pixtree.training.sources import images_below

    if len({run.name for run in runs}) < len(runs):
        raise UsageError(f"expected runs in folders of different names, got {', '.join(run.name for run in runs)}; rename one")
    files = images_below(data)
    count = len(files) if limit is None else min(max(limit, 1), len(files))
    chosen = [files[number * len(files) // count] for number in range(count)]
    loaded = {run.name: load_encoder(run) for run in runs}
    with Progress(len(chosen)) as progress:
        rows = reconstruction_rows(loaded, (image_at(path, size) for path in chosen), reporter(progress))
    show(TOKENIZER_COLUMNS, rows)
    options = ("" if size is None else f" --size {size}") + ("" if limit is None else f" --limit {limit}")
    command = f"pixtree evaluate tokenizer {' '.join(loaded)} {named(data)}{options}"
    shape = "at their own sizes" if size is None else f"cropped to {size} × {size} px"
    note = f"{len(chosen)} images, {shape}, painted with W f*; values in 0..1. A criterion chooses the number of tokens."
    write(output, f"Reconstruction of {data.name}", command, TOKENIZER_COLUMNS, rows, [note])
    if plot is not None:
        plot_bars({f"{row['run']} ({row['changed']})": row["mse"] for row in rows}, plot, x="MSE")


COMMANDS: dict[str, Callable[..., None]] = {"scale": scale, "ablations": ablations, "tokenizer": tokenizer}
