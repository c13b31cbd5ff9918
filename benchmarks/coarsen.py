"""Accuracy of coarsened models without training, beside other ways to merge tokens and a smaller input.

`python benchmarks/coarsen.py choose --images FOLDER --weights FOLDER -o SCHEDULES` picks every rule's schedule without labels;
`python benchmarks/coarsen.py report --images FOLDER --weights FOLDER --schedules SCHEDULES -o FILE` measures them on other photos.
The folder of images holds images/ and labels.csv (filename, class); that of weights <model>.fp16.safetensors with timm's key names.
"""

import argparse
import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from retrofit import dataset, logits, normalised, patch_model
from torch import Tensor, nn

import pixtree
from pixtree.models.coarsening import ConstantNumber, ConstantShare, DecreasingNumber, EarlyShare, EverySecond, best_schedule
from pixtree.models.coarsening.schedules import total_flops
from pixtree.models.entry import stem_flops

MODELS = ("deit_tiny_patch16_224", "vit_tiny_patch16_224")
COMPUTES = (0.7, 0.5, 0.3)
RULES = ("tree", "tree-default", "tree-small", "tome", "tome-small", "atc", "pitome", "mctf", "atm", "random")
SIZES = {0.3: (176, 160)}  # of the rules that end in -small; with more compute, smaller inputs lose
NAMES = {
    "tree": "pixtree: token trees",
    "tree-default": "pixtree, default schedule",
    "tree-small": "pixtree, on a smaller input",
    "tome": "ToMe",
    "tome-small": "ToMe, on a smaller input",
    "atc": "ATC (agglomerative clustering)",
    "pitome": "PiToMe",
    "mctf": "MCTF",
    "atm": "ATM's matching",
    "random": "random pairs",
    "smaller": "smaller input",
}
SHAPES = (
    *(ConstantShare(first) for first in (0, 1, 2, 3)),
    *(EarlyShare(first) for first in (1, 2, 3)),
    EverySecond(2),
    ConstantNumber(0),
    DecreasingNumber(0),
)
KEPT = 0.978  # of the untouched model's top-1 at half the compute
BATCH = 50
CHOICE_COLUMNS = [
    ["rule", "Merging", ""],
    ["compute", "Compute", ".1f"],
    ["shape", "Schedule", ""],
    *([model, f"KL, {model.split('_')[0]}", ".4f"] for model in MODELS),
    ["mean", "mean", ".4f"],
    ["chosen", "Chosen", ""],
]
COLUMNS = [
    ["model", "Model", ""],
    ["compute", "Compute", ".3f"],
    ["method", "Method", ""],
    ["top1", "Top-1", ".3f"],
    ["kept", "Share of untouched top-1", ".3f"],
    ["agreement", "Same answer as untouched", ".3f"],
    ["divergence", "KL from untouched, nats", ".3f"],
    ["lead", "pixtree ahead by", ".3f"],
    ["error", "standard error", ".4f"],
    ["leads", "in standard errors", ".1f"],
    ["schedule", "Tokens after each block", ""],
]


def choose(options: argparse.Namespace) -> dict:
    """The divergence of every rule with every shape of schedule, on photos whose labels are not used."""
    images, _ = dataset(options.images[0], None, options.every)
    found: dict[tuple, dict] = {}
    for name in options.models:
        model = patch_model(name, options.weights)
        batches = normalised(images, model).split(BATCH)
        for compute in options.computes:
            for rule in options.rules:
                if rule == "tree-default":  # nothing to choose
                    continue
                for size in SIZES.get(compute, ()) if rule.endswith("-small") else (None,):
                    kind = rule.partition("-")[0]
                    for one in best_schedule(model, batches, compute, rule=kind, shapes=SHAPES, input_size=size):
                        shape = str(one.shape) if size is None else f"{one.shape} at {size} px"
                        row = found.setdefault((rule, compute, shape), {"rule": rule, "compute": compute, "shape": shape})
                        row[name] = one.divergence
                        print(name, rule, compute, shape, f"{one.divergence:.4f}", flush=True)
    return record_of_choice(list(found.values()), len(images), options)


def record_of_choice(rows: list[dict], photos: int, options: argparse.Namespace) -> dict:
    for row in rows:
        row["mean"] = sum(row.get(name, math.inf) for name in MODELS) / len(MODELS)
    best = {}
    for row in rows:
        key = row["rule"], row["compute"]
        best[key] = min(best.get(key, row), row, key=lambda one: one["mean"])
    rows = [{**row, "chosen": "yes" if row is best[row["rule"], row["compute"]] else ""} for row in rows]
    order = {rule: number for number, rule in enumerate(RULES)}
    command = f"python benchmarks/coarsen.py choose --images $PIXTREE_DATA/{options.images[0].name} --every {options.every} "
    return {
        "benchmark": "table",
        "title": "Schedules of token merging, chosen on photos without labels",
        **provenance(command + "--weights $PIXTREE_DATA/weights", (*PACKAGES, "timm")),
        "columns": CHOICE_COLUMNS,
        "rows": sorted(rows, key=lambda row: (order[row["rule"]], -row["compute"], row["mean"])),
        "notes": [
            f"{photos} photos of {options.images[0].name}; KL in nats from the untouched model's classes, the least mean is chosen."
        ],
    }


def merge_choices(options: argparse.Namespace) -> dict:
    """One record from those of single models, which can run side by side."""
    found: dict[tuple, dict] = {}
    for path in options.parts:
        for row in json.loads(path.read_text())["rows"]:
            key = row["rule"], row["compute"], row["shape"]
            found.setdefault(key, {"rule": key[0], "compute": key[1], "shape": key[2]})
            found[key] |= {name: row[name] for name in MODELS if name in row}
    return record_of_choice(list(found.values()), len(range(0, 1000, options.every)), options)


def shape_of(text: str) -> tuple[Callable, int | None]:
    """A shape and an input size from their names, such as ConstantShare(first=2) at 160 px."""
    name, _, size = text.partition(" at ")
    shape = next(shape for shape in SHAPES if str(shape) == name)
    return shape, int(size.removesuffix(" px")) if size else None


def smaller(model: nn.Module, compute: float) -> tuple[nn.Module, int, float]:
    """The untouched model at the image size whose compute is nearest: model, size, compute."""
    depth, own = len(model.blocks), model.patch_embed.num_patches
    cost = {
        side: total_flops(model, stem_flops(model), side**2, (side**2,) * depth)
        / total_flops(model, stem_flops(model), own, (own,) * depth)
        for side in range(4, 14)
    }
    side = min(cost, key=lambda one: abs(cost[one] - compute))
    small = deepcopy(model)
    small.set_input_size(img_size=(16 * side, 16 * side))
    return small, 16 * side, cost[side]


def cached(options: argparse.Namespace, name: str, answers: Callable[[], Tensor]) -> Tensor:
    """Logits (N, 1000), from the folder of earlier answers if they are there."""
    if options.cache is None:
        return answers()
    path = options.cache / f"{name}.npy"
    if not path.exists():
        options.cache.mkdir(parents=True, exist_ok=True)
        np.save(path, answers().numpy())
    return torch.from_numpy(np.load(path))


def measures(found: Tensor, untouched: Tensor, classes: Tensor, ours: Tensor) -> dict:
    """Accuracy, nearness to the untouched model, and our lead with the standard error of the paired difference."""
    right = found.argmax(1) == classes
    logs, reference = found.double().log_softmax(1), untouched.double().log_softmax(1)
    paired = (ours.argmax(1) == classes).double() - right.double()
    lead, error = paired.mean().item(), (paired.std() / math.sqrt(len(paired))).item()
    return {
        "top1": right.double().mean().item(),
        "kept": (right.double().mean() / (untouched.argmax(1) == classes).double().mean()).item(),
        "agreement": (found.argmax(1) == untouched.argmax(1)).double().mean().item(),
        "divergence": (reference.exp() * (reference - logs)).sum(1).mean().item(),
        "lead": lead if found is not ours else None,
        "error": error if found is not ours else None,
        "leads": lead / error if found is not ours and error > 0 else None,
    }


def rows_of(name: str, images: Tensor, classes: Tensor, chosen: dict, options: argparse.Namespace) -> list[dict]:
    model = patch_model(name, options.weights)
    pixels = normalised(images, model)
    untouched = cached(options, f"{name}-untouched", lambda: logits(model, pixels))
    rows = [{"model": name, "compute": 1.0, "method": "untouched", **measures(untouched, untouched, classes, untouched)}]
    for compute in options.computes:
        answers, facts = {}, {}
        for rule in options.rules:
            if rule.endswith("-small") and compute not in SIZES:
                continue
            shape, size = None, None
            if rule != "tree-default":
                shape, size = shape_of(chosen.get((rule, compute), chosen["tree", compute]))
            coarse = pixtree.coarsen(model, compute, schedule=shape, rule=rule.partition("-")[0], input_size=size)
            key = f"{name}-{rule}-{compute}-{shape}-{size}"
            answers[rule] = cached(options, key, lambda coarse=coarse: logits(coarse, pixels))
            counts = " ".join(str(count) for count in coarse.counts) + (f" ({size} px)" if size else "")
            facts[rule] = {"compute": coarse.compute, "schedule": counts}
        small, size, share = smaller(model, compute)
        shrunk = nn.functional.interpolate(pixels, (size, size), mode="bicubic", antialias=True)
        answers["smaller"] = cached(options, f"{name}-smaller-{size}", lambda small=small, shrunk=shrunk: logits(small, shrunk))
        facts["smaller"] = {"compute": share, "schedule": f"{(size // 16) ** 2} throughout ({size} px)"}
        ours = answers.get("tree-small", answers["tree"])  # what we recommend at this compute
        for rule, found in answers.items():
            rows.append({"model": name, "method": NAMES[rule], **facts[rule], **measures(found, untouched, classes, ours)})
            print(rows[-1], flush=True)
    return rows


def report(options: argparse.Namespace) -> dict:
    """Every rule at its chosen schedule."""
    parts = [dataset(folder, options.limit) for folder in options.images]
    images, classes = (torch.cat(column) for column in zip(*parts, strict=True))
    schedules = json.loads(options.schedules.read_text())
    chosen = {(row["rule"], row["compute"]): row["shape"] for row in schedules["rows"] if row["chosen"]}
    rows = [row for name in options.models for row in rows_of(name, images, classes, chosen, options)]
    folders = " ".join(f"$PIXTREE_DATA/{folder.name}" for folder in options.images)
    names = " and ".join(f"{len(part[0])} photos of {folder.name}" for part, folder in zip(parts, options.images, strict=True))
    command = f"python benchmarks/coarsen.py report --images {folders} --weights $PIXTREE_DATA/weights "
    if tuple(options.computes) != COMPUTES:
        command += f"--computes {' '.join(map(str, options.computes))} --rules {' '.join(options.rules)} "
    return {
        "benchmark": "table",
        "title": f"Token trees between the blocks, without any training, on {len(images):,} photos",
        **provenance(command + f"--schedules benchmarks/results/{options.schedules.name}", (*PACKAGES, "timm")),
        "columns": COLUMNS,
        "rows": rows,
        "notes": [
            f"{names}, resize 248 bicubic, centre crop 224; weights stored in float16, "
            "arithmetic in float32. Compute counts the operations of all matrix products, those that decide what merges included, "
            "against the untouched model. Standard errors are those of the paired differences in top-1 to pixtree.",
            "All rules run at the same place of a block, average rows by size and bias keys by the logarithm of the size. Each has "
            f"the schedule, of {len(SHAPES)}, that changed the models' answers least on photos of imagenet_sample; random pairs "
            "have ours. In the last block all compute the class token only.",
            *([options.note] if options.note else []),
        ],
        "bars": bars(rows),
    }


def bars(rows: list[dict]) -> list[dict]:
    """What the library promises, and what was found."""
    found = []
    for name in dict.fromkeys(row["model"] for row in rows):
        for compute in (0.5, 0.3):
            near = [row for row in rows if row["model"] == name and abs(row["compute"] - compute) < 0.03]
            if not near:  # that compute was not asked for
                continue
            ours = next(row for row in near if row["lead"] is None)
            if compute == 0.5:
                bar = {"what": f"{name}, half the compute: share of top-1", "wanted": f"≥ {KEPT}", "found": ours["kept"]}
                found.append({**bar, "met": "yes" if ours["kept"] >= KEPT else "no"})
            others = [row for row in near if row["leads"] is not None and not row["method"].startswith("pixtree")]
            least = min((row["leads"], row["method"]) for row in others)
            bar = {
                "what": f"{name}, {compute}: standard errors ahead of {least[1]}, the nearest",
                "wanted": "> 2",
                "found": least[0],
            }
            found.append({**bar, "met": "yes" if least[0] > 2 else "no"})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("choose", "merge", "report"))
    parser.add_argument("--images", nargs="+", type=Path, required=True, help="one folder, or several to report on together")
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--rules", nargs="+", default=RULES)
    parser.add_argument("--computes", nargs="+", type=float, default=COMPUTES)
    parser.add_argument("--schedules", type=Path, default=Path("benchmarks/results/coarsen_schedules.json"))
    parser.add_argument("--parts", nargs="+", type=Path, help="records to merge")
    parser.add_argument("--every", type=int, default=4, help="every so manieth photo when choosing")
    parser.add_argument("--limit", type=int, help="photos to report on")
    parser.add_argument("--note", help="what a reader should know about these photos")
    parser.add_argument("--cache", type=Path, help="folder for answers, which a later run takes up")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    record = {"choose": choose, "merge": merge_choices, "report": report}[options.task](options)
    write_record(record, options.output)


if __name__ == "__main__":
    main()
