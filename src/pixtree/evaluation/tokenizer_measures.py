"""Reconstructions by a pretrained tokenizer: W f* over its regions. [`tab:hyperparam_ablations`, `tab:sensitivity_gaussian`]"""

from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.tokenizer.region_encoder import RegionEncoder
from pixtree.trees.cuts import Budget

TOKENIZER_COLUMNS = [
    ["run", "Run", ""],
    ["changed", "Changed", ""],
    ["mse", "MSE ↓", ".5f"],
    ["ssim", "SSIM ↑", ".4f"],
    ["tokens", "Tokens", ".1f"],
]


class Pretrained(NamedTuple):
    """An encoder that a recipe trained, its budget, and how its recipe differs from that of the paper."""

    encoder: RegionEncoder
    budget: Budget
    changed: str


def image_at(path: str | Path, size: int | None = None) -> Tensor:
    """An image file as (3, H, W) uint8; with a size, the shorter side gets it and the centre is cropped to a square."""
    with Image.open(path) as opened:
        image = opened.convert("RGB")
    if size is not None:
        image = ImageOps.fit(image, (size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


@torch.no_grad()
def reconstruction(encoder: RegionEncoder, budget: Budget, image: Tensor) -> dict[str, float]:
    """Squared error and SSIM of an image (3, H, W) uint8 painted with W f*, in units of 0..1, and its tokens."""
    from skimage.metrics import structural_similarity

    regions = encoder(image[None], budget)
    painted = kernels_for(encoder.backend, regions.labels.device).paint(regions.colours, regions.labels)
    found = painted[0].clamp(0, 1).view(image.shape).numpy()
    truth = image.numpy().astype(np.float32) / 255
    similarity = structural_similarity(truth, found, channel_axis=0, data_range=1.0)  # type: ignore[no-untyped-call]
    error = float(np.square(truth - found).mean())
    return {"mse": error, "ssim": float(similarity), "tokens": float(regions.partition.counts[0])}


def reconstruction_rows(
    runs: dict[str, Pretrained],
    images: Iterable[Tensor],
    report: Callable[[int], None] = lambda count: None,
) -> list[dict[str, Any]]:
    """The mean measures of every run over the images."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    for image in images:
        for name, run in runs.items():
            found[name].append(reconstruction(run.encoder, run.budget, image))
        report(1)
    means = {name: {key: fmean(one[key] for one in rows) for key in rows[0]} for name, rows in found.items()}
    return [{"run": name, "changed": run.changed, **means[name]} for name, run in runs.items()]
