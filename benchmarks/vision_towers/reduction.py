"""Fewer visual tokens: features and attention that a tower keeps with 10, 25 and 50 % of its tokens.

`python benchmarks/vision_towers/reduction.py --images FOLDER --weights FOLDER -o FILE`. The hidden state is the last but one, which
LLaVA reads; all methods reduce it once, and nothing is trained. Folders are those of twins.py.
"""

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # last: a script there is named like a package that transformers imports

import numpy as np
import torch
from evidence.records import PACKAGES, provenance, write_record
from retrofit import dataset, normalised, patch_model
from torch import Tensor
from torch.nn.functional import normalize, one_hot

from pixtree.kernels.tokens.merge.definition import averaged, summed
from pixtree.models.coarsening.blocks import attend, key_bias, think
from pixtree.models.coarsening.final_tokens import exact_ward, folding_of_regions
from pixtree.models.coarsening.schedules import halved

MODELS = ("deit_tiny_patch16_224", "vit_tiny_patch16_224")
SHARES = (0.1, 0.25, 0.5)
DOMINANT = 54 / 64  # of VisionZip's tokens, as in its paper; the others are contextual
METHODS = ("pixtree, pool=tree", "pixtree, pool=regions", "VisionZip's rule", "ToMe's matching", "square cells")
OURS = METHODS[0]
TITLE = "What a vision tower keeps with fewer tokens"
COLUMNS = [
    ["model", "Model", ""],
    ["share", "Tokens", ".0%"],
    ["method", "Method", ""],
    ["error", "Squared error of features", ".3f"],
    ["weighted", "the same, weighted by attention", ".3f"],
    ["attention", "Attention kept", ".3f"],
    ["lead", "pixtree ahead by", ".3f"],
    ["lead_se", "standard error", ".4f"],
]
NOTE = (
    "The share of the variance over the patches of a photo that is lost when every patch has the features of its token, mean over "
    "photos; weighted: patches count as the class token attends to them. Attention kept: overlap of the class token's attention "
    "over patches in the last block with that over tokens, whose keys are biased by log(size). Ahead: in attention kept, paired by "
    "photo. Square cells are 16, 49 and 100."
)


def visionzip(features: Tensor, keys: Tensor, attention: Tensor, count: int) -> Tensor:
    """Shares (n, N) of VisionZip's rule: tokens with the most attention stay, the others join evenly spaced ones by their keys."""
    stay = attention.argsort(descending=True, stable=True)[: round(count * DOMINANT)]
    others = torch.tensor([number for number in range(len(keys)) if number not in set(stay.tolist())])
    rest = count - len(stay)
    targets = others[(torch.arange(rest) * len(others)) // rest] if rest else others[:0]
    labels = torch.empty(len(keys), dtype=torch.int64)
    labels[stay] = torch.arange(len(stay))
    similar = normalize(keys[others], dim=1) @ normalize(keys[targets], dim=1).T
    labels[others] = len(stay) + similar.argmax(dim=1)
    labels[targets] = len(stay) + torch.arange(rest)
    return shares_of(labels, count)


def tome(features: Tensor, keys: Tensor, attention: Tensor, count: int) -> Tensor:
    """Shares (n, N) of ToMe's bipartite matching by keys, repeated until `count` tokens are left."""
    labels, values, sizes = torch.arange(len(keys)), keys[None], torch.ones(1, len(keys))
    while values.shape[1] > count:
        left, length = max(count, halved(values.shape[1])), values.shape[1]
        metric = normalize(values[0], dim=1)
        first, second = torch.arange(length)[::2], torch.arange(length)[1::2]
        best = (metric[first] @ metric[second].T).max(dim=1)
        going = best.values.argsort(descending=True, stable=True)[: length - left]
        parent = torch.arange(length)
        parent[first[going]] = second[best.indices[going]]
        found = parent.unique(return_inverse=True)[1]
        values, sizes = averaged(values, sizes, found[None], left), summed(sizes, found[None], left)
        labels = found[labels]
    return shares_of(labels, count)


def cells(features: Tensor, keys: Tensor, attention: Tensor, count: int) -> Tensor:
    """Shares (n, N) of cells of a grid with about `count` of them."""
    side, parts = round(len(keys) ** 0.5), round(count**0.5)
    axis = torch.arange(side) * parts // side
    return shares_of((axis[:, None] * parts + axis).flatten(), parts**2)


def tree(features: Tensor, keys: Tensor, attention: Tensor, count: int) -> Tensor:
    """Shares (n, N) of our tree."""
    return shares_of(exact_ward(features[None], attention[None], count)[0], count)


def shares_of(labels: Tensor, count: int) -> Tensor:
    whole = one_hot(labels, count).T.float()
    return whole / whole.sum(dim=1, keepdim=True)


def measures(
    shares: Tensor, rows: Tensor, attention: Tensor, block: torch.nn.Module, expected: Tensor
) -> tuple[float, float, float]:
    """Both errors and the attention kept of one photo. rows: (1, 1 + N, D); expected: (N,), the last block's class attention."""
    patches = rows[0, 1:]
    tokens = shares @ patches
    inside = shares / shares.sum(dim=0).clamp_min(1e-12)  # the tokens of every patch
    lost = (patches - inside.T @ tokens).square().sum(dim=1)
    spread = (patches - patches.mean(dim=0)).square().sum(dim=1)
    middle = (attention[:, None] * patches).sum(dim=0) / attention.sum()
    weighted = (attention * lost).sum() / (attention * (patches - middle).square().sum(dim=1)).sum()
    sizes = 1.0 / shares.square().sum(dim=1)  # patches per token
    both = torch.cat((rows[:, :1], tokens[None]), dim=1)
    made = attend(block, both, key_bias(sizes[None], both), None, False)[1]
    found = made.attention_of_first(1)[0, :, 0, 1:].mean(dim=0) @ shares
    kept = torch.minimum(found / found.sum(), expected / expected.sum()).sum()
    return float(lost.sum() / spread.sum()), float(weighted), float(kept)


@torch.inference_mode()
def rows_of(name: str, images: Tensor, weights: Path) -> list[dict]:
    model = patch_model(name, weights)
    found: dict[tuple[float, str], list[tuple[float, ...]]] = {}
    for photo, raw in zip(normalised(images, model).split(1), images.split(1), strict=True):
        rows = model.norm_pre(model._pos_embed(model.patch_embed(photo)))
        for block in model.blocks[:-1]:
            rows, made, _ = attend(block, rows, None, None, False)
            rows = think(block, rows)
        attention = made.attention_of_first(1)[0, :, 0, 1:].mean(dim=0)
        keys = made.key[0, :, 1:].transpose(0, 1).flatten(1)
        after = attend(model.blocks[-1], rows, None, None, False)[1]
        expected = after.attention_of_first(1)[0, :, 0, 1:].mean(dim=0)
        grid, patch = model.patch_embed.grid_size, model.patch_embed.patch_size[0]
        for share in SHARES:
            count = round(share * len(keys))
            for method, rule in zip(METHODS, (tree, None, visionzip, tome, cells), strict=True):
                if rule is None:
                    shares = folding_of_regions(raw / 255.0, grid, patch, count, "auto").shares[0]
                else:
                    shares = rule(rows[0, 1:], keys, attention, count)
                found.setdefault((share, method), []).append(measures(shares, rows, attention, model.blocks[-1], expected))
    result = []
    for (share, method), values in found.items():
        error, weighted, kept = np.mean(values, axis=0).tolist()
        row = {"model": name, "share": share, "method": method, "error": error, "weighted": weighted, "attention": kept}
        if method != OURS:
            leads = np.array(found[share, OURS])[:, 2] - np.array(values)[:, 2]
            row |= {"lead": float(leads.mean()), "lead_se": float(leads.std(ddof=1) / len(leads) ** 0.5)}
        result.append(row)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--every", type=int, default=10, help="take every n-th photo of the folder")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    images, _ = dataset(options.images, None, options.every)
    rows = [row for name in MODELS for row in rows_of(name, images, options.weights)]
    command = (
        "python benchmarks/vision_towers/reduction.py --images $PIXTREE_DATA/imagenet_val --weights $PIXTREE_DATA/weights "
        f"--every {options.every}"
    )
    record = {"columns": COLUMNS, "rows": rows, "notes": [f"{len(images)} photos. {NOTE}"]}
    write_record({"benchmark": "table", "title": TITLE, **provenance(command, (*PACKAGES, "timm")), **record}, options.output)


if __name__ == "__main__":
    main()
