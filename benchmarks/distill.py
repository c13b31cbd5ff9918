"""Distillation without labels, from pictures to a table: `python benchmarks/distill.py --data FOLDER --runs FOLDER -o FILE`.

Students of one model learn its answers on pictures outside ImageNet's validation split, all by the same schedule: regions, token
trees, ToMe and the patch model on a smaller input. What is measured is the accuracy on validation photos; that before the training
is in the records of `benchmarks/retrofit.py` and `benchmarks/coarsen.py`, and is read from them. --held-out trains without every
fifth picture of imagenet_sample and measures on these, to choose a schedule there. Runs that were interrupted go on, and rows that
are in FILE are not measured again. The folder of data is that of `$PIXTREE_DATA`.
"""

import argparse
import copy
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import torch
from evidence.records import PACKAGES, provenance, write_record
from torch import Tensor, nn

from pixtree.evaluation.classification import accuracy_rows, outputs_of
from pixtree.evaluation.classified_images import ClassifiedImages, classified_images
from pixtree.evaluation.variants import Variant, cost_of, variant_of
from pixtree.files import IMAGE_SUFFIXES, replacing
from pixtree.models.zoo import named_model
from pixtree.training.distillation import Distillation
from pixtree.training.logs import LOG, read_log
from pixtree.training.recipe import Matching
from pixtree.training.running import CHECKPOINT, Run, prepared, trained
from pixtree.training.short_forms import distillation_recipe

MODELS = ("deit_tiny_patch16_224", "vit_tiny_patch16_224")
STUDENTS = {
    "196 regions": Variant(tokens=196),
    "100 regions": Variant(tokens=100),
    "token trees": Variant(compute=0.5),
    "smaller input": Variant(size=160),
    "ToMe": Variant(compute=0.5, rule="tome"),
}
# Names of the same models in the record of coarsening, at half the compute.
COARSENED = {"token trees": "pixtree: token trees", "smaller input": "smaller input", "ToMe": "ToMe"}
RESULTS = Path(__file__).parent / "results"
# Folders of photos that are no part of ImageNet's validation split, and may be trained on for experiments.
SOURCES = (
    "imagenet_sample/images",
    "imagenette224/train",
    "imagenette224/val",
    "bsds500/images/train",
    "ecssd/images",
    "pets_salient/images",
    "dht_testimgs",
)
STEPS = 320  # one pass over the photos
HELD_OUT = 200  # of imagenet_sample, evenly spaced
COLUMNS = [
    ["model", "Model", ""],
    ["student", "Student", ""],
    ["tokens", "Tokens", ""],
    ["gflops", "GFLOPs", ".2f"],
    ["share", "of the model's", ".2f"],
    ["before", "Top-1 before", ".3f"],
    ["kept_before", "share of the model's", ".3f"],
    ["top1", "Top-1 distilled", ".3f"],
    ["kept", "share of the model's", ".4f"],
    ["agreement", "Same answer as the model", ".3f"],
    ["divergence", "KL from the model, nats", ".3f"],
    ["minutes", "Minutes", ".0f"],
]
SCHEDULE = ("steps", "batch", "rate", "own_rate", "crop", "answer", "pooled", "regions")
TRIED = [
    *COLUMNS[:3],
    ["steps", "Steps", ""],
    ["batch", "Crops a step", ""],
    ["rate", "Rate", "g"],
    ["own_rate", "own rate, times", "g"],
    ["crop", "Smallest crop", "g"],
    ["answer", "Weight of the answer", "g"],
    ["pooled", "of the pooled features", "g"],
    ["regions", "of those of regions", "g"],
    *[column for column in COLUMNS if column[0] in ("top1", "kept", "agreement", "divergence", "minutes")],
]
WANTED = {"196 regions": 0.95, "100 regions": 0.84, "token trees": 0.98}


def pictures(data: Path, folder: Path, held_out: bool) -> Path:
    """A folder of links to all pictures that are learned from."""
    left_out = {one.path for one in held(data).images} if held_out else set()
    target = folder / ("pictures_without_held_out" if held_out else "pictures")
    target.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        for path in sorted((data / source).rglob("*")):
            if path.suffix.lower() not in IMAGE_SUFFIXES or path in left_out:
                continue
            if "ILSVRC2012_val" in path.name:
                raise ValueError(f"expected no validation photo among the pictures, got {path.name}; remove {source}")
            link = target / f"{source.replace('/', '-')}-{path.parent.name}-{path.name}"
            if not link.is_symlink():
                link.symlink_to(path.absolute())
    return target


def held(data: Path) -> ClassifiedImages:
    """The pictures on which schedules are chosen."""
    return classified_images(data / "imagenet_sample").limited(HELD_OUT)


class Remembered(nn.Module):
    """A teacher that looks at every crop once: all students see the same crops, and the first of them waits for the features."""

    def __init__(self, teacher: Any, path: Path) -> None:
        super().__init__()
        self.teacher, self.path, self.patch_embed = teacher, path, teacher.patch_embed
        self.num_classes, self.embed_dim, self.num_prefix_tokens = teacher.num_classes, teacher.embed_dim, teacher.num_prefix_tokens
        self.known: dict[float, Tensor] = torch.load(path, weights_only=True) if path.is_file() else {}

    def forward_features(self, images: Tensor) -> Tensor:
        """The teacher's features (B, 1 + N, D), kept as float16 by the sum of a crop's pixels."""
        names = images.double().sum(dim=(1, 2, 3)).tolist()
        new = [place for place, name in enumerate(names) if name not in self.known]
        if new:
            with torch.autocast(images.device.type, enabled=False):
                rows = self.teacher.forward_features(images[new]).half()
            self.known |= {names[place]: one.clone() for place, one in zip(new, rows, strict=True)}
        return torch.stack([self.known[name].float() for name in names])

    def forward_head(self, rows: Tensor, pre_logits: bool = False) -> Tensor:
        """The teacher's answers, or what its classifier reads."""
        with torch.autocast(rows.device.type, enabled=False):
            return self.teacher.forward_head(rows, pre_logits=pre_logits)

    def save(self) -> None:
        """Keep the features for the next student."""
        with replacing(self.path) as temporary:
            torch.save(self.known, temporary)


def run_of(name: str, student: str, folder: Path, options: argparse.Namespace) -> Run:
    """A distillation of one student; only the student differs from those of the others."""
    variant = STUDENTS[student]
    recipe = distillation_recipe(
        name,
        weights=options.data / "weights" / f"{name}.fp16.safetensors",
        tokens=() if variant.tokens is None else (variant.tokens,),
        compute=variant.compute or (1.0 if variant.tokens is None else None),
        batch=options.batch,
        rate=options.rate,
        tokenizer_lr_scale=options.own_rate,
        regions=0.0,  # what is matched follows below
        crop=options.crop,
        precision="bfloat16",
    )
    run = prepared(recipe, str(folder))
    teacher = run.objective.teacher
    made = variant_of(copy.deepcopy(teacher).requires_grad_(True), variant)
    remembered = Remembered(teacher, options.runs / f"{name}-{options.crop:g}{'-held_out' * options.held_out}.features")
    matching = Matching(answer=options.answer, pooled=options.pooled, regions=options.regions if variant.tokens else 0.0)
    objective = Distillation(remembered, made, matching)
    lengths = {"steps": options.steps, "warmup_steps": max(1, options.steps // 20), "every": 40}
    return replace(run, objective=objective, plan=run.plan.model_copy(update=lengths))


def answers_of(teacher: Any, path: Path, data: ClassifiedImages) -> Tensor:
    """The teacher's logits of the pictures that are measured, from a file if they are there."""
    if not path.is_file():
        torch.save(outputs_of([teacher], data)[0], path)
    return torch.load(path, weights_only=True)


def measured(teacher: Any, taught: Tensor, model: Any, data: ClassifiedImages) -> dict[str, Any]:
    """Accuracy and cost of a model beside its teacher, whose logits are given."""
    cost, whole = cost_of(model), cost_of(teacher).gflops
    found = accuracy_rows([taught, *outputs_of([model], data)], data)[1]
    return {"tokens": cost.tokens, "gflops": cost.gflops, "share": cost.gflops / whole, **found}


def before(name: str, student: str) -> dict[str, float]:
    """The accuracy of a student that nothing was trained of, on the same 1,000 photos, from the records that measured it."""
    record = "retrofit" if STUDENTS[student].tokens else "coarsen"
    for row in json.loads((RESULTS / f"{record}.json").read_text())["rows"]:
        same = row["tokens"] == STUDENTS[student].tokens if record == "retrofit" else row["method"] == COARSENED[student]
        if row["model"] == name and same and (record == "retrofit" or 0.45 < row["compute"] <= 0.5):
            return {"before": row["top1"], "kept_before": row["kept"]}
    raise ValueError(f"expected {student!r} of {name} in {record}.json, found none; run the benchmark of that name first")


def untouched(name: str, student: str, options: argparse.Namespace) -> dict[str, Any]:
    """The row of a student that was not distilled."""
    teacher = named_model(name, options.data / "weights" / f"{name}.fp16.safetensors")
    cost, whole = cost_of(variant_of(teacher, STUDENTS[student])), cost_of(teacher).gflops
    row = {"model": name, "student": student, "tokens": cost.tokens, "gflops": cost.gflops, "share": cost.gflops / whole}
    return row | dict.fromkeys(("top1", "kept", "agreement", "divergence", "minutes")) | before(name, student)


def row_of(name: str, student: str, folder: Path, data: ClassifiedImages, options: argparse.Namespace) -> tuple[dict, list]:
    """The row of one student after its distillation, and the curve of its loss."""
    run = run_of(name, student, folder, options)
    remembered, learner = run.objective.teacher, run.objective.learner
    where = options.runs / f"{name}-{student.replace(' ', '_')}-{options.tag}"
    where.mkdir(parents=True, exist_ok=True)

    def report(step: int, figures: dict[str, float]) -> None:
        if step % 10 == 9:
            print(name, student, step + 1, {key: round(value, 4) for key, value in figures.items()}, flush=True)

    trained(run, where, (where / CHECKPOINT).is_file(), report)
    remembered.save()
    log = read_log(where / LOG)
    taught = answers_of(remembered.teacher, options.runs / f"{name}-on-{data.name}-{len(data)}.pt", data)
    row = {"model": name, "student": student, **measured(remembered.teacher, taught, learner.eval(), data)}
    if options.held_out:
        row |= {key: getattr(options, key) for key in SCHEDULE}
    else:
        row |= before(name, student)
    row["minutes"] = sum(run.plan.batch / line["images_per_second"] for line in log) / 60
    print(row, flush=True)
    losses = [line["loss"] for line in log]
    return row, [sum(losses[at : at + 10]) / len(losses[at : at + 10]) for at in range(0, len(losses), 10)]


def title(steps: int) -> str:
    """Tables of longer schedules stand beside that of the usual one."""
    return "Distillation without labels" + ("" if steps == STEPS else f", {steps} steps")


def record(rows: list[dict], curves: dict[str, list], count: int, data: ClassifiedImages, options: argparse.Namespace) -> dict:
    """The table of all students, or with --held-out that of all schedules which were tried."""
    schedule = " ".join(f"--{key.replace('_', '-')} {getattr(options, key):g}" for key in SCHEDULE)
    if len(rows) < len(MODELS) * len(STUDENTS):
        names = [sorted({row[key] for row in rows}) for key in ("model", "student")]
        schedule += f" --models {' '.join(names[0])} --students {' '.join(map(repr, names[1]))}"
    sources = ", ".join(dict.fromkeys(source.partition("/")[0] for source in SOURCES))
    seen = (
        f"Crops come from {count} photos ({sources}), none of which is a validation photo. The students learned the classes and "
        "the pooled features of the untouched model, and those with regions also its patch features averaged over each region, "
        f"if these have a weight; in bfloat16. Accuracy is that on {len(data)} photos of {data.name}, in float32. Minutes are "
        "those of a busy machine, on one core."
    )
    made = {
        "benchmark": "table",
        "title": "Schedules of distillation, on held-out photos" if options.held_out else title(options.steps),
        **provenance(
            f"python benchmarks/distill.py --data $PIXTREE_DATA --runs RUNS {'--held-out' if options.held_out else schedule}",
            (*PACKAGES, "timm", "accelerate"),
        ),
        "columns": TRIED if options.held_out else COLUMNS,
        "rows": rows,
        "curves": curves,
    }
    if options.held_out:
        return made | {"notes": [f"{seen} Every row is one run, with the schedule that it names."]}
    return made | {
        "notes": [
            f"{seen} Every student is a model of its own, trained by one schedule: {options.steps} steps of {options.batch} crops "
            f"of at least {options.crop:g} of a photo, peak rate {options.rate:g}, that of λ, β, κ and the encoder "
            f"{options.own_rate:g} times as high, falling along a cosine. Rates and weights were chosen on held-out photos of "
            "imagenet_sample (distill_schedules.json).",
            *(["Rows without a figure after the training were not distilled."] if any(row["top1"] is None for row in rows) else []),
            "The smaller input is the patch model at 160 px, which has 100 tokens and about half the compute. What is before the "
            "training comes from retrofit.json and coarsen.json, which have the same photos. With 1,000 photos the standard error "
            "of a share is about .015.",
        ],
        "bars": [
            {"what": f"{row['model']}, {row['student']}: share of top-1", "wanted": f"≥ {WANTED[row['student']]}"}
            | {"found": row["kept"], "met": "yes" if row["kept"] >= WANTED[row["student"]] else "no"}
            for row in rows
            if row["student"] in WANTED and row["kept"] is not None
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True, help="folder for checkpoints and logs")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--students", nargs="+", default=list(STUDENTS), choices=list(STUDENTS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=3e-5)
    parser.add_argument("--own-rate", type=float, default=30.0)
    parser.add_argument("--crop", type=float, default=0.7)
    parser.add_argument("--answer", type=float, default=1.0)
    parser.add_argument("--pooled", type=float, default=1.0)
    parser.add_argument("--regions", type=float, default=1.0)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.tag = "-".join(f"{getattr(options, key):g}" for key in SCHEDULE) + "-held_out" * options.held_out
    folder = pictures(options.data, options.runs, options.held_out)
    data = held(options.data) if options.held_out else classified_images(options.data / "imagenet_val")
    known = json.loads(options.output.read_text()) if options.output.is_file() else {"rows": [], "curves": {}}
    rows, curves = [row for row in known["rows"] if row["top1"] is not None], dict(known["curves"])
    for name in options.models:
        named_model(name, options.data / "weights" / f"{name}.fp16.safetensors")  # refused before anything is trained
        for student in options.students:
            label = f"{name}, {student}" + f", {options.tag}" * options.held_out
            if label in curves:
                continue
            row, curves[label] = row_of(name, student, folder, data, options)
            rows.append(row)
            write_record(record(rows, curves, len(list(folder.iterdir())), data, options), options.output)
    # Notes and targets are those of this script, also where every row was there.
    done = {(row["model"], row["student"]) for row in rows}
    if not options.held_out:
        rows += [untouched(*one, options) for one in product(options.models, options.students) if one not in done]
        rows.sort(key=lambda row: (MODELS.index(row["model"]), list(STUDENTS).index(row["student"])))
    write_record(record(rows, curves, len(list(folder.iterdir())), data, options), options.output)


if __name__ == "__main__":
    main()
