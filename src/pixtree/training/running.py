"""A recipe from its settings to the model on disk."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pixtree.evaluation.label_maps import labelled_set
from pixtree.files import replacing, write_json
from pixtree.training import presets
from pixtree.training.augmentation import LabelledChanges, Mixed, mixture_of, plain_transform, training_transform
from pixtree.training.checkpoints import Progress
from pixtree.training.data import RandomCrops, refuse_validation_photos
from pixtree.training.distilling import CHECKPOINT, OWN
from pixtree.training.estimate import Estimate, estimated
from pixtree.training.labelled import Classification, top1
from pixtree.training.learners import keep, learner_of
from pixtree.training.logs import LOG, Log, read_log
from pixtree.training.loop import Batches, Figures, Objective, train
from pixtree.training.order import Order
from pixtree.training.pictures import PictureBatches, Pictures
from pixtree.training.plan import Plan
from pixtree.training.recipe import AnyRecipe, ClassificationRecipe, Recipe, SegmentationRecipe, TokenizerRecipe
from pixtree.training.reconstruction import Losses as ReconstructionLosses
from pixtree.training.reconstruction import Pretraining
from pixtree.training.segmenters import CountedSegmentation, LayeredSegmenter, keep_segmenter, mean_iou
from pixtree.training.segmenting import LabelledBatches, Losses
from pixtree.training.sources import learned_files, source_of
from pixtree.training.token_parts import ByTokens, counts_of

ENCODER, RECIPE, RESULT = "encoder.safetensors", "recipe.yaml", "result.json"
TRIED = 4  # pictures at a time that a dry run measures


@dataclass(frozen=True)
class Run:
    """A training that is ready to start; `keep` writes what was learned, and `test` gives figures of it by name."""

    recipe: Recipe
    objective: Objective
    batches: Callable[[int | None], Batches]  # by the pictures at a time, None for those of the recipe
    plan: Plan
    pictures: int
    keep: Callable[[nn.Module, Path], None]
    test: Callable[[nn.Module], Figures] = field(default=lambda learner: {})

    @property
    def text(self) -> str:
        """What will be done."""
        learned = sum(one.numel() for one in self.objective.learner.parameters() if one.requires_grad)
        return (
            f"{self.recipe.about}: {self.pictures} pictures, {self.plan.steps} steps of {self.recipe.schedule.batch}, "
            f"{learned / 1e6:.3g} M parameters learn"
        )


def prepared(recipe: AnyRecipe, data: str, *, workers: int = 0, weights: bool = True) -> Run:
    """Check everything, and make the model; nothing is written. Without `weights` a start is not loaded, for a dry run."""
    if isinstance(recipe, TokenizerRecipe):
        return _reconstruction(recipe, data)
    if isinstance(recipe, ClassificationRecipe):
        return _classification(recipe, data, workers, weights)
    return _segmentation(recipe, data, weights)


def plan_of(recipe: Recipe, pictures: int) -> Plan:
    """Steps and rates for so many pictures."""
    schedule = recipe.schedule
    steps = Order(pictures, schedule.batch).steps(schedule.epochs)
    return Plan(
        steps=steps,
        rate=schedule.rate.base,
        start=schedule.rate.start,
        stop=schedule.rate.stop,
        warmup=round(schedule.warmup * pictures / schedule.batch),
        falling=schedule.falling,
        optimiser=schedule.optimiser,
        momentum=schedule.momentum,
        epsilon=schedule.epsilon,
        decay=schedule.weight_decay,
        layer_decay=schedule.layer_decay,
        scales=() if schedule.own_rate is None else tuple((start, schedule.own_rate) for start in OWN),
        clip=math.inf if schedule.clip is None else schedule.clip,
        average=schedule.average,
        precision=schedule.precision,
        seed=schedule.seed,
        every=max(1, min(100, steps // 4)),
    )


def _reconstruction(recipe: TokenizerRecipe, data: str) -> Run:
    from pixtree.tokenizer.tokenizer import region_encoder
    from pixtree.tokenizer.weights import save_weights

    schedule, wanted = recipe.schedule, recipe.encoder
    files = learned_files(data)
    chosen = presets.PRESETS[wanted.preset].changed(wanted.features, wanted.tokens, None, None)
    torch.manual_seed(schedule.seed)
    losses = ReconstructionLosses(recipe.loss.reconstruction, recipe.loss.association)
    objective = Pretraining(region_encoder(chosen.options), chosen.budget, losses)
    about = {"images": str(len(files)), "seed": str(schedule.seed)}
    return Run(
        recipe,
        objective,
        lambda part: RandomCrops(files, part or schedule.batch, wanted.crop, schedule.seed),
        plan_of(recipe, len(files)),
        len(files),
        lambda learner, folder: save_weights(learner, folder / ENCODER, about),  # type: ignore[arg-type]
    )


def _classification(recipe: ClassificationRecipe, data: str, workers: int, weights: bool) -> Run:
    schedule, model = recipe.schedule, recipe.model
    source = source_of(data)
    classes = source.check_classes(model.classes)
    mixture = mixture_of(recipe.augment, classes, recipe.loss.smoothing)
    if mixture is not None and (schedule.part or schedule.batch) % 2:
        raise ValueError(
            f"mixing needs an even number of pictures at a time, got {schedule.part or schedule.batch}; "
            "change schedule.batch or schedule.part"
        )
    torch.manual_seed(schedule.seed)
    learner = learner_of(model, classes, weights=weights)
    if schedule.checkpointing:
        learner.set_grad_checkpointing()
    config = learner.pretrained_cfg
    pictures = Pictures(source.learned, training_transform(recipe.augment, model.image_size, config), schedule.seed)
    collate = Mixed(mixture, learner if model.frozen else None)

    def batches(part: int | None) -> Batches:
        order = Order(len(pictures), part or schedule.batch, schedule.seed)
        whole = PictureBatches(pictures, order, part=part or schedule.part, workers=workers, collate=collate)
        return whole if part or schedule.padded_tokens is None else ByTokens(whole, schedule.padded_tokens, counts_of(learner))

    held = None if source.held is None else Pictures(source.held, plain_transform(model.image_size, config))
    return Run(
        recipe,
        Classification(learner, recipe.loss.smoothing),
        batches,
        plan_of(recipe, len(pictures)),
        len(pictures),
        lambda learned, folder: keep(learned, model, folder),
        lambda learned: {} if held is None else {"top1": top1(learned, held), "tested": float(len(held))},
    )


def _segmentation(recipe: SegmentationRecipe, data: str, weights: bool) -> Run:
    schedule, model, loss, augment = recipe.schedule, recipe.model, recipe.loss, recipe.augment
    learned, held = (labelled_set(data, recipe.layout, split) for split in ("train", "val"))
    refuse_validation_photos(one.image.name for one in learned.images)
    if model.classes not in ("data", len(learned.classes)):
        raise ValueError(
            f"expected {model.classes} classes, the data has {len(learned.classes)}; give other data, or leave model.classes out"
        )
    torch.manual_seed(schedule.seed)
    backbone = learner_of(model, 0, weights=weights)
    if schedule.checkpointing:
        backbone.set_grad_checkpointing()
    config, size = backbone.pretrained_cfg, model.image_size
    changes = LabelledChanges(augment, size, config) if augment.policies or augment.color_jitter else None

    def batches(part: int | None) -> Batches:
        return LabelledBatches(
            learned.images,
            (size, size),
            config["mean"],
            config["std"],
            batch=part or schedule.batch,
            part=part or schedule.part,
            scale=augment.scale,
            ratio=augment.ratio,
            changes=changes,
            seed=schedule.seed,
        )

    return Run(
        recipe,
        CountedSegmentation(
            LayeredSegmenter(backbone, len(learned.classes), ratio=recipe.hidden_ratio), Losses(loss.bce, loss.focal, loss.gamma)
        ),
        batches,
        plan_of(recipe, len(learned)),
        len(learned),
        lambda segmenter, folder: keep_segmenter(segmenter, model, folder),  # type: ignore[arg-type]
        lambda segmenter: {"mean_iou": mean_iou(segmenter, held, size), "tested": float(len(held))},  # type: ignore[arg-type]
    )


def cost(run: Run) -> Estimate:
    """The cost of a run, measured on a few of its pictures."""
    return estimated(run.objective, run.batches(min(TRIED, run.recipe.schedule.batch)), run.plan)


def trained(run: Run, folder: Path, resume: bool, report: Callable[[int, Figures], None]) -> dict[str, Any]:
    """Train, write what was learned with the recipe into the folder, and give the figures that result.json keeps."""
    import yaml
    from accelerate import PartialState

    settings = run.recipe.model_dump(mode="json")
    first = PartialState().is_main_process
    with Log(folder / LOG, images=run.recipe.schedule.batch, resume=resume) as log:
        done = train(
            run.objective,
            run.batches(None),
            run.plan,
            checkpoint=folder / CHECKPOINT,
            resume=resume,
            settings={"recipe": settings, "pictures": run.pictures},
            report=lambda step, figures: report(step, log(step, figures)),
        )
    if not first:
        return {}
    learned = (done.averaged or run.objective.learner).eval()
    run.keep(learned, folder)
    with replacing(folder / RECIPE) as temporary:
        temporary.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")
    result = _figures(run, done, folder) | run.test(learned)
    write_json(folder / RESULT, result, indent=1)
    return result


def _figures(run: Run, done: Progress, folder: Path) -> dict[str, Any]:
    """Means over the first and the last tenth of the steps, and what the log adds up to."""
    size = max(1, len(done.losses) // 10)
    lines = read_log(folder / LOG)
    return {
        "about": run.recipe.about,
        "pictures": run.pictures,
        "steps": run.plan.steps,
        "first_loss": sum(done.losses[:size]) / size,
        "last_loss": sum(done.losses[-size:]) / size,
        "damaged": int(sum(line.get("damaged", 0) for line in lines)),
        "seconds": sum(run.recipe.schedule.batch / line["images_per_second"] for line in lines),
    }
