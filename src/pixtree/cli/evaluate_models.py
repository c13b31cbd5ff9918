"""`pixtree evaluate top1`, `knn`, `probe`, `scale`, `ablations` and `efficiency`: models and their variants in one table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import grouped
from pixtree.cli.progress import Progress
from pixtree.cli.tables import Limit, Output, Plot, check_outputs, named, show, write

if TYPE_CHECKING:
    from torch import Tensor

    from pixtree.evaluation.classification import Reading
    from pixtree.evaluation.classified_images import ClassifiedImages
    from pixtree.evaluation.records import Columns

Model = Annotated[
    str, typer.Argument(help="A Vision Transformer of timm by name, or a folder that was saved or distilled.", show_default=False)
]
Data = Annotated[
    Path,
    typer.Argument(
        help="Labelled images: labels.csv with images/, a folder per class, ImageNet-v2, Caltech-256, CUB-200 or Stanford Cars.",
        show_default=False,
    ),
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


Batch = Annotated[int, typer.Option(help="Images at a time.")]
Workers = Annotated[int, typer.Option(help="Processes that read images.")]


@dataclass(frozen=True)
class Settings:
    """Options that the commands of this file share."""

    weights: Annotated[
        Path | None, typer.Option(help="A .safetensors file with the model's weights.", show_default="timm's, downloaded")
    ] = None
    limit: Limit = None
    batch: Batch = 50
    workers: Workers = 0
    device: Annotated[str, typer.Option(help="Device that models run on.")] = "cpu"
    output: Output = None
    plot: Plot = None

    def __post_init__(self) -> None:
        check_outputs(self.output, self.plot)

    def reading(self) -> "Reading":
        """How images are read."""
        from pixtree.evaluation.classification import Reading

        if self.batch < 1 or self.workers < 0:
            raise UsageError(
                f"expected a batch of at least 1 and 0 or more workers, got {self.batch} and {self.workers}; try 50 and 0"
            )
        return Reading(self.batch, self.workers, self.device)

    def command(self, task: str, model: str, data: Path | None = None, variants: Sequence[str] | None = None) -> str:
        """The command of a record, which names files without their folders."""
        words = [f"pixtree evaluate {task} {_title(model)}"]
        words += [] if data is None else [named(data)]
        words += [] if self.weights is None else [f"--weights {named(self.weights)}"]
        if variants:
            from pixtree.evaluation.variants import parsed_variant

            words += [f"--variant {parsed_variant(text)}" for text in variants]
        words += [] if self.limit is None else [f"--limit {self.limit}"]
        return " ".join(words)

    def finish(
        self,
        title: str,
        command: str,
        columns: "Columns",
        rows: Sequence[Mapping[str, Any]],
        notes: Sequence[str],
        draw: Callable[[Path], None],
    ) -> None:
        """Print a table, and write its record and its plot if they were asked for."""
        show(columns, rows)
        write(self.output, title, command, columns, rows, notes)
        if self.plot is not None:
            draw(self.plot)


@dataclass(frozen=True)
class SmallBatches(Settings):
    """Settings of a command whose images may be large."""

    batch: Batch = 10


@dataclass(frozen=True)
class Timing(Settings):
    """Settings of a command that reads no images."""

    limit: Limit = field(default=None, init=False)
    batch: Batch = 8
    workers: Workers = field(default=0, init=False)


@reported()
@grouped
def top1(
    model: Model,
    data: Data,
    variant: Variants = None,
    real: Annotated[bool, typer.Option("--real", help="Take the ReaL labels of ImageNet's validation images.")] = False,
    real_labels: Annotated[Path | None, typer.Option(help="A real.json in place of timm's.")] = None,
    *,
    settings: Settings,
) -> None:
    """Measure top-1 and top-5 accuracy of a model and of its variants on the same images."""
    from pixtree.evaluation.classification import (
        ACCURACY_COLUMNS,
        accuracy_rows,
        check_classes,
        check_same_classes,
        logits_and_count,
    )
    from pixtree.evaluation.classified_images import classified_images, with_real_labels
    from pixtree.evaluation.plots import plot_curves
    from pixtree.evaluation.variants import cost_of

    images = classified_images(data).limited(settings.limit)
    if real or real_labels is not None:
        images = with_real_labels(images, real_labels)
    models = _models(model, settings.weights, variant)
    check_classes(next(iter(models.values())), images)
    check_same_classes(list(models.values()))
    outputs = _outputs(list(models.values()), images, logits_and_count, settings.reading())
    costs = [cost_of(one, counts=found[:, -1])._asdict() for one, found in zip(models.values(), outputs, strict=True)]
    measured = accuracy_rows([found[:, :-1] for found in outputs], images)
    rows = [{"variant": name, **cost, **row} for name, cost, row in zip(models, costs, measured, strict=True)]
    command = settings.command("top1", model, data, variant) + (" --real" if real or real_labels is not None else "")
    title, note = f"Accuracy of {_title(model)} on {images.name}", f"{len(images)} images ({images.layout}). {_PREPARED}"
    points = {row["variant"]: [(row["gflops"], row["top1"])] for row in rows}
    draw = partial(plot_curves, points, x="GFLOPs per image", y="top-1")
    settings.finish(title, command, ACCURACY_COLUMNS, rows, [note], draw)


@reported()
@grouped
def knn(model: Model, data: Data, variant: Variants = None, *, settings: Settings) -> None:
    """Measure features by their nearest neighbours: the best of k = 10, 20, 50, 100, 150, 200, as the paper reports it."""
    from pixtree.evaluation.classification import COUNTS, best_count, neighbour_accuracy
    from pixtree.evaluation.plots import plot_curves

    models, parts, found = _features(model, variant, data, settings)
    rows: list[dict[str, Any]] = []
    for name, (learned, tested) in zip(models, found, strict=True):
        each = neighbour_accuracy(learned, _classes(parts[0]), tested, _classes(parts[1]))
        best = best_count(each)
        rows.append({"variant": name, "knn": each[best], "k": best, **{f"k{count}": value for count, value in each.items()}})
    columns = [["variant", "Variant", ""], ["knn", "Best ↑", ".4f"], ["k", "of k", ""]]
    columns += [[f"k{count}", f"k = {count}", ".4f"] for count in COUNTS]
    curves = {row["variant"]: [(count, row[f"k{count}"]) for count in COUNTS] for row in rows}
    title, command = f"Nearest neighbours of {_title(model)} on {parts[0].name}", settings.command("knn", model, data, variant)
    draw = partial(plot_curves, curves, x="k", y="accuracy", logarithmic=True)
    settings.finish(title, command, columns, rows, [_parts_note(parts), _VOTES], draw)


@reported()
@grouped
def probe(model: Model, data: Data, variant: Variants = None, *, settings: Settings) -> None:
    """Measure features by a linear probe: logistic regression, its regularisation chosen on a fifth of the training images."""
    from pixtree.evaluation.classification import probe_accuracy
    from pixtree.evaluation.plots import plot_bars

    models, parts, found = _features(model, variant, data, settings)
    rows: list[dict[str, Any]] = []
    for name, (learned, tested) in zip(models, found, strict=True):
        accuracy, decay = probe_accuracy(learned, _classes(parts[0]), tested, _classes(parts[1]))
        rows.append({"variant": name, "probe": accuracy, "decay": decay})
    columns = [["variant", "Variant", ""], ["probe", "Accuracy ↑", ".4f"], ["decay", "Decay", ""]]
    draw = partial(plot_bars, {row["variant"]: row["probe"] for row in rows}, x="accuracy of a linear probe")
    title, command = f"Linear probe of {_title(model)} on {parts[0].name}", settings.command("probe", model, data, variant)
    settings.finish(title, command, columns, rows, [_parts_note(parts)], draw)


@reported()
@grouped
def scale(
    model: Model,
    data: Data,
    run: Annotated[Path | None, typer.Option(help="A folder with a distilled retrofit of the model, to take its place.")] = None,
    sizes: Annotated[
        str, typer.Option(help="Sides of the images in pixels, separated by commas.")
    ] = "64,96,128,160,224,320,448,768",
    *,
    settings: SmallBatches,
) -> None:
    """Measure accuracy at several image sizes: patches, as many regions, and a fixed number of regions."""
    from pixtree.cli.options import parsed_counts

    chosen = parsed_counts(sizes, "--sizes")
    from pixtree.evaluation.ablations import SCALE_COLUMNS, scale_rows
    from pixtree.evaluation.plots import plot_curves
    from pixtree.evaluation.variants import model_in

    images, patches = _checked(model, data, settings)
    regions = None if run is None else model_in(run)
    with Progress(len(images) * len(chosen)) as progress:
        rows = scale_rows(patches, regions, images, chosen, settings.reading(), _reporter(progress))
    command = settings.command("scale", model, data) + f" --sizes {sizes}" + (f" --run {run.name}" if run else "")
    state = "not trained" if run is None else "distilled"
    note = f"{len(images)} images, resized and cropped to each size. The retrofit is {state}."
    kinds = dict.fromkeys(row["kind"] for row in rows)
    curves = {kind: [(row["size"], row["top1"]) for row in rows if row["kind"] == kind] for kind in kinds}
    title = f"Scale invariance of {_title(model)} on {images.name}"
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
    images, patches = _checked(model, data, settings)
    with Progress(len(images)) as progress:
        rows = ablation_rows(patches, BASES[preset], wanted, images, settings.reading(), _reporter(progress))
    command = settings.command("ablations", model, data) + f" --preset {preset}" + (f" --tables {tables!r}" if tables else "")
    note = f"{len(images)} images. {_PREPARED} Nothing is trained, so rows whose difference has to be trained are equal."
    title = f"Ablations of the retrofitted {_title(model)}, {preset} preset"
    draw = partial(plot_bars, {f"{row['table']}: {row['name']}": row["top1"] for row in rows}, x="top-1")
    settings.finish(title, command, ABLATION_COLUMNS, rows, [note], draw)


@reported()
@grouped
def efficiency(
    model: Model,
    variant: Variants = None,
    rounds: Annotated[int, typer.Option(help="Rounds in which all variants take turns.")] = 7,
    *,
    settings: Timing,
) -> None:
    """Measure images per second of a model and of its variants, which take turns on the same images; weights may be random."""
    if rounds < 1:
        raise UsageError(f"expected at least one round, got {rounds}; try 7")
    from pixtree.evaluation.classification import image_side
    from pixtree.evaluation.plots import plot_bars
    from pixtree.evaluation.variants import EFFICIENCY_COLUMNS, efficiency_rows, photo_batch
    from pixtree.models.retrofit import timm_model

    batch, device = settings.batch, settings.device
    base = timm_model(model, False, {}) if settings.weights is None and not Path(model).is_dir() else None
    models = _models(model, settings.weights, variant, base)
    images = photo_batch(batch, image_side(next(iter(models.values())))).to(device)
    with Progress(rounds + 1) as progress:
        ready = {name: one.eval().to(device) for name, one in models.items()}
        rows = efficiency_rows(ready, images, rounds, _reporter(progress))
    command = settings.command("efficiency", model, None, variant) + f" --batch {batch} --rounds {rounds} --device {device}"
    note = "All take turns in one run, from normalised images to logits in float32. Only ratios carry over to other machines."
    draw = partial(plot_bars, {row["variant"]: row["images_per_second"] for row in rows}, x="images per second")
    settings.finish(f"Efficiency of {_title(model)}", command, EFFICIENCY_COLUMNS, rows, [note], draw)


_PREPARED = "timm's preprocessing of the model. GFLOPs count matrix products and convolutions, merging included."
_VOTES = "Neighbours by cosine, voting with exp(cosine / 0.07); the best k is chosen on the tested images, as in the paper."


def _models(model: str, weights: Path | None, variants: Sequence[str] | None, base: Any = None) -> dict[str, Any]:
    """The model as it is, and its variants, by their names."""
    from pixtree.evaluation.variants import Variant, model_of, parsed_variant, variant_of

    wanted = [parsed_variant(text) for text in variants or ()]  # refused before a model is loaded
    base = model_of(model, weights) if base is None else base
    return {str(one): variant_of(base, one) for one in (Variant(), *wanted)}


def _checked(model: str, data: Path, settings: Settings) -> "tuple[ClassifiedImages, Any]":
    """The images, and a timm model that has their classes."""
    from pixtree.evaluation.classification import check_classes
    from pixtree.evaluation.classified_images import classified_images
    from pixtree.models.zoo import named_model

    images = classified_images(data).limited(settings.limit)
    patches = named_model(model, settings.weights)
    check_classes(patches, images)
    return images, patches


def _reporter(progress: Progress) -> Callable[[int], None]:
    def report(count: int) -> None:
        for _ in range(count):
            progress.advance()

    return report


def _outputs(models: Sequence[Any], images: "ClassifiedImages", output: Any, reading: "Reading") -> "list[Tensor]":
    from pixtree.evaluation.classification import outputs_of

    with Progress(len(images)) as progress:
        progress.stage(f"{images.name}: {len(models)} models")
        return outputs_of(models, images, output, reading=reading, report=_reporter(progress))


def _features(
    model: str, variants: Sequence[str] | None, data: Path, settings: Settings
) -> tuple[dict[str, Any], "tuple[ClassifiedImages, ClassifiedImages]", "list[tuple[Tensor, Tensor]]"]:
    """Models, the training and test images, and per model the features of both."""
    from pixtree.evaluation.classification import features
    from pixtree.evaluation.classified_images import TEST, TRAIN, classified_images

    reading = settings.reading()
    parts = classified_images(data, TRAIN).limited(settings.limit), classified_images(data, TEST).limited(settings.limit)
    models = _models(model, settings.weights, variants)
    learned, tested = (_outputs(list(models.values()), part, features, reading) for part in parts)
    return models, parts, list(zip(learned, tested, strict=True))


def _classes(images: "ClassifiedImages") -> "Tensor":
    import torch

    return torch.tensor([image.classes[0] for image in images.images])


def _title(model: str) -> str:
    return Path(model).name


def _parts_note(parts: "tuple[ClassifiedImages, ClassifiedImages]") -> str:
    return f"{len(parts[0])} training images and {len(parts[1])} test images ({parts[0].layout}). The model stays as it is."


COMMANDS: dict[str, Callable[..., None]] = {
    "top1": top1,
    "knn": knn,
    "probe": probe,
    "scale": scale,
    "ablations": ablations,
    "efficiency": efficiency,
}
