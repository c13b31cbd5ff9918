"""Full runs of the laptop recipes, each recorded once with its curve.

    python benchmarks/recipes.py tokenizer_laptop pretrain_laptop --data $PIXTREE_DATA --runs out/recipes \
        -o benchmarks/results/recipes.json

Trains on imagenette224 (787 photos of ten classes, 380 held out), and segmentation on camvid (100 photos, 101 held out). A run that
was interrupted goes on from its checkpoint; rows of other recipes that the record has already are kept. `finetune_laptop` starts
from the run of `pretrain_laptop`, `retrofit_laptop` and `segment_laptop` from the weights of DeiT-Tiny.
"""

import argparse
import json
from pathlib import Path

from evidence.records import provenance, write_record

from pixtree.cli.progress import Steps
from pixtree.training.logs import LOG, read_log
from pixtree.training.recipe import read_recipe
from pixtree.training.running import CHECKPOINT, RESULT, prepared, trained

NAMES = ("tokenizer_laptop", "pretrain_laptop", "finetune_laptop", "retrofit_laptop", "segment_laptop")
POINTS = 50  # of a curve; each is the mean of the steps up to it
COLUMNS = [
    ["recipe", "Recipe", ""],
    ["steps", "Steps", "d"],
    ["tokens", "Tokens", ".0f"],
    ["first_loss", "Loss, first tenth", ".4f"],
    ["last_loss", "Loss, last tenth", ".4f"],
    ["top1", "Top-1, held out ↑", ".3f"],
    ["mean_iou", "mIoU, held out ↑", ".3f"],
    ["minutes", "Minutes", ".1f"],
]
NOTES = [
    "787 photos of ten classes of Imagenette, of which 380 others are held out; standard error of a top-1 near 0.5: 0.026. "
    "Chance is 0.1. The recipes were not tuned on the held-out photos. Segmentation has 11 classes of road scenes, at 224 px.",
    "Minutes are those of the steps alone, on a machine with other work on it.",
    "The record has the curve of every run: means of loss and top-1 of the batches.",
]


def start_of(name: str, data: Path, runs: Path) -> list[str]:
    """The change of a recipe that names what it starts from."""
    tiny = data / "weights" / "deit_tiny_patch16_224.fp16.safetensors"
    starts = {"finetune_laptop": runs / "pretrain_laptop", "retrofit_laptop": tiny, "segment_laptop": tiny}
    return [f"model.start={starts[name]}"] if name in starts else []


def curve_of(folder: Path) -> list[dict[str, float]]:
    """At most POINTS means over equal parts of a run."""
    lines = read_log(folder / LOG)
    size = -(-len(lines) // POINTS)
    parts = [lines[first : first + size] for first in range(0, len(lines), size)]
    keys = [key for key in ("loss", "top1") if key in lines[0]]
    return [{"step": part[-1]["step"], **{key: sum(one[key] for one in part) / len(part) for key in keys}} for part in parts]


def run(name: str, data: Path, runs: Path, workers: int) -> tuple[dict[str, float], list[dict[str, float]]]:
    """Train by one recipe, or take up what is there; the row and the curve."""
    folder = runs / name
    folder.mkdir(parents=True, exist_ok=True)
    recipe = read_recipe(name, start_of(name, data, runs))
    pictures = data / ("camvid" if name.startswith("segment") else "imagenette224")
    ready = prepared(recipe, str(pictures), workers=workers)
    if not (folder / RESULT).is_file():
        with Steps(ready.plan.steps) as report:
            trained(ready, folder, (folder / CHECKPOINT).is_file(), report)
    result = json.loads((folder / RESULT).read_text())
    tokens = read_log(folder / LOG)[-1]["tokens"]
    kept = {key: result[key] for key in ("steps", "first_loss", "last_loss", "damaged")}
    tested = {key: result.get(key) for key in ("top1", "mean_iou")}
    row = {"recipe": name, **kept, "tokens": tokens, **tested, "minutes": result["seconds"] / 60}
    return row, curve_of(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=NAMES, choices=[*NAMES, []])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    before = json.loads(chosen.output.read_text()) if chosen.output.is_file() else {"rows": [], "curves": {}}
    rows, curves = {row["recipe"]: row for row in before["rows"]}, dict(before["curves"])
    for name in chosen.recipes:
        rows[name], curves[name] = run(name, chosen.data, chosen.runs, chosen.workers)
        done = [one for one in NAMES if one in rows]
        command = f"python benchmarks/recipes.py {' '.join(done)} --data $PIXTREE_DATA --runs RUNS -o {chosen.output}"
        record = {
            "benchmark": "table",
            "title": "Laptop recipes, whole runs",
            **provenance(command, ("pixtree", "torch", "timm", "accelerate")),
            "columns": COLUMNS,
            "rows": [{"mean_iou": None, **rows[one]} for one in done],
            "notes": NOTES,
            "curves": {one: curves[one] for one in done},
        }
        write_record(record, chosen.output)


if __name__ == "__main__":
    main()
