"""A run: from a recipe and a folder of data to the model on disk, or to an estimate of its cost."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pixtree.evaluation.label_maps import labelled_set
from pixtree.files import replacing, write_json
from pixtree.runtime.processes import gathered, joined
from pixtree.tokenizer.tokenizer import region_encoder
from pixtree.tokenizer.weights import save_weights
from pixtree.training.augmentation import LabelledChanges, Mixed, mixture_of, plain_transform, training_transform
from pixtree.training.batches import Batches, ByTokens, Crops, Images, RandomCrops, SampleBatches, SampleOrder, Share
from pixtree.training.distillation import Distillation, keep_student, student_of, teacher_of
from pixtree.training.labelled import Classification, counts_of, held_out
from pixtree.training.learners import keep, learner_of
from pixtree.training.logs import LOG, Log, read_log
from pixtree.training.loop import Figures, Objective, Progress, settings_of, train
from pixtree.training.recipe import (
    AnyRecipe,
    ClassificationRecipe,
    DistillationRecipe,
    Recipe,
    SegmentationRecipe,
    TokenizerRecipe,
)
from pixtree.training.reconstruction import ENCODER, RECIPE, Pretraining, held_out_error, preset_of
from pixtree.training.schedule import Plan
from pixtree.training.segmenting import LabelledBatches, LayeredSegmenter, Segmentation, keep_segmenter, mean_iou
from pixtree.training.sources import (
    folder_reader,
    held_files,
    image_files,
    learned_files,
    names_of,
    refuse_validation_photos,
    source_of,
)

CHECKPOINT, RESULT = "checkpoint.pt", "result.json"
TRIED, PASSES = 4, 2  # images at a time that a dry run measures, and timed passes, after one that compiles and fills caches
RESULTS = {"loss": "held_out_loss"}  # names of held-out figures in result.json, next to the losses of training
STATES = {"adamw": 2, "lamb": 2, "sgd": 1}  # numbers that an optimiser keeps per weight


@dataclass(frozen=True)
class Run:
    """A training run that is ready to start; `keep` writes the learned model, and `test` measures it."""

    recipe: Recipe
    objective: Objective
    batches: Callable[[int | None], Batches]  # by the images at a time, None for those of the recipe
    plan: Plan
    images: int
    keep: Callable[[nn.Module, Path], None]
    test: Callable[[nn.Module], Figures] | None = None  # on held-out images, by all processes together
    tested: int = 0  # number of these images

    @property
    def text(self) -> str:
        """One line about the run."""
        learned = sum(one.numel() for one in self.objective.learner.parameters() if one.requires_grad)
        return (
            f"{self.recipe.about}: {self.images} images, {self.plan.steps} steps of {self.plan.batch}, "
            f"{learned / 1e6:.3g} M trainable parameters"
        )


def prepared(recipe: AnyRecipe, data: str, *, workers: int = 0, weights: bool = True, continues: str | Path | None = None) -> Run:
    """Check everything, and create the model; nothing is written. Without `weights` a start is not loaded, for a dry run.

    continues: the checkpoint that the run will resume from, since version 0.2 read images in another order.
    """
    joined().of(recipe.schedule.batch)
    recipe = recipe if continues is None else as_begun(recipe, continues)
    if isinstance(recipe, TokenizerRecipe):
        run = _reconstruction(recipe, data, workers)
    elif isinstance(recipe, ClassificationRecipe):
        run = _classification(recipe, data, workers, weights)
    elif isinstance(recipe, DistillationRecipe):
        run = _distillation(recipe, data, workers, weights)
    else:
        run = _segmentation(recipe, data, workers, weights)
    if run.test is None and run.plan.validation_steps is not None:
        raise ValueError(
            f"expected held-out images for schedule.validation, {recipe.task} has none in {data!r}; put them into a folder val "
            "next to train if the task has classes, or remove schedule.validation"
        )
    return run


def as_begun(recipe: AnyRecipe, checkpoint: str | Path) -> AnyRecipe:
    """The recipe with the order of images of a checkpoint; where that cannot be read, resuming raises the error."""
    if not isinstance(recipe, TokenizerRecipe) or not Path(checkpoint).is_file():
        return recipe
    try:
        begun = settings_of(checkpoint, {"recipe": recipe.model_dump(mode="json")})
    except ValueError:
        return recipe
    return recipe.model_copy(update={"order": begun["recipe"]["order"]}) if "recipe" in begun else recipe


def _reconstruction(recipe: TokenizerRecipe, data: str, workers: int) -> Run:
    schedule = recipe.schedule
    files = image_files(data) if recipe.images == "all" else learned_files(data)
    chosen = preset_of(recipe.encoder)
    torch.manual_seed(schedule.seed)
    about = {"images": str(len(files)), "seed": str(schedule.seed)}
    held = () if recipe.images == "all" else held_files(data)
    crops = Crops(files, recipe.encoder.crop, schedule.seed)

    def batches(size: int | None) -> Batches:
        if recipe.order == "replacement":
            return RandomCrops(files, size or schedule.batch, recipe.encoder.crop, schedule.seed)
        order = SampleOrder(len(files), size or schedule.batch, schedule.seed)
        return SampleBatches(crops, order, micro_batch=size or schedule.micro_batch, workers=workers, collate=torch.stack)

    return Run(
        recipe,
        Pretraining(region_encoder(chosen.options), chosen.budget, recipe.loss),
        batches,
        recipe.plan(len(files)),
        len(files),
        lambda learner, folder: save_weights(learner, folder / ENCODER, about),  # type: ignore[arg-type]
        (lambda learner: held_out_error(learner, chosen.budget, Crops(held, recipe.encoder.crop), workers)) if held else None,
        len(held),
    )


def _classification(recipe: ClassificationRecipe, data: str, workers: int, weights: bool) -> Run:
    schedule, model = recipe.schedule, recipe.model
    source = source_of(data)
    classes = source.check_classes(model.classes)
    mixture = mixture_of(recipe.augment, classes, recipe.loss.smoothing)
    at_once = schedule.micro_batch or joined().of(schedule.batch)
    if mixture is not None and at_once % 2:
        raise ValueError(
            f"mixing needs an even number of images at a time, got {at_once}; change schedule.batch or schedule.micro_batch"
        )
    torch.manual_seed(schedule.seed)
    learner = learner_of(model, classes, weights=weights)
    if schedule.checkpointing:
        learner.set_grad_checkpointing()
    config = learner.pretrained_cfg
    images = Images(source.learned, training_transform(recipe.augment, model.image_size, config), schedule.seed)
    collate = Mixed(mixture, learner if model.frozen else None)

    def batches(size: int | None) -> Batches:
        order = SampleOrder(len(images), size or schedule.batch, schedule.seed)
        whole = SampleBatches(images, order, micro_batch=size or schedule.micro_batch, workers=workers, collate=collate)
        return whole if size or schedule.padded_tokens is None else ByTokens(whole, schedule.padded_tokens, counts_of(learner))

    held = None if source.held is None else Images(source.held, plain_transform(model.image_size, config))
    return Run(
        recipe,
        Classification(learner, recipe.loss.smoothing),
        batches,
        recipe.plan(len(images)),
        len(images),
        lambda learned, folder: keep(learned, model, folder),
        None if held is None else lambda learned: held_out(learned, held, workers=workers),
        0 if held is None else len(held),
    )


def _segmentation(recipe: SegmentationRecipe, data: str, workers: int, weights: bool) -> Run:
    schedule, model, augment = recipe.schedule, recipe.model, recipe.augment
    learned, held = (labelled_set(data, recipe.layout, split) for split in ("train", "val"))
    refuse_validation_photos(one.image.name for one in learned.images)
    if model.classes not in ("data", len(learned.classes)):
        raise ValueError(
            f"expected {model.classes} classes, the data has {len(learned.classes)}; give other data, or remove model.classes"
        )
    torch.manual_seed(schedule.seed)
    backbone = learner_of(model, 0, weights=weights)
    if schedule.checkpointing:
        backbone.set_grad_checkpointing()
    config, size = backbone.pretrained_cfg, model.image_size
    changes = LabelledChanges(augment, size, config) if augment.policies or augment.color_jitter else None

    def batches(at_once: int | None) -> Batches:
        return LabelledBatches(
            learned.images,
            (size, size),
            config["mean"],
            config["std"],
            batch=at_once or schedule.batch,
            micro_batch=at_once or schedule.micro_batch,
            scale=augment.scale,
            ratio=augment.ratio,
            changes=changes,
            seed=schedule.seed,
            workers=workers,
        )

    return Run(
        recipe,
        Segmentation(LayeredSegmenter(backbone, len(learned.classes), ratio=recipe.hidden_ratio), recipe.loss),
        batches,
        recipe.plan(len(learned)),
        len(learned),
        lambda segmenter, folder: keep_segmenter(segmenter, model, folder),  # type: ignore[arg-type]
        lambda segmenter: {"mean_iou": mean_iou(segmenter, held, size)},  # type: ignore[arg-type]
        len(held),
    )


def _distillation(recipe: DistillationRecipe, data: str, workers: int, weights: bool) -> Run:
    schedule, model = recipe.schedule, recipe.model
    reader = folder_reader(data)
    refuse_validation_photos(names_of(reader))
    teacher = teacher_of(model, weights=weights)
    config = teacher.pretrained_cfg
    images = Images(reader, training_transform(recipe.augment, config["input_size"][-1], config), schedule.seed)

    def batches(size: int | None) -> Batches:
        order = SampleOrder(len(images), size or schedule.batch, schedule.seed)
        return SampleBatches(images, order, micro_batch=size or schedule.micro_batch, workers=workers)

    return Run(
        recipe,
        Distillation(teacher, student_of(teacher, model), recipe.loss, model.tokens),
        batches,
        recipe.plan(len(images)),
        len(images),
        lambda student, folder: keep_student(student, model, folder),
    )


def fitted(run: Run, checkpoint: Path, resume: bool, report: Callable[[int, Figures], None], *, compiled: bool = False) -> Progress:
    """Train with a checkpoint that knows the recipe."""
    return train(
        run.objective,
        run.batches(None),
        run.plan,
        checkpoint=checkpoint,
        resume=resume,
        settings={"recipe": run.recipe.model_dump(mode="json"), "pictures": run.images},
        report=report,
        validate=run.test,
        compiled=compiled,
    )


def trained(
    run: Run, folder: Path, resume: bool, report: Callable[[int, Figures], None], *, compiled: bool = False
) -> dict[str, Any]:
    """Train, write the model, the recipe and the log into the folder, and return the figures that result.json keeps.

    Of several processes, the first writes, and the others return when it has: what follows finds the files.
    """
    with Log(folder / LOG, images=run.plan.batch, resume=resume) as log:
        done = fitted(run, folder / CHECKPOINT, resume, lambda step, figures: report(step, log(step, figures)), compiled=compiled)
    learned = (done.averaged or run.objective.learner).eval()
    measured = done.measured or ({} if run.test is None else run.test(learned))
    result = _kept(run, folder, learned, done.losses, measured) if joined().first else {}
    gathered(None)
    return result


def _kept(run: Run, folder: Path, learned: nn.Module, losses: list[float], measured: Figures) -> dict[str, Any]:
    """Write the model, the recipe and the result, which is returned."""
    import yaml

    run.keep(learned, folder)
    with replacing(folder / RECIPE) as temporary:
        text = yaml.safe_dump(run.recipe.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
        temporary.write_text(text, encoding="utf-8")
    lines = read_log(folder / LOG)
    result = {
        "about": run.recipe.about,
        "pictures": run.images,
        "steps": run.plan.steps,
        **ends_of(losses),
        "damaged": int(sum(line.get("damaged", 0) for line in lines)),
        "seconds": sum(run.plan.batch / line["images_per_second"] for line in lines),
        **{RESULTS.get(name, name): value for name, value in measured.items()},
        **({"tested": float(run.tested)} if measured else {}),
    }
    write_json(folder / RESULT, result, indent=1)
    return result


def ends_of(losses: list[float]) -> dict[str, float]:
    """Mean losses over the first and the last tenth of the steps."""
    size = max(1, len(losses) // 10)
    return {"first_loss": sum(losses[:size]) / size, "last_loss": sum(losses[-size:]) / size}


class Estimate(NamedTuple):
    """Seconds to read and to train one image, its tokens, its bytes, and those of the weights with gradients and moments."""

    reading: float
    training: float
    tokens: float | None
    weights: int
    image: int

    def memory(self, images: int) -> float:
        """Gigabytes with this many images at a time."""
        return (self.weights + self.image * images) / 1e9

    def hours(self, images: float, workers: int) -> float:
        """Hours for this many images; workers read while others are trained."""
        each = self.reading + self.training if workers == 0 else max(self.reading / workers, self.training)
        return images * each / 3600


def cost(run: Run) -> Estimate:
    """The cost of a run, measured on a few of its images."""
    return estimated(run.objective, run.batches(min(TRIED, run.plan.batch)), run.plan)


def estimated(objective: Objective, batches: Batches, plan: Plan) -> Estimate:
    """Time the forward and backward pass of small batches; weights stay as they are."""
    source = batches.starting(0, Share())
    reading, training, kept, tokens, count = [], [], 0, None, 1
    objective.train()
    for number in range(PASSES + 1):
        began = time.perf_counter()
        batch = next(source)[0]
        count = len(batch if isinstance(batch, Tensor) else batch[0])
        read = time.perf_counter()
        with _saved_for_backward(objective) as storages:
            found = objective(batch)
        found["loss"].backward()
        if number > 0:
            reading.append((read - began) / count)
            training.append((time.perf_counter() - read) / count)
        kept = sum(storages.values()) // count
        tokens = float(found["tokens"]) if "tokens" in found else None
    objective.zero_grad()
    copies = 1 + STATES[plan.optimiser] + bool(plan.average)  # gradients, moments and averages of weights that learn
    weights = sum(one.nbytes * (1 + copies * one.requires_grad) for one in objective.parameters())
    return Estimate(min(reading), min(training), tokens, weights, kept)


@contextmanager
def _saved_for_backward(objective: Objective) -> Iterator[dict[int, int]]:
    """Count the memory that the backward pass needs besides the weights: bytes by storage, since views share one."""
    found: dict[int, int] = {}
    weights = {one.untyped_storage().data_ptr() for one in objective.parameters()}

    def count(value: Tensor) -> Any:
        storage = value.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        return value

    with torch.autograd.graph.saved_tensors_hooks(count, lambda value: value):
        yield found
