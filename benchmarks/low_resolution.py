"""Small pictures, the limit that the paper's discussion names: `python benchmarks/low_resolution.py --images FOLDER -o FILE`.

The same photos are shrunk to 32…224 px. Measured are the regions that a criterion finds, how much better regions paint a picture
than square patches of the same number, and what a retrofit keeps of its patch model's accuracy. The folders are those of
`benchmarks/retrofit.py`; without --weights the accuracy is left out.
"""

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as functional
from evidence.records import PACKAGES, provenance, write_record
from retrofit import dataset, logits, patch_model
from torch import Tensor

import pixtree
from pixtree.kernels import kernels_for
from pixtree.partitioners.grid import Grid

MODEL = "deit_tiny_patch16_224"
SIZES = (32, 48, 64, 96, 128, 224)
PATCH, FEW = 16, 4  # pixels
COLUMNS = [
    ["size", "Side, px", ""],
    ["what", "Cut", ""],
    ["tokens", "Tokens", ".1f"],
    ["deviation", "± between pictures", ".1f"],
    ["pixels", "Pixels per region, median", ".0f"],
    ["tiny", f"Regions of at most {FEW} px", ".3f"],
    ["extent", "Share of the bounding box", ".3f"],
    ["grown", f"Boxes grown to {PATCH} px", ".3f"],
    ["error", "Squared error of means", ".5f"],
    ["ratio", "against patches", ".2f"],
    ["top1", "Top-1", ".3f"],
    ["kept", "of patches", ".3f"],
]


def shrunk(images: Tensor, size: int) -> Tensor:
    """Pictures (N, 3, size, size) uint8, each new pixel an average of what it covers."""
    small = functional.interpolate(images.float(), (size, size), mode="bilinear", antialias=True)
    return small.round().clamp(0, 255).to(torch.uint8)


def shapes(images: Tensor, partition: Callable[[Tensor], pixtree.Partition]) -> dict[str, float]:
    """Counts, sizes and compactness of regions, and the squared error of painting them with their means (values in 0..1)."""
    kernels = kernels_for("auto", images.device)
    counts, areas, extents, grown, errors = [], [], [], [], []
    for image in images:
        labels = partition(image[None]).labels
        count, pixels = int(labels.max()) + 1, (image / 255.0)[None].flatten(2)
        size = kernels.region_sizes(labels.flatten(1), count, torch.float32)[0, :, 0]
        box = kernels.region_boxes(labels, count)[0].float()
        means = kernels.region_means(pixels, labels.flatten(1), count)
        counts.append(float(count))
        areas.append(size)
        sides = box[:, 2:] - box[:, :2]
        extents.append(size / sides.prod(1))
        grown.append((sides.min(1).values < PATCH).float())
        errors.append((pixels - kernels.paint(means, labels.flatten(1))).square().sum(1).mean())
    every = torch.cat(areas)
    return {
        "tokens": sum(counts) / len(counts),
        "deviation": float(torch.tensor(counts).std()),
        "pixels": float(every.median()),
        "tiny": float((every <= FEW).float().mean()),
        "extent": float(torch.cat(extents).mean()),
        "grown": float(torch.cat(grown).mean()),
        "error": float(torch.stack(errors).mean()),
    }


def cuts(patches: int) -> dict[str, Callable[[Tensor], pixtree.Partition]]:
    """Ways to cut a picture, by name."""
    lab, paper = pixtree.Tokenizer(pixtree.Exactly(patches), compactness=0.0), pixtree.Tokenizer.paper()
    return {
        "square patches": Grid(patch=PATCH),
        "as many regions": lab.partition,
        "criterion AICC": lambda images: lab.partition(images, pixtree.Criterion("aicc")),
        "paper preset": paper.partition,
    }


def region_rows(images: Tensor, size: int) -> Iterator[dict]:
    patches, small = (size // PATCH) ** 2, shrunk(images, size)
    error = None
    for name, partition in cuts(patches).items():
        found = shapes(small, partition)
        error = error or found["error"]
        yield {"size": size, "what": name, **found, "ratio": found["error"] / error if found["tokens"] == patches else None}


def accuracy_rows(images: Tensor, classes: Tensor, size: int, weights: Path) -> Iterator[dict]:
    """The patch model and its untrained retrofit at a size, and at 224 px after enlarging what was shrunk to it."""
    model, small = patch_model(MODEL, weights), shrunk(images, size)
    enlarged = functional.interpolate(small.float(), (224, 224), mode="bicubic").round().clamp(0, 255).to(torch.uint8)
    for side, pictures in ((size, small), *(((224, enlarged),) if size != 224 else ())):
        patches, where = (side // PATCH) ** 2, "" if side == size else ", enlarged to 224 px"
        squares = accuracy(pixtree.retrofit(model, partitioner="grid"), pictures, classes)
        yield {"size": size, "what": f"{MODEL}, patches{where}", "tokens": patches, "top1": squares}
        for count in (patches, 4 * patches) if side < 128 else (patches,):
            regions = accuracy(pixtree.retrofit(model, tokens=count), pictures, classes)
            kept = regions / squares if squares else None
            yield {"size": size, "what": f"{MODEL}, retrofit{where}", "tokens": count, "top1": regions, "kept": kept}


def accuracy(model: torch.nn.Module, images: Tensor, classes: Tensor) -> float:
    return (logits(model.eval(), images).argmax(1) == classes).double().mean().item()


def record(rows: list[dict], options: argparse.Namespace) -> dict:
    command = f"python benchmarks/low_resolution.py --images $PIXTREE_DATA/{options.images.name} --limit {options.limit} --sizes "
    weights = " --weights $PIXTREE_DATA/weights" if options.weights else ""
    return {
        "benchmark": "table",
        "title": "Small pictures",
        **provenance(command + " ".join(str(size) for size in options.sizes) + weights, (*PACKAGES, "timm")),
        "columns": COLUMNS,
        "rows": rows,
        "notes": [
            f"The first {options.limit} photos of {options.images.name}, prepared at 224 px and shrunk by averaging. Patches have "
            f"{PATCH} px a side. Regions come from Lab without coordinates; the paper preset has untrained features and decides "
            "its own count. The squared error is that of painting every region with its mean, values in 0..1, summed over "
            "channels; it is compared with patches where the counts are equal. A box is grown where a side of a region's bounding "
            f"box is shorter than {PATCH} px: the sampler then takes in what lies around the region.",
            "The retrofit is not trained. At 32 px a picture has four patches, and no model of this kind was trained on so few.",
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--limit", type=int, default=100)
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    images, classes = dataset(options.images, options.limit)
    rows = []
    for size in options.sizes:
        for row in region_rows(images, size):
            rows.append(row)
            print(row, flush=True)
        for row in accuracy_rows(images, classes, size, options.weights) if options.weights else ():
            rows.append(row)
            print(row, flush=True)
    if options.output:
        write_record(record(rows, options), options.output)


if __name__ == "__main__":
    main()
