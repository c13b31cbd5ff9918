"""How much of the time is left for the model if data-loader workers cut the images: `python benchmarks/overlap.py -o FILE`.

The model has one thread and the loader two workers, so that a machine with two cores has one for the model. The same retrofit runs
over the same photos in turns: it cuts them itself, or the workers do. Also: how many images a second one core can cut.
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import torch
from efficiency import photos
from evidence.records import PACKAGES, provenance, write_record
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import pixtree
from pixtree.models import PixtreeViT, WithPartition, collate_partitions

MODEL, SIZE = "vit_small_patch16_224", 224
COLUMNS = [
    ["what", "Who cuts", ""],
    ["images_per_second", "Images/s", ".2f"],
    ["model", "Share of the time in the blocks and the head", ".3f"],
    ["least", "least", ".3f"],
    ["most", "most", ".3f"],
    ["tokens", "in the tokenizer", ".3f"],
    ["waiting", "waiting for the loader", ".3f"],
]


def normalised(pixels: Tensor) -> Tensor:
    """What a timm model takes."""
    return pixels / 127.5 - 1.0


class Photos(Dataset):
    """Crops of photos, with their numbers as targets."""

    def __init__(self, count: int, transform) -> None:
        self.pixels, self.transform = photos(count, SIZE), transform

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, number: int):
        return self.transform(self.pixels[number]), number


class Clock:
    """Seconds inside the backbone, by hooks around it."""

    def __init__(self, model: PixtreeViT) -> None:
        self.spent, self.started = 0.0, 0.0
        model.backbone.register_forward_pre_hook(lambda *_: setattr(self, "started", time.perf_counter()))
        model.backbone.register_forward_hook(self.stop)

    def stop(self, *_) -> None:
        """Add the time since the backbone was entered."""
        self.spent += time.perf_counter() - self.started


@torch.inference_mode()
def epoch(batches: Iterator, model: PixtreeViT, clock: Clock, skipped: int) -> dict[str, float]:
    """Seconds of one pass over the batches, the first `skipped` aside, in the loader, the tokenizer and the backbone."""
    waited, total, images, clock.spent = 0.0, 0.0, 0, 0.0
    for number in range(len(batches)):
        if number == skipped:
            waited, total, images, clock.spent = 0.0, 0.0, 0, 0.0
        start = time.perf_counter()
        pictures, *partition, _ = next(batches)
        waited += time.perf_counter() - start
        model(pictures, *partition)
        total += time.perf_counter() - start
        images += len(pictures)
    return {"images": images, "total": total, "waited": waited, "model": clock.spent}


def row_of(name: str, epochs: list[dict[str, float]]) -> dict:
    total = sum(one["total"] for one in epochs)
    model, waiting = (sum(one[part] for one in epochs) / total for part in ("model", "waited"))
    shares = sorted(one["model"] / one["total"] for one in epochs)
    return {
        "what": name,
        "images_per_second": sum(one["images"] for one in epochs) / total,
        "model": model,
        "least": shares[0],
        "most": shares[-1],
        "tokens": 1.0 - model - waiting,
        "waiting": waiting,
    }


def cutting_rate(model: PixtreeViT, rounds: int, learns: bool) -> float:
    """Images a second that one thread cuts; with gradients it also keeps how regions came about."""
    pictures, found = normalised(photos(8, SIZE)), []
    with torch.set_grad_enabled(learns):
        for _ in range(rounds + 1):
            start = time.perf_counter()
            model.cut(pictures)
            found.append(time.perf_counter() - start)
    return len(pictures) / statistics.median(found[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--batches", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = pixtree.retrofit(MODEL, tokenizer=pixtree.Tokenizer.pretrained(width=384)).eval()
    clock, count = Clock(model), options.batch * options.batches
    common = {"batch_size": options.batch, "num_workers": 2, "persistent_workers": True}
    loaders = {
        "the model": DataLoader(Photos(count, normalised), **common),
        "the workers": DataLoader(Photos(count, WithPartition(normalised, model)), collate_fn=collate_partitions, **common),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in loaders}
    for turn in range(options.rounds + 1):
        for name, loader in loaders.items():
            taken = epoch(iter(loader), model, clock, 2)
            if turn:
                found[name].append(taken)
    rows = [row_of(name, epochs) for name, epochs in found.items()]
    for name, learns in (("one core, for inference", False), ("one core, for training", True)):
        rows.append({"what": name, "images_per_second": cutting_rate(model, 2 * options.rounds, learns)})
    print(*rows, sep="\n", flush=True)
    if options.output:
        sizes = f"--batch {options.batch} --batches {options.batches} --rounds {options.rounds}"
        record = {
            "benchmark": "table",
            "title": "Cutting in the workers of a data loader",
            **provenance(f"python benchmarks/overlap.py {sizes}", (*PACKAGES, "timm")),
            "columns": COLUMNS,
            "rows": rows,
            "notes": [
                f"A retrofit of {MODEL} with 196 tokens, forwards, in float32, on one thread; two workers load the images. The two "
                f"ways take turns in one run of {options.rounds} rounds, and the first two batches of a round are not counted. The "
                "lines below have one thread that does nothing but encode and cut.",
            ],
        }
        write_record(record, options.output)


if __name__ == "__main__":
    main()
