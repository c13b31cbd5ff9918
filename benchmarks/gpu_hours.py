"""GPU hours that the paper's runs take, from counted operations and published rates: `python benchmarks/gpu_hours.py -o FILE`.

Nothing is measured here. Hours are images · epochs / rate, and the rate is that of the patch model at 224 px, divided by how many
times as many operations an image takes with our tokens. timm published what an RTX 3090 trains in mixed precision; the paper states
what eight MI250x classify, and training is assumed to take three times as long.
"""

import argparse
from typing import NamedTuple

import torch
from evidence.records import PACKAGES, provenance, write_record

from pixtree.evaluation.variants import cost_of
from pixtree.models.timm_import import timm

IMAGENET, ADE20K, COCO_164K, COCO_10K = 1_281_167, 20_210, 118_287, 9_000  # training images
TOKENS = 240  # of an image of 224 px in the paper; other sizes have them in proportion to their area
TRAINED = {"small": 1053.0, "base": 391.0}  # images/s of a patch model of 224 px in training on an RTX 3090, published by timm
PAPER = {"small": 94_200 / 240 / 8, "base": 68_200 / 246 / 8}  # images/s of a model of 224 px per MI250x, tab:efficiency
BACKWARD = 3  # a training step against a forward pass
COLUMNS = [
    ["table", "Table", ""],
    ["run", "Run", ""],
    ["count", "Runs", "d"],
    ["images", "Images", ",d"],
    ["epochs", "Epochs", "d"],
    ["size", "Side, px", "d"],
    ["gflops", "GFLOPs per image", ".1f"],
    ["rtx_3090", "Hours, RTX 3090", ",.0f"],
    ["mi250x", "Hours, MI250x", ",.0f"],
]
NOTES = [
    "Estimates; nothing was trained. RTX 3090: images · epochs / rate, where the rate is the 1,053 or 391 images per second of the "
    "patch model in training that timm published, times its GFLOPs over ours; trees have to be cut on CPU cores as fast as that. "
    "MI250x: three times images · epochs / rate, where the rate is the paper's own in inference, per card and its data loader "
    "included, in proportion to GFLOPs.",
    "An image has 240 tokens at 224 px, as in the paper, and in proportion to its area at other sizes; without selection four "
    "times as many. GFLOPs are those of one forward pass, two per product and sum, the tokenizer included.",
]


class Job(NamedTuple):
    """Runs of one kind that a table needs: how often, on what, how long, and how many times as many tokens an image has."""

    table: str
    run: str
    model: str
    images: int
    epochs: int
    size: int
    bins: int
    count: int = 1
    dense: float = 1.0


JOBS = (
    *(Job("tab:imgcls", f"retrofit, {size}", size, IMAGENET, 100, 192, 16) for size in ("small", "base")),
    *(Job("tab:imgcls, tab:tok_cls", f"pretrain, {size}", size, IMAGENET, 400, 192, 16) for size in ("small", "base")),
    *(Job("tab:imgcls, tab:tok_cls", f"finetune, {size}", size, IMAGENET, 100, 224, 24) for size in ("small", "base")),
    *(Job("tab:seg_combined", f"segment, ADE20k, {size}", size, ADE20K, 400, 512, 48) for size in ("small", "base")),
    Job("tab:seg_combined", "segment, COCO-Stuff 164k, base", "base", COCO_164K, 400, 512, 48),
    Job("tab:seg_coco10k", "segment, COCO-Stuff 10k, base", "base", COCO_10K, 400, 512, 48),
    Job("tab:ablation_rebuttal", "retrofit, small, four rows", "small", IMAGENET, 100, 192, 16, 4),
    Job("tab:ablation_rebuttal", "retrofit, small, − selection", "small", IMAGENET, 100, 192, 16, 1, 4.0),
    Job("tab:ablation_rebuttal", "pretrain, small, four rows", "small", IMAGENET, 400, 192, 16, 4),
    Job("tab:ablation_rebuttal", "pretrain, small, − selection", "small", IMAGENET, 400, 192, 16, 1, 4.0),
    Job("tab:ablation_rebuttal", "finetune, small, four rows", "small", IMAGENET, 100, 224, 24, 4),
    Job("tab:ablation_rebuttal", "finetune, small, − selection", "small", IMAGENET, 100, 224, 24, 1, 4.0),
    *(Job("tab:kernelpos", f"finetune at 16, 32, 48 bins, {size}", size, IMAGENET, 100, 224, 32, 3) for size in TRAINED),
    *(Job("tab:kernelpos", f"segment at 16, 24, 32 bins, ADE20k, {size}", size, ADE20K, 400, 512, 24, 3) for size in TRAINED),
)


def gflops_of(job: Job) -> float:
    """Operations of the forward pass of an image, tokenizer included."""
    model = timm.create_model(f"pixtree_paper_vit_{job.model}", img_size=job.size, position_resolution=job.bins)
    tokens = round(TOKENS * job.dense * (job.size / 224) ** 2)
    return cost_of(model, job.size, counts=torch.tensor([tokens])).gflops


def row_of(job: Job, gflops: float, patches: dict[str, float], paper: dict[str, float]) -> dict:
    """Hours of one kind of runs."""
    seen = job.images * job.epochs * job.count
    rate = TRAINED[job.model] * patches[job.model] / gflops
    authors = PAPER[job.model] * paper[job.model] / gflops / BACKWARD
    row = {"table": job.table, "run": job.run, "count": job.count, "images": job.images, "epochs": job.epochs, "size": job.size}
    return {**row, "gflops": gflops, "rtx_3090": seen / rate / 3600, "mi250x": seen / authors / 3600}


def rows() -> list[dict]:
    """All runs."""
    patches = {size: cost_of(timm.create_model(f"vit_{size}_patch16_224")).gflops for size in TRAINED}
    paper = {size: gflops_of(Job("", "", size, 1, 1, 224, 24)) for size in TRAINED}
    known: dict[tuple, float] = {}
    found = []
    for job in JOBS:
        key = (job.model, job.size, job.bins, job.dense)
        known[key] = known[key] if key in known else gflops_of(job)
        found.append(row_of(job, known[key], patches, paper))
        print(found[-1], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", required=True)
    chosen = parser.parse_args()
    record = {
        "benchmark": "table",
        "title": "GPU hours of the paper's runs, estimated",
        **provenance("python benchmarks/gpu_hours.py -o benchmarks/results/gpu_hours.json", (*PACKAGES, "timm")),
        "columns": COLUMNS,
        "rows": rows(),
        "notes": NOTES,
    }
    write_record(record, chosen.output)


if __name__ == "__main__":
    main()
