"""Accuracy right after a retrofit, without any training: `python benchmarks/retrofit.py --images FOLDER --weights FOLDER -o FILE`.

The folder of images holds images/ and labels.csv (filename, class); that of weights <model>.fp16.safetensors with timm's key names.
Square patches are the untouched timm model; the retrofit's own square patches must agree with it. For other models and data there
is `pixtree evaluate top1 MODEL DATA --variant tokens=196`.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from PIL import Image
from torch import Tensor

import pixtree
from pixtree.evaluation.classification import measures
from pixtree.models.zoo import named_model

MODELS = ("deit_tiny_patch16_224", "vit_tiny_patch16_224")
TOKENS = (49, 64, 100, 144, 196, 256, 324, 400, 576)
RESIZE, CROP, BATCH = 248, 224, 50
COLUMNS = [
    ["model", "Model", ""],
    ["tokens", "Tokens", ""],
    ["top1", "Top-1", ".3f"],
    ["top5", "Top-5", ".3f"],
    ["kept", "Share of patches' top-1", ".3f"],
    ["agreement", "Same answer as patches", ".3f"],
    ["divergence", "KL from patches, nats", ".3f"],
]


def prepared(path: Path) -> Tensor:
    """Short side to 248 (bicubic), centre crop of 224: (3, 224, 224) uint8."""
    picture = Image.open(path).convert("RGB")
    scale = RESIZE / min(picture.size)
    size = tuple(int(side * scale) for side in picture.size)
    size = tuple(RESIZE if side == min(picture.size) else new for side, new in zip(picture.size, size, strict=True))
    picture = picture.resize(size, Image.Resampling.BICUBIC)
    left, top = round((size[0] - CROP) / 2), round((size[1] - CROP) / 2)
    return torch.from_numpy(np.array(picture.crop((left, top, left + CROP, top + CROP)))).permute(2, 0, 1)


def dataset(folder: Path, limit: int | None, every: int = 1) -> tuple[Tensor, Tensor]:
    """Images (N, 3, 224, 224) uint8 and classes (N,) of every so manieth of the first `limit` photos."""
    with (folder / "labels.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))[1:][:limit:every]
    return torch.stack([prepared(folder / "images" / row[0]) for row in rows]), torch.tensor([int(row[1]) for row in rows])


def patch_model(name: str, weights: Path) -> torch.nn.Module:
    return named_model(name, weights / f"{name}.fp16.safetensors")


@torch.inference_mode()
def logits(model: torch.nn.Module, images: Tensor) -> Tensor:
    return torch.cat([model(batch) for batch in images.split(BATCH)])


def normalised(images: Tensor, model: torch.nn.Module) -> Tensor:
    mean, std = (torch.tensor(model.pretrained_cfg[key]).view(3, 1, 1) for key in ("mean", "std"))
    return (images / 255.0 - mean) / std


def rows_of(name: str, images: Tensor, classes: Tensor, weights: Path, counts: list[int]) -> Iterator[dict]:
    model, right = patch_model(name, weights), torch.nn.functional.one_hot(classes, 1000).bool()
    patches = logits(model, normalised(images, model))
    found = logits(pixtree.retrofit(model, partitioner="grid"), images)
    difference = (found - patches).abs().max().item()
    yield {"model": name, "tokens": "patches (timm)", **measures(patches, patches, right)}
    yield {"model": name, "tokens": "patches (pixtree)", **measures(found, patches, right), "difference": difference}
    regions = pixtree.retrofit(model, tokens=counts[0])
    for count in counts:
        regions.tokenizer.budget = pixtree.Exactly(count)
        yield {"model": name, "tokens": count, **measures(logits(regions, images), patches, right)}


def record(rows: list[dict], images: int, name: str, counts: str) -> dict:
    order = sorted(rows, key=lambda row: (row["model"], row["tokens"] if isinstance(row["tokens"], int) else 0))
    return {
        "benchmark": "table",
        "title": "Accuracy right after a retrofit, without any training",
        **provenance(
            f"python benchmarks/retrofit.py --images $PIXTREE_DATA/{name} --weights $PIXTREE_DATA/weights --tokens {counts}",
            (*PACKAGES, "timm"),
        ),
        "columns": COLUMNS,
        "rows": order,
        "notes": [
            f"The table uses {images} images of {name}, resized to {RESIZE} px (bicubic), with a centre crop of {CROP} px. The "
            "weights are stored in float16, and the arithmetic is float32. No setting was chosen on these images; the settings "
            "of the retrofit were chosen on 250 images of imagenet_sample.",
            "KL is the divergence of the retrofit's class probabilities from those of the patch model, averaged over the images.",
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--tokens", nargs="+", type=int, default=TOKENS)
    parser.add_argument("--limit", type=int)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    images, classes = dataset(options.images, options.limit)
    rows = []
    for name in options.models:
        for row in rows_of(name, images, classes, options.weights, list(options.tokens)):
            rows.append(row)
            print(row, flush=True)
            if options.output:
                counts = " ".join(str(count) for count in options.tokens)
                write_record(record(rows, len(images), options.images.name, counts), options.output)


if __name__ == "__main__":
    main()
