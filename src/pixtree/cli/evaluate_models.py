"""`pixtree evaluate top1`, `knn`, `probe`, `scale`, `ablations` and `efficiency`: models and their variants in one table."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.progress import Progress
from pixtree.cli.tables import check_outputs, named, show, write

if TYPE_CHECKING:
    from torch import Tensor

    from pixtree.evaluation.answers import Reading
    from pixtree.evaluation.labelled_pictures import LabelledPictures

Model = Annotated[
    str, typer.Argument(help="A Vision Transformer of timm by name, or a folder that was saved or distilled.", show_default=False)
]
Data = Annotated[
    Path,
    typer.Argument(
        help="Labelled pictures: labels.csv with images/, a folder per class, ImageNet-v2, Caltech-256, CUB-200 or Stanford Cars.",
        show_default=False,
    ),
]
Weights = Annotated[
    Path | None, typer.Option(help="A .safetensors file with the model's weights.", show_default="timm's, downloaded")
]
Variants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        help="A further row: tokens=100 (regions), compute=0.5 (token trees), compute=0.5,rule=tome, size=160 (fewer patches), "
        "tokens=196,compute=0.5 (both), run=FOLDER (distilled). Repeat it for more.",
        show_default="the model alone",
    ),
]
Limit = Annotated[int | None, typer.Option(help="Use only this many pictures, evenly spaced.", show_default="all")]
Batch = Annotated[int, typer.Option(help="Pictures at a time.")]
Workers = Annotated[int, typer.Option(help="Processes that read pictures.")]
Device = Annotated[str, typer.Option(help="Device that models run on.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the record to this .json file.")]
Plot = Annotated[Path | None, typer.Option("--plot", help="Plot the table to this .png file.")]


@reported()
def top1(
    model: Model,
    data: Data,
    variant: Variants = None,
    weights: Weights = None,
    real: Annotated[bool, typer.Option("--real", help="Take the ReaL labels of ImageNet's validation pictures.")] = False,
    real_labels: Annotated[Path | None, typer.Option(help="A real.json in place of the one that timm brings.")] = None,
    limit: Limit = None,
    batch: Batch = 50,
    workers: Workers = 0,
    device: Device = "cpu",
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure top-1 and top-5 accuracy of a model and of its variants on the same pictures."""
    check_outputs({".json": output, ".png": plot})
    from pixtree.evaluation.answers import logits
    from pixtree.evaluation.classification import COLUMNS, accuracy_rows, check_classes
    from pixtree.evaluation.labelled_pictures import labelled_pictures, with_real_labels

    pictures = labelled_pictures(data).limited(limit)
    if real or real_labels is not None:
        pictures = with_real_labels(pictures, real_labels)
    models = _models(model, weights, variant)
    for one in models.values():
        check_classes(one, pictures)
    answers = _said(list(models.values()), pictures, logits, _reading(batch, workers, device))
    costs = [_cost(one) for one in models.values()]
    rows = [
        {"variant": name, **cost, **measured}
        for name, cost, measured in zip(models, costs, accuracy_rows(answers, pictures), strict=True)
    ]
    show(COLUMNS, rows)
    command = _command("top1", model, data, variant, weights, limit) + (" --real" if real or real_labels is not None else "")
    title = f"Accuracy of {_title(model)} on {pictures.name}"
    write(output, title, command, COLUMNS, rows, [f"{len(pictures)} pictures ({pictures.layout}). {_PREPARED}"])
    if plot is not None:
        from pixtree.evaluation.plots import plot_curves

        points = {row["variant"]: [(row["gflops"], row["top1"])] for row in rows}
        plot_curves(points, plot, x="GFLOPs per image", y="top-1")


@reported()
def knn(
    model: Model,
    data: Data,
    variant: Variants = None,
    weights: Weights = None,
    limit: Limit = None,
    batch: Batch = 50,
    workers: Workers = 0,
    device: Device = "cpu",
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure features by their nearest neighbours: the best of k = 10, 20, 50, 100, 150, 200, as the paper reports it."""
    check_outputs({".json": output, ".png": plot})
    from pixtree.evaluation.neighbours import COUNTS, best_count, neighbour_accuracy

    models, parts, found = _features(model, weights, variant, data, limit, _reading(batch, workers, device))
    rows: list[dict[str, Any]] = []
    for name, (learned, tested) in zip(models, found, strict=True):
        each = neighbour_accuracy(learned, _classes(parts[0]), tested, _classes(parts[1]))
        best = best_count(each)
        rows.append({"variant": name, "knn": each[best], "k": best, **{f"k{count}": value for count, value in each.items()}})
    columns = [["variant", "Variant", ""], ["knn", "Best ↑", ".4f"], ["k", "of k", ""]]
    columns += [[f"k{count}", f"k = {count}", ".4f"] for count in COUNTS]
    show(columns, rows)
    title = f"Nearest neighbours of {_title(model)} on {parts[0].name}"
    write(output, title, _command("knn", model, data, variant, weights, limit), columns, rows, [_parts_note(parts), _VOTES])
    if plot is not None:
        from pixtree.evaluation.plots import plot_curves

        curves = {row["variant"]: [(count, row[f"k{count}"]) for count in COUNTS] for row in rows}
        plot_curves(curves, plot, x="k", y="accuracy", logarithmic=True)


@reported()
def probe(
    model: Model,
    data: Data,
    variant: Variants = None,
    weights: Weights = None,
    limit: Limit = None,
    batch: Batch = 50,
    workers: Workers = 0,
    device: Device = "cpu",
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure features by a linear probe: logistic regression, its regularisation chosen on a fifth of the training pictures."""
    check_outputs({".json": output, ".png": plot})
    from pixtree.evaluation.probe import probe_accuracy

    models, parts, found = _features(model, weights, variant, data, limit, _reading(batch, workers, device))
    rows: list[dict[str, Any]] = []
    for name, (learned, tested) in zip(models, found, strict=True):
        accuracy, decay = probe_accuracy(learned, _classes(parts[0]), tested, _classes(parts[1]))
        rows.append({"variant": name, "probe": accuracy, "decay": decay})
    columns = [["variant", "Variant", ""], ["probe", "Accuracy ↑", ".4f"], ["decay", "Decay", ""]]
    show(columns, rows)
    title = f"Linear probe of {_title(model)} on {parts[0].name}"
    write(output, title, _command("probe", model, data, variant, weights, limit), columns, rows, [_parts_note(parts)])
    if plot is not None:
        from pixtree.evaluation.plots import plot_bars

        plot_bars({row["variant"]: row["probe"] for row in rows}, plot, x="accuracy of a linear probe")


@reported()
def scale(
    model: Model,
    data: Data,
    weights: Weights = None,
    run: Annotated[Path | None, typer.Option(help="A folder with a distilled retrofit of the model, to take its place.")] = None,
    sizes: Annotated[
        str, typer.Option(help="Sides of the images in pixels, separated by commas.")
    ] = "64,96,128,160,224,320,448,768",
    limit: Limit = None,
    batch: Batch = 10,
    workers: Workers = 0,
    device: Device = "cpu",
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure accuracy at several image sizes: patches beside as many regions, and a count of regions that stays the same."""
    from pixtree.cli.options import parsed_counts

    check_outputs({".json": output, ".png": plot})
    chosen = parsed_counts(sizes, "--sizes")
    from pixtree.evaluation.classification import check_classes
    from pixtree.evaluation.labelled_pictures import labelled_pictures
    from pixtree.evaluation.scale_invariance import COLUMNS, scale_rows
    from pixtree.evaluation.variants import model_in
    from pixtree.models.zoo import named_model

    pictures = labelled_pictures(data).limited(limit)
    patches = named_model(model, weights)
    check_classes(patches, pictures)
    regions = None if run is None else model_in(run)
    with Progress(len(pictures) * len(chosen)) as progress:
        rows = scale_rows(patches, regions, pictures, chosen, _reading(batch, workers, device), _reporter(progress))
    show(COLUMNS, rows)
    command = _command("scale", model, data, None, weights, limit) + f" --sizes {sizes}" + (f" --run {run.name}" if run else "")
    state = "not trained" if run is None else "distilled"
    note = f"{len(pictures)} pictures, resized and cropped to each size. The retrofit is {state}."
    write(output, f"Scale invariance of {_title(model)} on {pictures.name}", command, COLUMNS, rows, [note])
    if plot is not None:
        from pixtree.evaluation.plots import plot_curves

        kinds = dict.fromkeys(row["kind"] for row in rows)
        curves = {kind: [(row["size"], row["top1"]) for row in rows if row["kind"] == kind] for kind in kinds}
        plot_curves(curves, plot, x="side of the image, px", y="top-1", logarithmic=True)


@reported()
def ablations(
    model: Model,
    data: Data,
    weights: Weights = None,
    preset: Annotated[
        str, typer.Option(help="What is varied: paper, its own system, or default, ours with 196 regions.")
    ] = "paper",
    tables: Annotated[str, typer.Option(help="Tables to measure, separated by commas.", show_default="all")] = "",
    limit: Limit = None,
    batch: Batch = 50,
    workers: Workers = 0,
    device: Device = "cpu",
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure a retrofit with one thing changed at a time, right after the retrofit, without training."""
    check_outputs({".json": output, ".png": plot})
    from pixtree.evaluation.ablations import BASES, COLUMNS, ablation_rows, chosen_ablations
    from pixtree.evaluation.classification import check_classes
    from pixtree.evaluation.labelled_pictures import labelled_pictures
    from pixtree.models.zoo import named_model

    if preset not in BASES:
        raise UsageError(f"a preset is one of {', '.join(BASES)}, got {preset!r}; choose one of them")
    wanted = chosen_ablations(BASES[preset], [word.strip() for word in tables.split(",") if word.strip()])
    pictures = labelled_pictures(data).limited(limit)
    patches = named_model(model, weights)
    check_classes(patches, pictures)
    with Progress(len(pictures)) as progress:
        rows = ablation_rows(patches, BASES[preset], wanted, pictures, _reading(batch, workers, device), _reporter(progress))
    show(COLUMNS, rows)
    command = _command("ablations", model, data, None, weights, limit) + f" --preset {preset}"
    command += f" --tables {tables!r}" if tables else ""
    note = f"{len(pictures)} pictures. {_PREPARED} Nothing is trained, so rows whose difference has to be trained are equal."
    write(output, f"Ablations of the retrofitted {_title(model)}, {preset} preset", command, COLUMNS, rows, [note])
    if plot is not None:
        from pixtree.evaluation.plots import plot_bars

        plot_bars({f"{row['table']}: {row['name']}": row["top1"] for row in rows}, plot, x="top-1")


@reported()
def efficiency(
    model: Model,
    variant: Variants = None,
    weights: Weights = None,
    batch: Batch = 8,
    rounds: Annotated[int, typer.Option(help="Rounds in which all variants take turns.")] = 7,
    device: Device = "cpu",
    output: Output = None,
    plot: Plot = None,
) -> None:
    """Measure images per second of a model and of its variants, which take turns on the same images; weights may be random."""
    check_outputs({".json": output, ".png": plot})
    if rounds < 1:
        raise UsageError(f"expected at least one round, got {rounds}; try 7")
    from pixtree.evaluation.answers import image_side
    from pixtree.evaluation.efficiency import COLUMNS, efficiency_rows, photo_batch
    from pixtree.models.retrofit import timm_model

    base = timm_model(model, False, {}) if weights is None and not Path(model).is_dir() else None
    models = _models(model, weights, variant, base)
    images = photo_batch(batch, image_side(next(iter(models.values())))).to(device)
    with Progress(rounds + 1) as progress:
        ready = {name: one.eval().to(device) for name, one in models.items()}
        rows = efficiency_rows(ready, images, rounds, _reporter(progress))
    show(COLUMNS, rows)
    command = _command("efficiency", model, None, variant, weights, None) + f" --batch {batch} --rounds {rounds} --device {device}"
    note = "All take turns in one run, from normalised images to logits in float32. Only ratios carry over to other machines."
    write(output, f"Efficiency of {_title(model)}", command, COLUMNS, rows, [note])
    if plot is not None:
        from pixtree.evaluation.plots import plot_bars

        plot_bars({row["variant"]: row["images_per_second"] for row in rows}, plot, x="images per second")


_PREPARED = "timm's preprocessing of the model. GFLOPs count matrix products and convolutions, merging included."
_VOTES = "Neighbours by cosine, voting with exp(cosine / 0.07); the best k is chosen on the tested pictures, as in the paper."


def _models(model: str, weights: Path | None, variants: Sequence[str] | None, base: Any = None) -> dict[str, Any]:
    """The model as it is, and its variants, by their names."""
    from pixtree.evaluation.variants import Variant, model_of, parsed_variant, variant_of

    wanted = [parsed_variant(text) for text in variants or ()]  # refused before a model is loaded
    base = model_of(model, weights) if base is None else base
    return {str(one): variant_of(base, one) for one in (Variant(), *wanted)}


def _reading(batch: int, workers: int, device: str) -> "Reading":
    from pixtree.evaluation.answers import Reading

    if batch < 1 or workers < 0:
        raise UsageError(f"expected a batch of at least 1 and 0 or more workers, got {batch} and {workers}; try 50 and 0")
    return Reading(batch, workers, device)


def _reporter(progress: Progress) -> Callable[[int], None]:
    def report(count: int) -> None:
        for _ in range(count):
            progress.advance()

    return report


def _said(models: Sequence[Any], pictures: "LabelledPictures", say: Any, reading: "Reading") -> "list[Tensor]":
    from pixtree.evaluation.answers import said

    with Progress(len(pictures)) as progress:
        progress.stage(f"{pictures.name}: {len(models)} models")
        return said(models, pictures, say, reading=reading, report=_reporter(progress))


def _features(
    model: str, weights: Path | None, variants: Sequence[str] | None, data: Path, limit: int | None, reading: "Reading"
) -> tuple[dict[str, Any], "tuple[LabelledPictures, LabelledPictures]", "list[tuple[Tensor, Tensor]]"]:
    """Models, the training and test pictures, and per model the features of both."""
    from pixtree.evaluation.answers import features
    from pixtree.evaluation.labelled_pictures import TEST, TRAIN, labelled_pictures

    parts = labelled_pictures(data, TRAIN).limited(limit), labelled_pictures(data, TEST).limited(limit)
    models = _models(model, weights, variants)
    learned, tested = (_said(list(models.values()), part, features, reading) for part in parts)
    return models, parts, list(zip(learned, tested, strict=True))


def _classes(pictures: "LabelledPictures") -> "Tensor":
    import torch

    return torch.tensor([picture.classes[0] for picture in pictures.pictures])


def _cost(model: Any) -> dict[str, Any]:
    from pixtree.evaluation.variants import cost_of

    return cost_of(model)._asdict()


def _title(model: str) -> str:
    return Path(model).name


def _parts_note(parts: "tuple[LabelledPictures, LabelledPictures]") -> str:
    return f"{len(parts[0])} pictures to learn from and {len(parts[1])} to test ({parts[0].layout}). The model stays as it is."


def _command(
    task: str, model: str, data: Path | None, variants: Sequence[str] | None, weights: Path | None, limit: int | None
) -> str:
    words = [f"pixtree evaluate {task} {_title(model)}"]
    words += [] if data is None else [named(data)]
    words += [] if weights is None else [f"--weights {named(weights)}"]
    if variants:
        from pixtree.evaluation.variants import parsed_variant

        words += [f"--variant {parsed_variant(text)}" for text in variants]  # which name a run without its folders
    words += [] if limit is None else [f"--limit {limit}"]
    return " ".join(words)


COMMANDS: dict[str, Callable[..., None]] = {
    "top1": top1,
    "knn": knn,
    "probe": probe,
    "scale": scale,
    "ablations": ablations,
    "efficiency": efficiency,
}
