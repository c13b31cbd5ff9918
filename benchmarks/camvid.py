"""Segmentation without a decoder on CamVid: `python benchmarks/camvid.py --data $PIXTREE_DATA --work FOLDER -o FILE`.

ViT-Tiny sees 384×512 px, 768 patches. Its first blocks are frozen, so their rows are computed once, for a few random crops of every
training image, and kept in the work folder. The blocks after `--after` and an MLP per token are trained on them: on regions of the
tree, on as many square cells, on all patches and, with an image of half the size, on as few patches as there are regions. Runs that
are in the work folder are not repeated. `--choose` holds a third of the training images out instead of using the validation images.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from evidence.segmentations import Row, class_rows, plot_segmenters
from PIL import Image
from retrofit import patch_model
from torch import Tensor
from torch.nn import functional

from pixtree.evaluation.label_maps import LabelledSet, labelled_set
from pixtree.evaluation.segmentation_measures import Confusion, boundary_f
from pixtree.files import replacing
from pixtree.models.patch_grids import bilinear_shares
from pixtree.models.segmentation import Segmenter, TokenLogits
from pixtree.partitioners import Baseline, partitioner
from pixtree.tasks.salient import colour_image, seen_by
from pixtree.training.batches import SampleOrder, Share
from pixtree.training.loop import train
from pixtree.training.schedule import Plan
from pixtree.training.segmenting import LabelledBatches, Segmentation

MODEL, SIZE, SMALL = "vit_tiny_patch16_224", (384, 512), (192, 256)
CURVE = 4  # validation points per run


class Way(NamedTuple):
    """How tokens are made: the name of a partitioner or None for the patches themselves, and the size that the model sees."""

    shown: str
    engine: str | None
    size: tuple[int, int] = SIZE


WAYS = {
    "regions": Way("regions of the tree", "pixtree"),
    "cells": Way("square cells", "grid"),
    "small": Way("patches of an image of half the size, logits interpolated", None, SMALL),
    "patches": Way("all patches, logits interpolated", None),
}
PICTURED = {"cells": "192 square cells", "patches": "768 patches, logits interpolated", "regions": "192 regions"}
PHOTOS = ("cowbike", "bench", "cityhydrant")
CHOICE = (
    "On the held-out third, with four crops and twelve epochs, regions had a mIoU of .478 at a rate of 1e-3, .481 with three times "
    "the rate for the blocks, and .484 at a rate of 3e-3. That two blocks learn, and for how long, was set by the time at hand."
)
COLUMNS = [
    ["way", "Tokens", ""],
    ["tokens", "Count", "d"],
    ["runs", "Runs", "d"],
    ["miou", "mIoU ↑", ".3f"],
    ["miou_se", "± standard error", ".3f"],
    ["boundary_f", "Boundary F ↑", ".3f"],
    ["boundary_f_se", "± standard error", ".3f"],
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
        """Some of the images, in single precision."""
        found = Kept(*(None if values is None else values[places] for values in self))
        return found._replace(rows=found.rows.float(), truth=found.truth.to(torch.int64))


class FromRows(Segmentation):
    """The losses from kept rows on."""

    def __init__(self, segmenter: Segmenter, size: tuple[int, int]) -> None:
        super().__init__(segmenter)
        self.size = size

    def forward(self, batch: Kept) -> dict[str, Tensor]:
        """The weighted sum, and its parts."""
        return self.of(logits_of(self.learner, batch, self.size), batch.truth)


class KeptBatches:
    """Batches of kept crops; an epoch shows one crop of every image, in an order that follows from the seed."""

    def __init__(self, kept: Kept, views: int, batch: int, seed: int) -> None:
        self.kept, self.views, self.images = kept, views, len(kept.rows) // views
        self.order = SampleOrder(self.images, batch, seed)

    def starting(self, step: int, share: Share) -> Iterator[list[Kept]]:
        """The batches from a step on."""
        while True:
            samples = self.order.samples(step, share)
            yield [self.kept.some([(sample.epoch % self.views) * self.images + sample.place for sample in samples])]
            step += 1


def logits_of(segmenter: Segmenter, batch: Kept, size: tuple[int, int]) -> TokenLogits:
    """Logits of the tokens; patches are cells of the picture at its own size."""
    found = segmenter.from_tokens(batch.rows, size, batch.labels, batch.shares)
    if found.grid is None:
        return found
    height, width = batch.truth.shape[1:]
    down, across = ((torch.arange(length) * side) // length for length, side in zip((height, width), found.grid, strict=True))
    cells = (down[:, None] * found.grid[1] + across).to(torch.int32)
    return found._replace(labels=cells.expand(len(batch.truth), -1, -1))


def kept_images(data: LabelledSet, views: int, segmenter: Segmenter, file: Path) -> dict[str, Tensor]:
    """Pictures (n, 3, H, W) uint8 and classes (n, H, W) of a split, from the file if they are there.

    Without views, the images as they are; otherwise so many random crops and flips of each, one epoch after the other.
    """
    if not file.is_file():
        if views:
            config = segmenter.model.pretrained_cfg
            count, (mean, std) = len(data), (torch.tensor(config[key]) for key in ("mean", "std"))
            crops = LabelledBatches(data.images, SIZE, mean.tolist(), std.tolist(), batch=count, micro_batch=1)
            taken = [next(crops.starting(view, Share())) for view in range(views)]
            found = [(one.images[0] * std.view(3, 1, 1) + mean.view(3, 1, 1), one.truth[0]) for batch in taken for one in batch]
            pictures = torch.stack([(image * 255).round().clamp(0, 255).to(torch.uint8) for image, _ in found])
            truth = torch.stack([labels.to(torch.uint8) for _, labels in found])
        else:
            pictures = torch.stack([colour_image(image.pixels()) for image in data.images])
            truth = torch.stack([torch.from_numpy(image.labels()).to(torch.uint8) for image in data.images])
        torch.save({"pictures": pictures, "truth": truth}, file)
    loaded: dict[str, Tensor] = torch.load(file, weights_only=True)
    return loaded


@torch.inference_mode()
def kept_rows(pictures: Tensor, segmenter: Segmenter, size: tuple[int, int], file: Path) -> Tensor:
    """The trunk's rows of pictures in half precision, from the file if they are there."""
    if not file.is_file():
        torch.save(torch.stack([segmenter.trunk(seen_by(segmenter.model, one, size))[0].half() for one in pictures]), file)
    return torch.load(file, weights_only=True)


def engine_of(name: str, tokens: int) -> Baseline:
    """A partitioner as it is used here: the tree with relaxed boundaries."""
    return partitioner(name, tokens, **({"relax": True} if name == "pixtree" else {}))


def regions(pictures: Tensor, engine: str, tokens: int, file: Path) -> tuple[Tensor, Tensor]:
    """The regions of pictures (n, H, W), and the shares of patches in them, from the file if they are there."""
    if not file.is_file():
        grid = (SIZE[0] // 16, SIZE[1] // 16)
        labels = torch.cat([engine_of(engine, tokens)(one[None]).labels.to(torch.int16) for one in pictures])
        count = int(labels.max()) + 1
        shares = torch.cat([bilinear_shares(one[None], grid, count).half() for one in labels])
        torch.save({"labels": labels, "shares": shares}, file)
    loaded = torch.load(file, weights_only=True)
    return loaded["labels"], loaded["shares"]


def kept(asked: argparse.Namespace, way: Way, segmenter: Segmenter, data: LabelledSet, views: int) -> Kept:
    """What the training or the test of one way reads."""
    stem = f"{data.split}_{len(data)}_{views}"
    images = kept_images(data, views, segmenter, asked.work / f"images_{stem}.pt")
    rows = kept_rows(images["pictures"], segmenter, way.size, asked.work / f"rows_{asked.after}_{way.size[0]}_{stem}.pt")
    if way.engine is None:
        return Kept(rows, images["truth"], None, None)
    return Kept(
        rows,
        images["truth"],
        *regions(images["pictures"], way.engine, asked.tokens, asked.work / f"{way.engine}_{asked.tokens}_{stem}.pt"),
    )


@torch.inference_mode()
def measures(segmenter: Segmenter, tested: Kept, size: tuple[int, int], classes: int, every: int = 1) -> dict[str, float]:
    """mIoU, pixel accuracy and, if every image is asked for, the boundary F."""
    total, boundaries = Confusion(np.zeros((classes, classes), np.int64)), []
    for place in range(0, len(tested.rows), every):
        one = tested.some([place])
        found = logits_of(segmenter, one, size)
        predicted, truth = found.painted(found.logits)[0].argmax(dim=0).numpy(), one.truth[0].numpy()
        total += Confusion.of(predicted, truth, classes)
        if every == 1:
            boundaries.append(boundary_f(predicted, truth))
    found = {"miou": total.mean_iou, "accuracy": total.accuracy}
    return {**found, "boundary_f": float(np.mean(boundaries))} if boundaries else found


def run(asked: argparse.Namespace, name: str, seed: int, sets: dict[str, LabelledSet], weights: Path) -> dict:
    way, classes = WAYS[name], len(sets["train"].classes)
    model = patch_model(MODEL, asked.data / "weights")
    torch.manual_seed(seed)
    segmenter = Segmenter(model, classes, partitioner=None, after=asked.after)
    segmenter.freeze()
    data = {part: kept(asked, way, segmenter.eval(), some, asked.views if part == "train" else 0) for part, some in sets.items()}
    batches = KeptBatches(data["train"], asked.views, asked.batch, seed)
    steps = batches.order.steps(asked.epochs)
    scales = {"model": asked.backbone_rate}
    plan = Plan(steps=steps, rate=asked.rate, warmup_steps=max(1, steps // 20), weight_decay=0.05, seed=seed, rate_scales=scales)
    tested: list[tuple[int, float]] = []

    def test(step: int, figures: dict[str, float]) -> None:
        if (step + 1) * CURVE // steps > step * CURVE // steps:
            segmenter.eval()
            tested.append((step + 1, measures(segmenter, data["val"], way.size, classes, every=4)["miou"]))
            segmenter.train()

    done = train(FromRows(segmenter.train(), way.size), batches, plan, report=test)
    found = measures(segmenter.eval(), data["val"], way.size, classes)
    learned = {key for key, parameter in segmenter.named_parameters() if parameter.requires_grad}
    torch.save({key: value for key, value in segmenter.state_dict().items() if key in learned}, weights)
    width = max(1, steps // 20)
    losses = [float(np.mean(done.losses[start : start + width])) for start in range(0, steps - width + 1, width)]
    count = data["val"].rows.shape[1] - 1 if data["val"].labels is None else int(data["val"].labels[0].max()) + 1
    return {"way": name, "seed": seed, "tokens": count, **found, "losses": losses, "steps": steps, "tested": tested}


def summary(runs: list[dict]) -> list[dict]:
    """One row per way: means over the seeds, and their standard errors."""
    rows = []
    for name, way in WAYS.items():
        own = [one for one in runs if one["way"] == name]
        if own:
            row = {"way": way.shown, "tokens": own[0]["tokens"], "runs": len(own)}
            for key in ("miou", "boundary_f", "accuracy"):
                values = [one[key] for one in own]
                row |= {
                    key: float(np.mean(values)),
                    f"{key}_se": float(np.std(values, ddof=min(1, len(own) - 1)) / len(own) ** 0.5),
                }
            rows.append(row)
    return rows


def bars(runs: list[dict]) -> list[dict]:
    """The regions' lead, seed by seed, over square tokens."""
    found = []
    for other, key, words in (
        ("cells", "miou", "mIoU of regions over as many square cells"),
        ("small", "miou", "mIoU of regions over as many patches of a smaller image"),
        ("cells", "boundary_f", "boundary F of regions over as many square cells"),
        ("small", "boundary_f", "boundary F of regions over as many patches of a smaller image"),
        ("patches", "boundary_f", "boundary F of regions over all patches"),
    ):
        by = {name: {one["seed"]: one[key] for one in runs if one["way"] == name} for name in ("regions", other)}
        gains = [value - by[other][seed] for seed, value in by["regions"].items() if seed in by[other]]
        if gains:
            gain = float(np.mean(gains))
            spread = float(np.std(gains, ddof=min(1, len(gains) - 1)) / len(gains) ** 0.5)
            found.append({"what": f"{words} (± {spread:.3f})", "wanted": "> 0", "found": gain, "met": "yes" if gain > 0 else "no"})
    return found


def record(runs: list[dict], asked: argparse.Namespace, sets: dict[str, LabelledSet]) -> dict:
    learned = "the MLP" if asked.after == 12 else f"the last {12 - asked.after} of 12 blocks and the MLP"
    seeds = " ".join(map(str, asked.seeds))
    command = (
        f"python benchmarks/camvid.py --data $PIXTREE_DATA --work FOLDER --after {asked.after} --epochs {asked.epochs:g} --views "
        f"{asked.views} --tokens {asked.tokens} --rate {asked.rate:g} --backbone-rate {asked.backbone_rate:g} --seeds {seeds}"
    )
    return {
        "benchmark": "table",
        "title": "Segmentation without a decoder on CamVid",
        **provenance(command, [*PACKAGES, "timm", "accelerate"]),
        "columns": COLUMNS,
        "rows": summary(runs),
        "notes": [
            f"ViT-Tiny sees 384×512 px; {learned} learned, for {asked.epochs:g} epochs of {len(sets['train'])} training images "
            f"in batches of {asked.batch}, with one schedule for all ways. Everything before is frozen, and every epoch shows "
            f"one of {asked.views} random crops of each image. The schedule was chosen for regions, on a third of the training "
            f"images, held out for it (`--choose`). Figures are those of the {len(sets['val'])} validation images at 360×480 px.",
            "Regions (relaxed, compactness 0) and cells average the patches' features over their pixels after the frozen "
            "blocks: the counts are equal, and the compute of the frozen blocks is that of 768 patches. Patches of an image of "
            "half the size have the same count from the first block on. Runs differ in the random seed of the new layers and of "
            "the order of images; standard errors are those of the mean over the runs, and differences are taken seed by seed.",
            CHOICE,
        ],
        "runs": runs,
        "bars": bars(runs),
    }


def drawn(asked: argparse.Namespace, weights: dict[str, Path], classes: tuple[str, ...]) -> np.ndarray:
    """Photos of dht_testimgs, which are from elsewhere and have no targets, beside what one run of each way says of them."""
    shown = {name: words for name, words in PICTURED.items() if name in weights}
    rows = []
    for photo in PHOTOS:
        with Image.open(asked.data / "dht_testimgs" / f"{photo}.jpg") as opened:
            pixels = np.array(opened.convert("RGB").resize((SIZE[1], SIZE[0]), Image.Resampling.LANCZOS))
        picture, maps = colour_image(pixels), []
        for name in shown:
            way = WAYS[name]
            segmenter = Segmenter(patch_model(MODEL, asked.data / "weights"), len(classes), after=asked.after).eval()
            segmenter.load_state_dict(torch.load(weights[name], weights_only=True), strict=False)
            labels = None if way.engine is None else engine_of(way.engine, asked.tokens)(picture[None]).labels
            with torch.inference_mode():
                trunk = segmenter.trunk(seen_by(segmenter.model, picture, way.size))
                found = segmenter.from_tokens(trunk, way.size, labels)
                painted = functional.interpolate(found.painted(found.logits), SIZE, mode="bilinear")
            maps.append(painted[0].argmax(dim=0).numpy())
        rows.append(Row(pixels, tuple(maps)))
    return class_rows(rows, classes, ("photo", *shown.values()))


def splits(asked: argparse.Namespace) -> dict[str, LabelledSet]:
    """Training and validation images; with --choose, the last third of the sorted training images takes the place of validation."""
    train_set = labelled_set(asked.data / "camvid", "camvid", "train", asked.limit)
    if not asked.choose:
        return {"train": train_set, "val": labelled_set(asked.data / "camvid", "camvid", "val", asked.limit)}
    cut = len(train_set) * 2 // 3
    return {
        "train": replace(train_set, images=train_set.images[:cut]),
        "val": replace(train_set, images=train_set.images[cut:], split="held"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--after", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=192)
    parser.add_argument("--views", type=int, default=4)
    parser.add_argument("--epochs", type=float, default=12)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--backbone-rate", type=float, default=0.1, help="factor of the rate for the blocks")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--limit", type=int)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--plot", type=Path, help="plot the curves to this .png file")
    parser.add_argument("--picture", type=Path, help="draw what the first runs say of photos to this file")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.work.mkdir(parents=True, exist_ok=True)
    sets = splits(asked)
    runs: list[dict] = []
    weights: dict[str, Path] = {}
    for seed in asked.seeds:
        for way in asked.ways:
            settings = (asked.after, asked.tokens, asked.views, asked.epochs, asked.batch, asked.rate, asked.backbone_rate)
            stem = "_".join(map(str, ("run", sets["val"].split, len(sets["train"]), *settings, way, seed)))
            file = asked.work / f"{stem}.json"
            if not file.is_file():
                file.write_text(json.dumps(run(asked, way, seed, sets, file.with_suffix(".pt"))))
            runs.append(json.loads(file.read_text()))
            weights.setdefault(way, file.with_suffix(".pt"))
            print({key: value for key, value in runs[-1].items() if key != "losses"}, flush=True)
            write_record(record(runs, asked, sets), asked.output)
            if asked.plot is not None:
                plot_segmenters(runs, {name: one.shown for name, one in WAYS.items()}, asked.plot)
    if asked.picture is not None:
        with replacing(asked.picture) as temporary:
            Image.fromarray(drawn(asked, weights, sets["train"].classes)).save(temporary, quality=88)


if __name__ == "__main__":
    main()
