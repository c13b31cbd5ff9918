"""Tokenizers side by side without training: `python benchmarks/tokenizers.py --data $PIXTREE_DATA -o FILE`. [`tab:tok_cls`]

The paper trains one model per tokenizer from scratch. Here every tokenizer cuts the same photos into about as many regions, the
same pretrained DeiT-Tiny gets the regions as tokens (boxes, masks and positions of `pixtree.retrofit`, the same for all), and the
regions are also measured against the annotations of BSDS500. The values of a tokenizer are kept in --work until the sources change.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from evidence.sources import source_hashes
from retrofit import BATCH, dataset, patch_model
from torch import Tensor
from torch.nn import functional

import pixtree
from pixtree.evaluation.annotated_photos import annotated_photos
from pixtree.evaluation.superpixels import superpixel_scores
from pixtree.files import write_json
from pixtree.partitioners import partitioner
from pixtree.tokenizer.region_encoder import EncodedRegions
from pixtree.tokenizer.tokenizer import Tokenizer
from pixtree.tokenizer.tokens import Tokens
from pixtree.tokenizer.weights import RELEASE_OPTIONS, from_release
from pixtree.trees.partition import Partition

MODEL = "deit_tiny_patch16_224"
OURS = "ours (Lab tree)"
MEASURES_OF_REGIONS = ("boundary_recall", "undersegmentation_error", "achievable_accuracy", "explained_variation", "psnr")
COLUMNS = [
    ["tokenizer", "Tokenizer", ""],
    ["tokens", "Tokens per photo", ".1f"],
    ["top1", "Top-1 ↑", ".3f"],
    ["error", "± s.e.", ".3f"],
    ["behind", "Ours minus it", "+.3f"],
    ["behind_error", "± s.e., paired", ".3f"],
    ["verdict", "Ours is", ""],
    ["regions", "Regions, BSDS500", ".1f"],
    ["boundary_recall", "Boundary recall ↑", ".4f"],
    ["undersegmentation_error", "Underseg. error ↓", ".4f"],
    ["achievable_accuracy", "ASA ↑", ".4f"],
    ["explained_variation", "Expl. variation ↑", ".4f"],
    ["psnr", "PSNR of means, dB ↑", ".2f"],
]
NOTES = [
    "No model was trained for this table, so it does not repeat the paper's, whose models learn with their tokenizer for hundreds "
    "of epochs (Small: patches 79.9 to 80.4, SPiT 75.0, SuiT 80.9, SPFormer 81.7, the paper's 80.0). It shows how much a tokenizer "
    "leaves of what a patch model knows, and how well its regions fit pictures. Square patches are the model's own and have no gap "
    "to bridge. A difference below two standard errors, paired over the photos, is called a tie.",
    "SuiT-like is SLIC with averages of dense features over regions: SuiT's own convolutions are trained, here the features are "
    "the model's own projection of the patch around every fourth pixel. EPOC-like is a watershed of the colour gradient; EPOC's "
    "boundary network is trained. SPFormer clusters between its blocks and is no tokenizer that another model could take. SPiT is "
    "the level of a plain merging tree whose count is nearest. The released encoder is the authors' r2v.pth, its features in our "
    "tree and cut.",
    "SLIC, watershed and SPiT cannot be told an exact count; SLIC's and the watershed's segments are split into connected pieces.",
]


class Pooled(Tokenizer):
    """Tokens that average dense features over a region, as SuiT does: the projection of the patch around every fourth pixel."""

    STRIDE = 4

    @classmethod
    def taking_over(cls, other: Tokenizer) -> "Pooled":
        """A tokenizer with the modules of another one."""
        pooled = cls(other.budget, other.options)
        pooled.regions, pooled.projection, pooled.positions, pooled.prefix = (
            other.regions,
            other.projection,
            other.positions,
            other.prefix,
        )
        return pooled.eval()

    def embed(self, regions: EncodedRegions) -> Tokens:
        """The usual tokens, with pooled features in place of sampled boxes."""
        tokens = super().embed(regions)
        normal, patch = self.normalisation, self.options.sampling.patch
        scale, shift = (one.to(regions.images.dtype)[:, None, None] for one in (normal.scale, normal.shift))
        margin = (patch - self.STRIDE) // 2
        padded = functional.pad(regions.images * scale + shift, (margin, patch - self.STRIDE - margin) * 2, mode="replicate")
        weight = self.projection.weight.view(-1, regions.images.shape[1], patch, patch)
        dense = functional.conv2d(padded, weight, self.projection.bias, stride=self.STRIDE)  # (B, D, H/4, W/4)
        labels, count = regions.partition.labels, tokens.features.shape[1]
        dense = functional.interpolate(dense, labels.shape[1:], mode="nearest").flatten(2)  # (B, D, H·W)
        places = labels.flatten(1).long()
        sizes = torch.zeros(len(places), count).scatter_add_(1, places, torch.ones(places.shape)).clamp(min=1)
        sums = torch.zeros(len(places), dense.shape[1], count)
        sums.scatter_add_(2, places[:, None].expand_as(dense), dense)
        pooled = (sums / sizes[:, None]).transpose(1, 2) + self.positions(labels, count)
        return Tokens(pooled * tokens.valid[..., None], tokens.valid, tokens.partition, tokens.prefix, tokens.full, tokens.backend)


def released(data: Path) -> Tokenizer:
    """The authors' encoder in our tree."""
    tokenizer = Tokenizer(options=RELEASE_OPTIONS.changed(width=None))
    tokenizer.regions = from_release(torch.load(data / "weights" / "r2v.pth", map_location="cpu", weights_only=True))
    return tokenizer


def cutters(count: int, data: Path) -> dict[str, Callable[[Tensor], Partition]]:
    """Every tokenizer as images (B, 3, H, W) uint8 to a partition into about `count` regions."""
    budget = pixtree.Exactly(count)
    authors, shipped = released(data), Tokenizer.pretrained(budget, width=None)
    own = pixtree.retrofit(MODEL, tokens=count, depth=1).tokenizer
    slic = partitioner("slic", count)
    return {
        "patches": partitioner("grid", count),
        "quadtree": partitioner("quadtree", count),
        "SLIC": slic,
        "SLIC, pooled features (SuiT-like)": slic,
        "watershed (EPOC-like)": partitioner("watershed", count),
        "SPiT": partitioner("spit", count),
        "the paper's, released encoder": lambda images: authors.partition(images, budget),
        "ours (shipped encoder)": lambda images: shipped.partition(images, budget),
        OURS: lambda images: own.partition(images, budget),
    }


@torch.inference_mode()
def answers(name: str, partitions: list[Partition], images: Tensor, classes: Tensor, data: Path) -> dict[str, list[float]]:
    """Per photo: whether the model is right, and its number of tokens."""
    model = pixtree.retrofit(patch_model(MODEL, data / "weights"), tokens=1).eval()
    if "pooled" in name:
        model.tokenizer = Pooled.taking_over(model.tokenizer)
    right, tokens = [], []
    for batch, truth, partition in zip(images.split(BATCH), classes.split(BATCH), partitions, strict=True):
        right += (model(batch, partition).argmax(1) == truth).double().tolist()
        tokens += partition.counts.double().tolist()
    return {"right": right, "tokens": tokens}


def fits(cut: Callable[[Tensor], Partition], folder: Path) -> dict[str, list[float]]:
    """Per photo of BSDS500 val: the measures of regions, and their number."""
    found: dict[str, list[float]] = {}
    for photo in annotated_photos(folder, "val"):
        pixels = photo.pixels()
        partition = cut(torch.from_numpy(pixels).permute(2, 0, 1)[None].contiguous())
        scores = superpixel_scores(partition.labels[0].numpy(), pixels / 255, photo.segmentations())
        for key, value in {**{key: scores[key] for key in MEASURES_OF_REGIONS}, "regions": float(partition.counts[0])}.items():
            found.setdefault(key, []).append(float(value))
    return found


def measured(options: argparse.Namespace, command: str) -> Iterator[tuple[str, dict[str, list[float]]]]:
    """Values per photo of every tokenizer; those that --work has from the same sources are not measured again."""
    images, classes = dataset(options.data / "imagenet_val", None, 1000 // options.photos)
    state = {"sources": source_hashes(command), "photos": options.photos, "tokens": options.tokens}
    options.work.mkdir(parents=True, exist_ok=True)

    @cache  # SLIC, whose search for a setting is slow, is cut once for both kinds of features
    def cuts(cut: Callable[[Tensor], Partition]) -> list[Partition]:
        return [cut(batch) for batch in images.split(BATCH)]

    @cache
    def regions(cut: Callable[[Tensor], Partition]) -> dict[str, list[float]]:
        return fits(cut, options.data / "bsds500")

    for place, (name, cut) in enumerate(cutters(options.tokens, options.data).items()):
        path = options.work / f"{options.tokens}-{place}.json"
        kept = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if kept.get("state") != state:
            values = {**answers(name, cuts(cut), images, classes, options.data), **regions(cut)}
            kept = {"state": state, "values": values}
            write_json(path, kept)
        yield name, kept["values"]
        print(name, {key: round(float(np.mean(values)), 4) for key, values in kept["values"].items()}, flush=True)


def rows_of(values: dict[str, dict[str, list[float]]]) -> list[dict]:
    rows = []
    for name, found in values.items():
        right, ours = np.array(found["right"]), np.array(values[OURS]["right"])
        means = {key: float(np.mean(one)) for key, one in found.items() if key != "right"}
        row = {"tokenizer": name, **means, "top1": right.mean(), "error": right.std(ddof=1) / len(right) ** 0.5}
        if name != OURS:
            change = ours - right
            gap, error = change.mean(), change.std(ddof=1) / len(change) ** 0.5
            verdict = "a tie" if abs(gap) < 2 * error else ("ahead" if gap > 0 else "behind")
            row |= {"behind": gap, "behind_error": error, "verdict": verdict}
        rows.append({key: value if isinstance(value, str) else float(value) for key, value in row.items()})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--photos", type=int, default=250)
    parser.add_argument("--tokens", type=int, default=196)
    parser.add_argument("--work", type=Path, default=Path("out/tokenizers"))
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    command = f"python benchmarks/tokenizers.py --data $PIXTREE_DATA --photos {options.photos} --tokens {options.tokens}"
    values = dict(measured(options, command))
    photos = len(values[OURS]["right"])
    record = {
        "benchmark": "table",
        "title": f"Tokenizers side by side at {options.tokens} tokens, without training",
        **provenance(command, (*PACKAGES, "timm")),
        "columns": COLUMNS,
        "rows": rows_of(values),
        "notes": [f"Top-1 of {MODEL} on {photos} photos of imagenet_val; regions on the 100 photos of BSDS500 val.", *NOTES],
    }
    write_record(record, options.output)


if __name__ == "__main__":
    main()
