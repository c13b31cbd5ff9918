"""How many tokens the paper's system gives at 224 px, against γ: `python benchmarks/paper_counts.py IMAGES -o FILE`.

The paper reports 240 to 246 tokens on average (`tab:efficiency`) but states neither the penalty scale γ nor the variance floor φ of
its criterion. With φ as everywhere else, γ is the one number that is calibrated, once, on unlabelled photos, so that the untrained
system gives the paper's mean count. IMAGES is a folder of photos, such as $PIXTREE_DATA/imagenet_sample/images.

The tree compares the weighted aggregates of `alg:merge`, at two σ, or plain means; quality is the error of
regions in their mean colours.
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from evidence.records import provenance, write_record
from PIL import Image

from pixtree.kernels import kernels_for
from pixtree.tokenizer.region_encoder import RegionEncoder, pixel_values
from pixtree.tokenizer.tokenizer import PAPER, PAPER_BUDGET, region_encoder
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.cuts import Level, cut_labels, opened_nodes

SIDE, TARGET = 224, 243.0  # pixels, and the mean of the paper's 240 and 246
PENALTIES = tuple(float(penalty) for penalty in np.geomspace(0.5, 16.0, 11))


def photo(path: Path) -> torch.Tensor:
    """The centre (1, 3, 224, 224) uint8 of a photo whose shorter side is scaled to 224."""
    image = Image.open(path).convert("RGB")
    scale = SIDE / min(image.size)
    image = image.resize([max(SIDE, round(side * scale)) for side in image.size], Image.Resampling.BICUBIC)
    left, top = ((side - SIDE) // 2 for side in image.size)
    pixels = np.asarray(image.crop((left, top, left + SIDE, top + SIDE)))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None]


class System(NamedTuple):
    """What the tree of the paper's system compares, and σ of its κ."""

    picks: str
    sigma: float

    def encoder(self) -> RegionEncoder:
        """The untrained encoder of the paper's preset, the same one for every system."""
        torch.manual_seed(0)
        made = region_encoder(PAPER.changed(picks=self.picks))
        with torch.no_grad():
            made.similarity.log_sigma.fill_(math.log(self.sigma))
        return made


SYSTEMS = (System("weighted", 1.0), System("weighted", math.exp(-1.0)), System("means", 1.0))  # the preset first
LEVELS = (1, 2, 3, 4)


class Found(NamedTuple):
    """Of one photo and system: tokens and the error of every penalty, and the regions of the first levels."""

    tokens: list[int]
    errors: list[float]
    levels: list[int]


@torch.no_grad()
def measured(path: Path) -> Iterator[Found]:
    """Every system on a photo."""
    image = photo(path)
    pixels, shape = pixel_values(image), (SIDE, SIDE)
    for system in SYSTEMS:
        encoder = system.encoder()
        planes = encoder.encode(pixels)[0] * encoder.decision.scale()
        rule = encoder.rule.at(encoder.similarity.precision, encoder.decision.plane_unit).rule
        tree = hierarchy_of_planes(planes, shape, rule)
        levels = [int(opened_nodes(tree, Level(level)).sum()) + 1 for level in LEVELS]
        cuts = [cut_labels(tree, replace(PAPER_BUDGET, penalty=penalty)) for penalty in PENALTIES]
        tokens = [int(labels.max()) + 1 for labels in cuts]
        errors = [squared_error(pixels, labels, count) for labels, count in zip(cuts, tokens, strict=True)]
        yield Found(tokens, errors, levels)


def squared_error(pixels: torch.Tensor, labels: torch.Tensor, count: int) -> float:
    """Of regions in their mean colours, values in 0..1."""
    kernels, flat = kernels_for(), labels.flatten()[None]
    painted = kernels.paint(kernels.region_means(pixels.flatten(2), flat, count), flat)
    return float((painted - pixels.flatten(2)).square().mean())


def calibrated(tokens: np.ndarray) -> float:
    """The γ at which the mean of tokens (photos, penalties) is the target."""
    # Counts fall with γ, so logarithms can be interpolated between the penalties that were tried.
    return float(np.exp(np.interp(-np.log(TARGET), -np.log(tokens.mean(axis=0)), np.log(PENALTIES))))


def rows_of(system: System, found: list[Found]) -> list[dict]:
    """A row per penalty."""
    tokens, errors = np.array([one.tokens for one in found]), np.array([one.errors for one in found])
    return [
        {"picks": system.picks, "sigma": system.sigma, "penalty": penalty, "mean": float(column.mean())}
        | {"deviation": float(column.std()), "least": int(column.min()), "most": int(column.max()), "mse": float(error.mean())}
        for penalty, column, error in zip(PENALTIES, tokens.T, errors.T, strict=True)
    ]


def at_target(system: System, found: list[Found]) -> dict:
    """A system where it gives the target: its γ, the error there, and regions of the first levels."""
    tokens, errors = np.array([one.tokens for one in found]), np.array([one.errors for one in found])
    chosen = calibrated(tokens)
    error = float(np.interp(np.log(chosen), np.log(PENALTIES), errors.mean(axis=0)))
    levels = np.array([one.levels for one in found]).mean(axis=0).tolist()
    return {"picks": system.picks, "sigma": system.sigma, "penalty": chosen, "mse": error, "levels": levels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("-o", "--output")
    parser.add_argument("--most", type=int, default=200)
    options = parser.parse_args()
    files = sorted(options.images.glob("*.*"))
    files = files[:: max(1, len(files) // options.most)][: options.most]
    found: list[list[Found]] = [[] for _ in SYSTEMS]
    for number, path in enumerate(files):
        for own, one in zip(found, measured(path), strict=True):
            own.append(one)
        if number % 20 == 19:
            print(number + 1, [at_target(system, own) for system, own in zip(SYSTEMS, found, strict=True)], flush=True)
    summary = [at_target(system, own) for system, own in zip(SYSTEMS, found, strict=True)]
    if options.output:
        command = f"python benchmarks/paper_counts.py $PIXTREE_DATA/imagenet_sample/images --most {len(files)}"
        write_record(record_of(command, found, summary), options.output)


def record_of(command: str, found: list[list[Found]], summary: list[dict]) -> dict:
    """The record, with a note on every system."""
    words = [
        f"{row['picks']} (σ = {row['sigma']:.2f}): γ = {row['penalty']:.2f}, MSE {row['mse']:.6f}, regions of levels 1 to "
        f"{len(LEVELS)} {', '.join(f'{count:.0f}' for count in row['levels'])}"
        for row in summary
    ]
    return {
        "benchmark": "table",
        "title": "Tokens of the paper's system at 224 px against the penalty scale",
        **provenance(command),
        "columns": [
            ["picks", "Tree compares", ""],
            ["sigma", "σ", ".2f"],
            ["penalty", "γ", ".2f"],
            ["mean", "Mean tokens", ".0f"],
            ["deviation", "Deviation", ".0f"],
            ["least", "Least", ".0f"],
            ["most", "Most", ".0f"],
            ["mse", "MSE of mean colours", ".6f"],
        ],
        "rows": [row for system, own in zip(SYSTEMS, found, strict=True) for row in rows_of(system, own)],
        "chosen": summary[0]["penalty"],
        "systems": summary,
        "notes": [
            f"{len(found[0])} unlabelled photos, the untrained encoder, φ = {PAPER_BUDGET.floor}. The paper reports 240 and 246 "
            f"tokens on average and states neither γ nor φ. The preset has γ = {PAPER_BUDGET.penalty}.",
            f"At {TARGET:.0f} tokens on average: {'; '.join(words)}.",
        ],
    }


if __name__ == "__main__":
    main()
