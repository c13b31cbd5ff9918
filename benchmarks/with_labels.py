"""Patches against regions, trained with labels under one schedule.

    python benchmarks/with_labels.py scratch --data $PIXTREE_DATA --runs RUNS

Ten classes of Imagenette (imagenette224: 787 photos to learn from, 380 held out), in two experiments:

- scratch: a ViT-Tiny of four blocks at 96 px, by the recipe `pretrain_laptop`.
- finetune: the pretrained DeiT-Tiny at 224 px, by the recipe `retrofit_laptop`.

All kinds of tokens of an experiment differ in the settings of KINDS alone and have the same seeds. A run that was interrupted goes
on from its checkpoint, and one that is in the folder of runs is not repeated. -o is the record, benchmarks/results/EXPERIMENT.json
by default. Checkpoints stay in the folder of runs.
"""

import argparse
import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from evidence.records import provenance, write_record
from recipes import curve_of

from pixtree.cli.progress import Steps
from pixtree.files import write_json
from pixtree.training.augmentation import plain_transform
from pixtree.training.batches import Images
from pixtree.training.labelled import correct
from pixtree.training.logs import LOG, read_log
from pixtree.training.recipe import read_recipe
from pixtree.training.running import CHECKPOINT, RESULT, Run, prepared, trained
from pixtree.training.sources import source_of

RESULTS = Path("benchmarks/results")
ANSWERS = "answers.json"  # of a run: which held-out photos were right, and the minutes that it took
PATCHES = ("model.tokenizer=null", "model.tokens=null", "model.encoder=fresh", "model.frozen=false")
PAPER = ("model.tokenizer=paper", *PATCHES[1:])


@dataclass(frozen=True)
class Kind:
    """One kind of tokens: the changes of the recipe, and the kind that it is compared with.

    mix: where λ starts, with β = 0, instead of the tokenizer's own start.
    """

    changes: tuple[str, ...] = ()
    beside: str | None = None
    mix: float | None = None


@dataclass(frozen=True)
class Experiment:
    """A recipe, its kinds of tokens, changes that all of them share, and words for the page of results."""

    recipe: str
    title: str
    kinds: dict[str, Kind]
    shared: tuple[str, ...]
    seeds: tuple[int, ...]
    note: str


EXPERIMENTS = {
    "scratch": Experiment(
        "pretrain_laptop",
        "From scratch: patches and regions under the same schedule",
        {
            "36 patches of 16 px": Kind(
                ("model.name=vit_tiny_patch16_224", "model.tokens=null", "model.arguments={depth: 4, img_size: 96}")
            ),
            "36 regions": Kind((), "36 patches of 16 px"),
        },
        (),
        (0, 1),
        "Both are timm's ViT-Tiny with four blocks, at 96 px, from random weights. The model of regions is `pixtree_vit_tiny`: its "
        "tokens also carry gradient histograms, and its encoder learns. Chance is 0.1.",
    ),
    "finetune": Experiment(
        "retrofit_laptop",
        "Fine-tuned with labels: patches and regions under the same schedule",
        {
            "196 patches, 224 px": Kind(PATCHES),
            "100 patches, 160 px": Kind((*PATCHES, "model.image_size=160")),
            "196 regions": Kind(("model.tokens=196",), "196 patches, 224 px"),
            "100 regions": Kind(("model.tokens=100",), "100 patches, 160 px"),
            "the paper's preset": Kind(PAPER, "196 patches, 224 px"),
            "the same, starting with λ = .9 and β = 0": Kind(PAPER, "196 patches, 224 px", mix=0.9),
        },
        ("schedule.precision=bfloat16",),
        (0, 1),
        "All start from the same weights of DeiT-Tiny, with a new classifier. These photos are among those that DeiT-Tiny was "
        "pretrained on, so that all accuracies are too high, and only their differences say something. The paper's preset starts "
        "with an untrained encoder and chooses its own count of tokens; λ = .01 and noise in β, as in the authors' released code, "
        "hide from a pretrained model what lies around a region.",
    ),
}
COLUMNS = [
    ["kind", "Tokens", ""],
    ["tokens", "per picture", ".0f"],
    ["runs", "Seeds", "d"],
    ["last_loss", "Loss, last tenth ↓", ".3f"],
    ["top1", "Top-1, held out ↑", ".4f"],
    ["error", "± standard error", ".4f"],
    ["each", "of each seed", ""],
    ["lead", "Against patches ↑", "+.4f"],
    ["lead_error", "± standard error", ".4f"],
    ["minutes", "CPU minutes", ".1f"],
]


def busy() -> float:
    """Minutes of processor time of this process and its ended children."""
    return sum(os.times()[:4]) / 60


def ready(experiment: Experiment, kind: Kind, seed: int, data: Path, workers: int) -> Run:
    """The training of one kind of tokens with one seed."""
    changes = [*experiment.shared, *kind.changes, f"schedule.seed={seed}"]
    if experiment.recipe.startswith("retrofit"):
        changes.append(f"model.start={data / 'weights' / 'deit_tiny_patch16_224.fp16.safetensors'}")
    made = prepared(read_recipe(experiment.recipe, changes), str(data / "imagenette224"), workers=workers)
    if kind.mix is not None:
        sampler = made.objective.learner.tokenizer.sampler
        with torch.no_grad():
            sampler.logit.fill_(math.log(kind.mix / (1 - kind.mix)))
            sampler.background.zero_()
    return made


def run(made: Run, folder: Path, data: Path) -> None:
    """Train, or go on, and keep what became of every held-out photo beside the result."""
    folder.mkdir(parents=True, exist_ok=True)
    before = busy()
    model = made.recipe.model  # type: ignore[attr-defined]
    held = Images(
        source_of(str(data / "imagenette224")).held, plain_transform(model.image_size, made.objective.learner.pretrained_cfg)
    )

    def test(learned: Any) -> dict[str, float]:
        right = correct(learned, held)
        write_json(folder / ANSWERS, {"right": right.int().tolist(), "minutes": busy() - before})
        return {"top1": float(right.double().mean())}

    with Steps(made.plan.steps) as report:
        trained(replace(made, test=test), folder, (folder / CHECKPOINT).is_file(), report)


def of_seeds(folders: list[Path]) -> dict[str, Any]:
    """What the runs of one kind have in common: means over the seeds, and right (seeds, photos)."""
    answers = [json.loads((folder / ANSWERS).read_text()) for folder in folders]
    results = [json.loads((folder / RESULT).read_text()) for folder in folders]
    counts = [line["tokens"] for folder in folders for line in read_log(folder / LOG)]
    return {
        "right": torch.tensor([one["right"] for one in answers]).double(),
        "minutes": sum(one["minutes"] for one in answers),
        "tokens": sum(counts) / len(counts),
        "last_loss": sum(one["last_loss"] for one in results) / len(results),
    }


def standard_error(values: torch.Tensor) -> float:
    """Of the mean of values (seeds, photos): that of the photos, means of seeds, and that of the seeds, added as variances."""
    seeds, photos = values.shape
    own = values.mean(dim=0).var() / photos
    between = values.mean(dim=1).var() / seeds if seeds > 1 else torch.zeros(())
    return math.sqrt(own + between)


def row_of(name: str, kind: Kind, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The row of a kind; its difference from patches is paired by photo and seed."""
    own = found[name]
    right = own["right"]
    row = {"kind": name, **{key: own[key] for key in ("tokens", "last_loss", "minutes")}, "runs": len(right)}
    row |= {"top1": right.mean().item(), "error": standard_error(right)}
    row["each"] = ", ".join(f"{one:.3f}" for one in right.mean(dim=1).tolist())
    if kind.beside in found:
        other = found[kind.beside]["right"]
        both = min(len(right), len(other))  # seeds that both have, while runs are still going on
        difference = right[:both] - other[:both]
        row |= {"lead": difference.mean().item(), "lead_error": standard_error(difference)}
    return row


def record_of(name: str, experiment: Experiment, runs: Path) -> dict[str, Any]:
    """The record of the runs that are there."""
    folders = {kind: [folder_of(runs, name, kind, seed) for seed in experiment.seeds] for kind in experiment.kinds}
    folders = {kind: [one for one in them if (one / RESULT).is_file()] for kind, them in folders.items()}
    done = {kind: of_seeds(them) for kind, them in folders.items() if them}
    total = sum(one["minutes"] for one in done.values())
    command = f"python benchmarks/with_labels.py {name} --data $PIXTREE_DATA --runs RUNS"
    seeds = ", ".join(str(seed) for seed in experiment.seeds[: max(map(len, folders.values()))])
    settings = ", ".join((f"recipe {experiment.recipe}", *experiment.shared))
    return {
        "benchmark": "table",
        "title": experiment.title,
        **provenance(command, ("pixtree", "torch", "timm", "accelerate")),
        "cpu_minutes": round(total, 1),
        "columns": COLUMNS,
        "rows": [row_of(kind, experiment.kinds[kind], done) for kind in done],
        "notes": [
            f"{experiment.note} All have the same pictures in the same order, augmentation, optimiser and number of steps "
            f"({settings}; seeds {seeds}). Nothing was tuned on the 380 held-out photos.",
            "Differences are paired by photo and seed; their standard errors count the spread of photos and, with several seeds, "
            f"that of the seeds. Below two standard errors they are called a tie. All runs took {total:.0f} minutes of one core, "
            "counting the last part alone of those that went on after an interruption.",
        ],
        "curves": {folder.name: curve_of(folder) for kind in done for folder in folders[kind]},
    }


def folder_of(runs: Path, name: str, kind: str, seed: int) -> Path:
    """Where a run keeps its checkpoint, its log and its result."""
    return runs / name / f"{kind.replace(' ', '_').replace(',', '')}_{seed}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    experiment, output = EXPERIMENTS[chosen.experiment], chosen.output or RESULTS / f"{chosen.experiment}.json"
    for seed in experiment.seeds:
        for name, kind in experiment.kinds.items():
            folder = folder_of(chosen.runs, chosen.experiment, name, seed)
            if not (folder / RESULT).is_file():
                run(ready(experiment, kind, seed, chosen.data, chosen.workers), folder, chosen.data)
            write_record(record_of(chosen.experiment, experiment, chosen.runs), output)


if __name__ == "__main__":
    main()
