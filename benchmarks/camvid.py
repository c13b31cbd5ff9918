"""Segmentation without a decoder on CamVid: `python benchmarks/camvid.py --data $PIXTREE_DATA --work FOLDER -o FILE`.

ViT-Tiny sees 384×512 px, 768 patches. Its tokens after block `--after` are kept in the work folder once; the rest of the blocks
and an MLP per token are trained on them: on regions of the tree, on square cells of equal count, and on all patches, with
interpolated logits. With --after 12, the default, only the MLP learns. Runs that are in the work folder are not repeated.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from retrofit import patch_model
from torch import Tensor

from pixtree.evaluation.labelled_folders import LabelledSet, labelled_set
from pixtree.evaluation.records import PACKAGES, provenance, write_record
from pixtree.evaluation.segmentation import Confusion, boundary_f
from pixtree.models.pooling import bilinear_shares
from pixtree.models.segmentation import Segmenter, TokenLogits
from pixtree.partitioners import partitioner
from pixtree.tasks.salient import colour_picture, seen_by
from pixtree.training.loop import train
from pixtree.training.order import Order, Share
from pixtree.training.plan import Plan
from pixtree.training.segmenting import Segmentation

MODEL, SIZE = "vit_tiny_patch16_224", (384, 512)
WAYS = {"regions": "pixtree", "cells": "grid", "patches": None}
SHOWN = {"regions": "regions of the tree", "cells": "square cells", "patches": "all patches, logits interpolated"}
COLUMNS = [
    ["way", "Tokens", ""],
    ["tokens", "Count", "d"],
    ["runs", "Runs", "d"],
    ["miou", "mIoU ↑", ".3f"],
    ["miou_sd", "± over runs", ".3f"],
    ["boundary_f", "Boundary F ↑", ".3f"],
    ["boundary_f_sd", "± over runs", ".3f"],
    ["accuracy", "Pixel accuracy ↑", ".3f"],
]


class Kept(NamedTuple):
    """Images of a split: rows (n, K + patches, D) after the trunk, classes (n, H, W), and for regions their maps (n, H, W) and the
    shares of patches in them."""

    rows: Tensor
    truth: Tensor
    labels: Tensor | None
    shares: Tensor | None

    def some(self, places: list[int]) -> "Kept":
        """Some of the images."""
        return Kept(*(None if values is None else values[places] for values in self))


class FromRows(Segmentation):
    """The losses from kept rows on."""

    def forward(self, batch: Kept) -> dict[str, Tensor]:
        """The weighted sum, and its parts."""
        return self.of(logits_of(self.learner, batch), batch.truth)


class KeptBatches:
    """Batches of kept images, in an order that follows from the seed."""

    def __init__(self, kept: Kept, batch: int, seed: int) -> None:
        self.kept, self.order = kept, Order(len(kept.rows), batch, seed)

    def starting(self, step: int, share: Share) -> Iterator[list[Kept]]:
        """The batches from a step on."""
        while True:
            yield [self.kept.some([sample.place for sample in self.order.samples(step, share)])]
            step += 1


def logits_of(segmenter: Segmenter, batch: Kept) -> TokenLogits:
    """Logits of the tokens; patches are cells of the picture at its own size."""
    found = segmenter.from_rows(batch.rows, SIZE, batch.labels, batch.shares)
    if found.grid is None:
        return found
    height, width = batch.truth.shape[1:]
    down, across = ((torch.arange(length) * side) // length for length, side in zip((height, width), found.grid, strict=True))
    cells = (down[:, None] * found.grid[1] + across).to(torch.int32)
    return found._replace(labels=cells.expand(len(batch.truth), -1, -1))


def kept_rows(data: LabelledSet, segmenter: Segmenter, file: Path) -> Tensor:
    """The trunk's rows of a split, from the file if they are there."""
    if not file.is_file():
        rows = []
        with torch.inference_mode():
            for image in data.images:
                rows.append(segmenter.trunk(seen_by(segmenter.model, colour_picture(image.pixels()), SIZE))[0].half())
        torch.save(torch.stack(rows), file)
    return torch.load(file, weights_only=True).float()


def regions(data: LabelledSet, name: str | None, tokens: int, file: Path) -> Tensor | None:
    """The regions of a split, from the file if they are there."""
    if name is None:
        return None
    if not file.is_file():
        engine = partitioner(name, tokens)
        torch.save(torch.cat([engine(colour_picture(image.pixels())[None]).labels for image in data.images]), file)
    return torch.load(file, weights_only=True)


@torch.inference_mode()
def measures(segmenter: Segmenter, kept: Kept, classes: int) -> dict:
    total, boundaries = Confusion(np.zeros((classes, classes), np.int64)), []
    for place in range(len(kept.rows)):
        one = kept.some([place])
        found = logits_of(segmenter, one)
        predicted, truth = found.painted(found.logits)[0].argmax(dim=0).numpy(), one.truth[0].numpy()
        total += Confusion.of(predicted, truth, classes)
        boundaries.append(boundary_f(predicted, truth))
    return {"miou": total.mean_iou, "boundary_f": float(np.mean(boundaries)), "accuracy": total.accuracy}


def run(asked: argparse.Namespace, way: str, seed: int, sets: dict[str, LabelledSet]) -> dict:
    torch.manual_seed(seed)
    classes = len(sets["train"].classes)
    model = patch_model(MODEL, asked.data / "weights")
    segmenter = Segmenter(model, classes, partitioner=None, after=asked.after)
    segmenter.freeze()
    kept = {}
    for split, data in sets.items():
        rows = kept_rows(data, segmenter.eval(), asked.work / f"rows_{asked.after}_{split}_{len(data)}.pt")
        labels = regions(data, WAYS[way], asked.tokens, asked.work / f"{way}_{asked.tokens}_{split}_{len(data)}.pt")
        grid = (SIZE[0] // 16, SIZE[1] // 16)
        shares = None if labels is None else torch.cat([bilinear_shares(one[None], grid, int(labels.max()) + 1) for one in labels])
        kept[split] = Kept(rows, torch.stack([torch.from_numpy(image.labels()) for image in data.images]), labels, shares)
    batches = KeptBatches(kept["train"], asked.batch, seed)
    steps = batches.order.steps(asked.epochs)
    plan = Plan(steps=steps, rate=asked.rate, warmup=max(1, steps // 20), decay=0.05, seed=seed)
    done = train(FromRows(segmenter.train()), batches, plan)
    found = measures(segmenter.eval(), kept["val"], classes)
    size = max(1, steps // 20)
    curve = [float(np.mean(done.losses[start : start + size])) for start in range(0, steps, size)]
    count = 768 if kept["val"].labels is None else int(kept["val"].labels[0].max()) + 1
    return {"way": way, "seed": seed, "tokens": count, **found, "curve": curve}


def summary(runs: list[dict]) -> list[dict]:
    rows = []
    for way in WAYS:
        own = [one for one in runs if one["way"] == way]
        if own:
            means = {key: float(np.mean([one[key] for one in own])) for key in ("miou", "boundary_f", "accuracy")}
            spread = {
                f"{key}_sd": float(np.std([one[key] for one in own], ddof=min(1, len(own) - 1))) for key in ("miou", "boundary_f")
            }
            rows.append({"way": SHOWN[way], "tokens": own[0]["tokens"], "runs": len(own), **means, **spread})
    return rows


def record(runs: list[dict], asked: argparse.Namespace) -> dict:
    rows = summary(runs)
    found = {row["way"]: row for row in rows}
    ours, cells, patches = (found.get(name) for name in SHOWN.values())
    bars = []
    if ours and cells and patches:
        for what, gain in (
            ("mIoU of regions over as many square cells", ours["miou"] - cells["miou"]),
            ("boundary F of regions over as many square cells", ours["boundary_f"] - cells["boundary_f"]),
            ("boundary F of regions over all patches", ours["boundary_f"] - patches["boundary_f"]),
        ):
            bars.append({"what": what, "wanted": "> 0", "found": gain, "met": gain > 0})
    learned = "the MLP alone" if asked.after == 12 else f"the blocks after block {asked.after} and the MLP"
    return {
        "benchmark": "table",
        "title": "Segmentation without a decoder on CamVid",
        **provenance(
            f"python benchmarks/camvid.py --data $PIXTREE_DATA --work FOLDER --after {asked.after} --epochs {asked.epochs} "
            f"--tokens {asked.tokens} --seeds {' '.join(map(str, asked.seeds))}",
            [*PACKAGES, "timm", "accelerate"],
        ),
        "columns": COLUMNS,
        "rows": rows,
        "notes": [
            f"ViT-Tiny sees 384×512 px; {learned} learned, for {asked.epochs} epochs of 100 training images in batches of "
            f"{asked.batch}, with one schedule for all three ways. Everything before is frozen. Figures are those of the 101 "
            "validation images at 360×480 px; no setting was chosen on them.",
            "Regions and cells average the patches' features over their pixels, so the three ways share one backbone. The runs "
            "differ in the random seed of the new layers and of the order of images.",
        ],
        "runs": runs,
        "bars": bars,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--after", type=int, default=12)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--epochs", type=float, default=15)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--limit", type=int)
    parser.add_argument("-o", "--output", type=Path, required=True)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True, exist_ok=True)
    sets = {split: labelled_set(asked.data / "camvid", "camvid", split, asked.limit) for split in ("train", "val")}
    runs: list[dict] = []
    for seed in asked.seeds:
        for way in WAYS:
            file = asked.work / f"run_{asked.after}_{asked.tokens}_{asked.epochs}_{asked.limit}_{way}_{seed}.json"
            if not file.is_file():
                file.write_text(json.dumps(run(asked, way, seed, sets)))
            runs.append(json.loads(file.read_text()))
            print({key: value for key, value in runs[-1].items() if key != "curve"}, flush=True)
            write_record(record(runs, asked), asked.output)


if __name__ == "__main__":
    main()
