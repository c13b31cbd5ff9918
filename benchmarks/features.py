"""Features of a pretrained model by neighbours and by a linear probe, for several kinds and counts of tokens.

    python benchmarks/features.py --data $PIXTREE_DATA --runs RUNS -o benchmarks/results/knn.json

The pretrained DeiT-Tiny sees imagenette224 (787 photos to learn from, 380 to test) with patches, smaller inputs, regions, the
paper's preset, other partitions of the engine, token trees and ToMe; its weights stay as they are. What a variant says of every
photo is kept in the folder of runs, and a variant that is there is not measured again.
"""

import argparse
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from evidence.records import PACKAGES, provenance, write_record
from torch import Tensor

from pixtree.evaluation.classification import best_count, features, logits_and_count, neighbour_classes, outputs_of, probe_classes
from pixtree.evaluation.classified_images import TEST, TRAIN, ClassifiedImages, classified_images
from pixtree.evaluation.variants import Variant, cost_of, variant_of
from pixtree.files import write_json
from pixtree.models.retrofit import retrofit
from pixtree.models.zoo import named_model
from pixtree.tokenizer.tokenizer import PAPER_BUDGET, paper_changes

MODEL = "deit_tiny_patch16_224"
COUNTED = 50  # test photos whose tokens are counted, where a criterion chooses how many there are
PATCHES, SMALLER, SMALL, SMALLEST = "196 patches", "100 patches (160 px)", "64 patches (128 px)", "49 patches (112 px)"
HALF, THIRD = "token trees, half the compute", "token trees, 0.3 of it"
# How a variant is made, and the variant that it is compared with: patches of the same number, or our merging at the same compute.
Make = Callable[[Any], Any]
VARIANTS: dict[str, tuple[Make, str | None]] = {
    PATCHES: (lambda model: model, None),
    SMALLER: (lambda model: variant_of(model, Variant(size=160)), None),
    SMALL: (lambda model: variant_of(model, Variant(size=128)), None),
    SMALLEST: (lambda model: variant_of(model, Variant(size=112)), None),
    "196 regions": (lambda model: variant_of(model, Variant(tokens=196)), PATCHES),
    "100 regions": (lambda model: variant_of(model, Variant(tokens=100)), SMALLER),
    "49 regions": (lambda model: variant_of(model, Variant(tokens=49)), SMALLEST),
    "the paper's preset": (lambda model: retrofit(model, budget=PAPER_BUDGET, tokenizer=paper_changes()), PATCHES),
    "196 quadtree cells": (lambda model: retrofit(model, tokens=196, partitioner="quadtree"), PATCHES),
    "196 SLIC superpixels": (lambda model: retrofit(model, tokens=196, partitioner="slic"), PATCHES),
    HALF: (lambda model: variant_of(model, Variant(compute=0.5)), SMALLER),
    "ToMe, half the compute": (lambda model: variant_of(model, Variant(compute=0.5, rule="tome")), SMALLER),
    THIRD: (lambda model: variant_of(model, Variant(compute=0.3)), SMALL),
    "ToMe, 0.3 of it": (lambda model: variant_of(model, Variant(compute=0.3, rule="tome")), SMALL),
}
COLUMNS = [
    ["variant", "Tokens", ""],
    ["tokens", "per picture", ".0f"],
    ["gflops", "GFLOPs", ".2f"],
    ["knn", "Neighbours, best k ↑", ".4f"],
    ["k", "of k", "d"],
    ["knn_error", "± standard error", ".4f"],
    ["probe", "Linear probe ↑", ".4f"],
    ["probe_error", "± standard error", ".4f"],
    ["beside", "Compared with", ""],
    ["knn_lead", "Neighbours ↑", "+.4f"],
    ["knn_verdict", "", ""],
    ["probe_lead", "Probe ↑", "+.4f"],
    ["probe_verdict", "", ""],
]
NOTES = [
    "787 photos of ten classes to learn from and 380 to test. The weights of DeiT-Tiny stay as they are, the same in all rows. It "
    "was pretrained with labels on ImageNet, to whose training part these photos belong, so that all accuracies are too high, and "
    "only their differences say something.",
    "Neighbours vote with exp(cosine / 0.07), and the best of k = 10, 20, 50, 100, 150, 200 is chosen on the tested photos, as in "
    "the paper. The probe's decay is chosen on a fifth of the photos to learn from.",
    "Regions are compared with patches of the same number, which for 100 and 49 are those of a smaller input; merged tokens with "
    "the smaller input of about their compute. Differences are paired by photo; below two standard errors they are called a tie.",
]


def classes_of(pictures: ClassifiedImages) -> Tensor:
    """The class of every picture, (N,)."""
    return torch.tensor([picture.classes[0] for picture in pictures.images])


def measured(model: Any, data: Path) -> dict[str, Any]:
    """Which of the tested photos a variant gets right, by neighbours for every k and by the probe; its tokens and GFLOPs."""
    before = sum(os.times()[:4])
    parts = [classified_images(data / "imagenette224", part) for part in (TRAIN, TEST)]
    learned, tested = (outputs_of([model], part, features)[0] for part in parts)
    classes, truth = (classes_of(part) for part in parts)
    near = neighbour_classes(learned, classes, tested)
    probed, decay = probe_classes(learned, classes, tested)
    return {
        "knn": {count: (found == truth).int().tolist() for count, found in near.items()},
        "probe": (probed == truth).int().tolist(),
        "decay": decay,
        **cost(model, parts[1]),
        "minutes": (sum(os.times()[:4]) - before) / 60,
    }


def cost(model: Any, pictures: ClassifiedImages) -> dict[str, float | None]:
    """Tokens and GFLOPs; of a model whose criterion chooses the tokens, their mean count over some pictures alone."""
    if getattr(getattr(model, "tokenizer", None), "budget", None) == PAPER_BUDGET:
        return {"tokens": outputs_of([model], pictures.limited(COUNTED), logits_and_count)[0][:, -1].mean().item(), "gflops": None}
    found = cost_of(model)
    return {"tokens": found.tokens, "gflops": found.gflops}


def verdict(own: Tensor, other: Tensor) -> tuple[float, str]:
    """The difference of two shares of right answers (N,), and whether it is ahead, behind or a tie."""
    each = own - other
    lead, error = each.mean().item(), (each.std() / math.sqrt(len(each))).item()
    return lead, "tie" if abs(lead) < 2 * error or lead == 0 else "ahead" if lead > 0 else "behind"


def rows_of(found: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row per variant that was measured."""
    right, rows = {}, []
    for name, one in found.items():
        shares = {int(count): sum(each) / len(each) for count, each in one["knn"].items()}
        best = best_count(shares)
        right[name] = {"knn": torch.tensor(one["knn"][str(best)]).double(), "probe": torch.tensor(one["probe"]).double()}
        row = {"variant": name, "k": best, **{key: one[key] for key in ("tokens", "gflops", "decay")}}
        row |= {f"k{count}": share for count, share in shares.items()}
        for key, each in right[name].items():
            row |= {key: each.mean().item(), f"{key}_error": (each.std() / math.sqrt(len(each))).item()}
        rows.append(row)
    for row in rows:
        beside = VARIANTS[row["variant"]][1]
        if beside in right:
            row["beside"] = beside
            for key, each in right[row["variant"]].items():
                row[f"{key}_lead"], row[f"{key}_verdict"] = verdict(each, right[beside][key])
    return rows


def record_of(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The record of the variants that were measured."""
    command = "python benchmarks/features.py --data $PIXTREE_DATA --runs RUNS -o benchmarks/results/knn.json"
    return {
        "benchmark": "table",
        "title": "Neighbours and linear probe on Imagenette, without training the model",
        **provenance(command, (*PACKAGES, "timm")),
        "cpu_minutes": round(sum(one["minutes"] for one in found.values()), 1),
        "columns": COLUMNS,
        "rows": rows_of(found),
        "notes": NOTES,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen = parser.parse_args()
    chosen.runs.mkdir(parents=True, exist_ok=True)
    model = named_model(MODEL, chosen.data / "weights" / f"{MODEL}.fp16.safetensors")
    found: dict[str, dict[str, Any]] = {}
    for name, (make, _) in VARIANTS.items():
        path = chosen.runs / f"features_{name.replace(' ', '_').replace(',', '')}.json"
        if not path.is_file():
            write_json(path, measured(make(model), chosen.data))
        found[name] = json.loads(path.read_text())
        write_record(record_of(found), chosen.output)
        print(f"{name}: {found[name]['minutes']:.1f} minutes", flush=True)


if __name__ == "__main__":
    main()
