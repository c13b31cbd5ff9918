"""`pixtree evaluate top1`, `knn`, `probe` and `efficiency`: models and their variants in one table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pixtree.cli.errors import UsageError, reported
from pixtree.cli.options import grouped
from pixtree.cli.progress import Progress
from pixtree.cli.tables import Limit, Output, Plot, check_outputs, named, refuse_several, show, write

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
        words = [f"pixtree evaluate {task} {title_of(model)}"]
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
        from pixtree.runtime.processes import joined

        show(columns, rows)
        write(self.output, title, command, columns, rows, notes)
        if self.plot is not None and joined().first:
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


@dataclass(frozen=True)
class Labels:
    """Options for other labels of the tested images."""

    real: Annotated[bool, typer.Option("--real", help="Take the ReaL labels of ImageNet's validation images.")] = False
    real_labels: Annotated[Path | None, typer.Option(help="A real.json in place of timm's.")] = None

    def of(self, images: "ClassifiedImages") -> "ClassifiedImages":
        """The images with these labels."""
        from pixtree.evaluation.classified_images import with_real_labels

        return with_real_labels(images, self.real_labels) if self.real or self.real_labels is not None else images

    def words(self) -> str:
        """The options of a record's command."""
        return (" --real" if self.real else "") + (f" --real-labels {named(self.real_labels)}" if self.real_labels else "")


@dataclass(frozen=True)
class Parts(Labels):
    """Options for the images that features are learned and tested on."""

    bank: Annotated[
        Path | None,
        typer.Option(
            help="A folder of training images, such as imagenet/train; all images of DATA are then tested.",
            show_default="the training part of DATA",
        ),
    ] = None

    def read(self, data: Path, limit: int | None) -> "tuple[ClassifiedImages, ClassifiedImages]":
        """Training and test images."""
        from pixtree.evaluation.classified_images import TEST, TRAIN, classified_images, with_bank

        learned = classified_images(self.bank or data, TRAIN, divide=self.bank is None)
        tested = classified_images(data, TEST, divide=self.bank is None)
        if self.bank is not None:
            tested = with_bank(tested, learned)
        return learned.limited(limit), self.of(tested.limited(limit))

    def words(self) -> str:
        """The options of a record's command."""
        return ("" if self.bank is None else f" --bank {named(self.bank)}") + super().words()


@reported()
@grouped
def top1(
    model: Model,
    data: Data,
    variant: Variants = None,
    *,
    labels: Labels,
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
    from pixtree.evaluation.classified_images import classified_images
    from pixtree.evaluation.plots import plot_curves
    from pixtree.evaluation.variants import cost_of

    images = labels.of(classified_images(data).limited(settings.limit))
    models = _models(model, settings.weights, variant)
    check_classes(next(iter(models.values())), images)
    check_same_classes(list(models.values()))
    outputs = _outputs(list(models.values()), images, logits_and_count, settings.reading())
    costs = [cost_of(one, counts=found[:, -1])._asdict() for one, found in zip(models.values(), outputs, strict=True)]
    measured = accuracy_rows([found[:, :-1] for found in outputs], images)
    rows = [{"variant": name, **cost, **row} for name, cost, row in zip(models, costs, measured, strict=True)]
    command = settings.command("top1", model, data, variant) + labels.words()
    title, note = f"Accuracy of {title_of(model)} on {images.name}", f"{len(images)} images ({images.layout}). {PREPARED}"
    points = {row["variant"]: [(row["gflops"], row["top1"])] for row in rows}
    draw = partial(plot_curves, points, x="GFLOPs per image", y="top-1")
    settings.finish(title, command, ACCURACY_COLUMNS, rows, [note], draw)


@reported()
@grouped
def knn(model: Model, data: Data, variant: Variants = None, *, parts: Parts, settings: Settings) -> None:
    """Measure features by their nearest neighbours: the best of k = 10, 20, 50, 100, 150, 200, as the paper reports it."""
    from pixtree.evaluation.classification import COUNTS, best_count, neighbour_accuracy
    from pixtree.evaluation.plots import plot_curves

    images = parts.read(data, settings.limit)
    rows: list[dict[str, Any]] = []
    for name, learned, tested in _features(model, variant, images, settings):
        each = neighbour_accuracy(learned, _classes(images[0]), tested, _table(images))
        best = best_count(each)
        rows.append({"variant": name, "knn": each[best], "k": best, **{f"k{count}": value for count, value in each.items()}})
    columns = [["variant", "Variant", ""], ["knn", "Best ↑", ".4f"], ["k", "of k", ""]]
    columns += [[f"k{count}", f"k = {count}", ".4f"] for count in COUNTS]
    curves = {row["variant"]: [(count, row[f"k{count}"]) for count in COUNTS] for row in rows}
    command = settings.command("knn", model, data, variant) + parts.words()
    draw = partial(plot_curves, curves, x="k", y="accuracy", logarithmic=True)
    title = f"Nearest neighbours of {title_of(model)} on {images[1].name}"
    settings.finish(title, command, columns, rows, [_parts_note(images), _VOTES], draw)


@reported()
@grouped
def probe(model: Model, data: Data, variant: Variants = None, *, parts: Parts, settings: Settings) -> None:
    """Measure features by a linear probe: logistic regression, its regularisation chosen on a fifth of the training images."""
    from pixtree.evaluation.classification import probe_accuracy
    from pixtree.evaluation.plots import plot_bars

    images = parts.read(data, settings.limit)
    rows: list[dict[str, Any]] = []
    for name, learned, tested in _features(model, variant, images, settings):
        accuracy, decay = probe_accuracy(learned, _classes(images[0]), tested, _table(images))
        rows.append({"variant": name, "probe": accuracy, "decay": decay})
    columns = [["variant", "Variant", ""], ["probe", "Accuracy ↑", ".4f"], ["decay", "Decay", ""]]
    draw = partial(plot_bars, {row["variant"]: row["probe"] for row in rows}, x="accuracy of a linear probe")
    command = settings.command("probe", model, data, variant) + parts.words()
    settings.finish(f"Linear probe of {title_of(model)} on {images[1].name}", command, columns, rows, [_parts_note(images)], draw)


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
    refuse_several("efficiency")
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
        rows = efficiency_rows(ready, images, rounds, reporter(progress))
    command = settings.command("efficiency", model, None, variant) + f" --batch {batch} --rounds {rounds} --device {device}"
    note = "All take turns in one run, from normalised images to logits in float32. Only ratios carry over to other machines."
    draw = partial(plot_bars, {row["variant"]: row["images_per_second"] for row in rows}, x="images per second")
    settings.finish(f"Efficiency of {title_of(model)}", command, EFFICIENCY_COLUMNS, rows, [note], draw)


PREPARED = "timm's preprocessing of the model. GFLOPs count matrix products and convolutions, merging included."
_VOTES = "Neighbours by cosine, voting with exp(cosine / 0.07); the best k is chosen on the tested images, as in the paper."


def _models(model: str, weights: Path | None, variants: Sequence[str] | None, base: Any = None) -> dict[str, Any]:
    """The model as it is, and its variants, by their names."""
    from pixtree.evaluation.variants import Variant, model_of, parsed_variant, variant_of

    wanted = [parsed_variant(text) for text in variants or ()]  # refused before a model is loaded
    names = [str(one) for one in wanted]
    if len(set(names)) < len(names):
        raise UsageError(f"expected variants of different names, got {', '.join(names)}; rename a folder or remove one")
    base = model_of(model, weights) if base is None else base
    return {str(one): variant_of(base, one) for one in (Variant(), *wanted)}


def checked(model: str, data: Path, settings: Settings) -> "tuple[ClassifiedImages, Any]":
    """The images, and a timm model that has their classes."""
    from pixtree.evaluation.classification import check_classes
    from pixtree.evaluation.classified_images import classified_images
    from pixtree.models.zoo import named_model

    images = classified_images(data).limited(settings.limit)
    patches = named_model(model, settings.weights)
    check_classes(patches, images)
    return images, patches


def reporter(progress: Progress) -> Callable[[int], None]:
    """What advances a bar by the images of a batch."""

    def report(count: int) -> None:
        for _ in range(count):
            progress.advance()

    return report


def _outputs(models: Sequence[Any], images: "ClassifiedImages", output: Any, reading: "Reading") -> "list[Tensor]":
    from pixtree.evaluation.classification import outputs_of

    with Progress(len(images)) as progress:
        progress.stage(f"{images.name}: {len(models)} models")
        return outputs_of(models, images, output, reading=reading, report=reporter(progress))


def _features(
    model: str, variants: Sequence[str] | None, images: "tuple[ClassifiedImages, ClassifiedImages]", settings: Settings
) -> "list[tuple[str, Tensor, Tensor]]":
    """Names of models, and the features of training and test images."""
    from pixtree.evaluation.classification import features

    reading = settings.reading()
    models = _models(model, settings.weights, variants)
    learned, tested = (_outputs(list(models.values()), part, features, reading) for part in images)
    return list(zip(models, learned, tested, strict=True))


def _classes(images: "ClassifiedImages") -> "Tensor":
    import torch

    return torch.tensor([image.classes[0] for image in images.images])


def _table(images: "tuple[ClassifiedImages, ClassifiedImages]") -> "Tensor":
    """Which classes are right for every test image."""
    from pixtree.evaluation.classification import class_table

    return class_table(images[1], max(part.classes for part in images))


def title_of(model: str) -> str:
    """A model in titles: its name, or that of its folder."""
    return Path(model).name


def _parts_note(parts: "tuple[ClassifiedImages, ClassifiedImages]") -> str:
    layouts = " and ".join(dict.fromkeys(part.layout for part in parts))
    return f"{len(parts[0])} training images and {len(parts[1])} test images ({layouts}). The model stays as it is."


COMMANDS: dict[str, Callable[..., None]] = {
    "top1": top1,
    "knn": knn,
    "probe": probe,
    "efficiency": efficiency,
}
