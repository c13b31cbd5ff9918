"""A distillation from its settings to the model on disk."""

import copy
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from pixtree.files import replacing
from pixtree.models.coarsening import CoarseViT, coarsen
from pixtree.models.retrofit import retrofit
from pixtree.models.vit import PixtreeViT
from pixtree.models.zoo import named_model
from pixtree.training.data import refuse_validation_photos
from pixtree.training.distillation import Distillation, Matching
from pixtree.training.logs import LOG, Log
from pixtree.training.loop import Figures, train
from pixtree.training.order import Order
from pixtree.training.pictures import PictureBatches, Pictures, folder_reader
from pixtree.training.plan import Plan
from pixtree.training.sources import names_of

CHECKPOINT = "checkpoint.pt"
OWN = ("tokenizer.sampler", "tokenizer.regions")  # λ, β, κ and the encoder; in a prototype λ did not move at the model's rate


@dataclass(frozen=True)
class Settings:
    """What a distillation is asked for; see `pixtree train distill --help`. The rates were chosen by `benchmarks/distill.py`."""

    model: str
    tokens: tuple[int, ...] = (196,)
    compute: float | None = None
    epochs: float = 3.0
    batch: int = 16
    part: int | None = None
    rate: float = 3e-5
    own_rate: float = 30.0
    regions: float | None = None  # 1 for a retrofit, 0 for token trees, which have no regions
    crop: float = 0.7
    precision: str = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.crop <= 1:
            raise ValueError(f"a crop is a share of a picture above 0 and at most 1, got {self.crop}; try 0.7")

    def matching(self) -> Matching:
        """What is matched."""
        default = 0.0 if self.compute is not None else 1.0
        return Matching(regions=default if self.regions is None else self.regions)


class Run(NamedTuple):
    """A distillation that is ready to start, and a sentence that says so."""

    settings: Settings
    objective: Distillation
    batches: PictureBatches
    plan: Plan
    text: str


class Outcome(NamedTuple):
    """The loss at the beginning and at the end, and where the model is."""

    first: float
    last: float
    kept: Path


def prepared(settings: Settings, images: str, weights: Path | None, workers: int = 0) -> Run:
    """Check everything, and load teacher and student; nothing is written."""
    reader = folder_reader(images)
    refuse_validation_photos(names_of(reader))
    order = Order(len(reader), settings.batch, settings.seed)
    teacher = named_model(settings.model, weights)
    objective = Distillation(teacher, student_of(teacher, settings), settings.matching(), settings.tokens)
    steps = order.steps(settings.epochs)
    scales = tuple((start, settings.own_rate) for start in OWN)
    plan = Plan(
        steps=steps,
        rate=settings.rate,
        warmup=max(1, steps // 20),
        decay=0.01,
        scales=scales,
        precision=settings.precision,
        seed=settings.seed,
        every=max(1, min(50, steps // 4)),
    )
    pictures = Pictures(reader, transform_of(teacher, settings.crop), settings.seed)
    what = f"{settings.compute} of the compute" if settings.compute else f"{', '.join(map(str, settings.tokens))} tokens"
    text = (
        f"{settings.model} at {what}: {len(reader)} pictures, {steps} steps of {settings.batch}, "
        f"{sum(one.numel() for one in objective.learner.parameters()) / 1e6:.1f} M parameters learn"
    )
    return Run(settings, objective, PictureBatches(pictures, order, part=settings.part, workers=workers), plan, text)


def distilled(run: Run, folder: Path, resume: bool, report: Callable[[int, Figures], None]) -> Outcome:
    """Train, and write the student into the folder."""
    with Log(folder / LOG, images=run.settings.batch, resume=resume) as log:
        done = train(
            run.objective,
            run.batches,
            run.plan,
            checkpoint=folder / CHECKPOINT,
            resume=resume,
            settings={"distillation": asdict(run.settings), "pictures": len(run.batches.pictures)},
            report=lambda step, figures: report(step, log(step, figures)),
        )
    keep(run.objective.learner.eval(), run.settings, folder)
    size = max(1, len(done.losses) // 10)
    return Outcome(sum(done.losses[:size]) / size, sum(done.losses[-size:]) / size, folder)


def student_of(teacher: Any, settings: Settings) -> nn.Module:
    """The teacher's copy, retrofitted or coarsened."""
    if settings.compute is not None:
        return coarsen(copy.deepcopy(teacher), settings.compute)
    return retrofit(teacher, tokens=settings.tokens[0])


def transform_of(teacher: Any, crop: float) -> Any:
    """timm's crops of at least that share of a picture, and flips; no change of colour: the teacher says what a picture shows."""
    from importlib import import_module

    from pixtree.models.timm_import import timm

    config = teacher.pretrained_cfg
    make = import_module(f"{timm.__name__}.data").create_transform
    return make(
        config["input_size"][-1],
        is_training=True,
        mean=config["mean"],
        std=config["std"],
        interpolation=config.get("interpolation", "bicubic"),
        scale=(crop, 1.0),
        color_jitter=None,
    )


def keep(student: nn.Module, settings: Settings, folder: Path) -> None:
    """Write a retrofit as `PixtreeViT.from_pretrained` reads it; of a coarsened model the timm model's weights."""
    if isinstance(student, PixtreeViT):
        student.save_pretrained(folder)
        return
    assert isinstance(student, CoarseViT)
    from safetensors.torch import save_file

    with replacing(folder / "model.safetensors") as temporary:
        save_file({name: one.contiguous() for name, one in student.model.state_dict().items()}, temporary)
    with replacing(folder / "config.json") as temporary:
        temporary.write_text(json.dumps({"model": settings.model, "compute": settings.compute}, indent=1), encoding="utf-8")
