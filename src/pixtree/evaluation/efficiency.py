"""Efficiency: parameters, GFLOPs, tokens/s and images/s of models that take turns on the same images. [`tab:efficiency`]"""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.evaluation.variants import cost_of, parameters_of
from pixtree.runtime.backend import wait_for

COLUMNS = [
    ["variant", "Variant", ""],
    ["tokens", "Tokens", ""],
    ["parameters", "Parameters, M", ".2f"],
    ["gflops", "GFLOPs per image", ".2f"],
    ["tokens_per_second", "Tokens/s", ".0f"],
    ["images_per_second", "Images/s", ".2f"],
    ["ratio", "Images/s against the first", ".3f"],
    ["least", "least", ".3f"],
    ["most", "most", ".3f"],
]


def photo_batch(batch: int, side: int) -> Tensor:
    """Different crops of scikit-image's photos, normalised to −1..1, (batch, 3, side, side): what timm models take."""
    from skimage import data

    crops = []
    for number in range(batch):
        pixels = (data.astronaut, data.coffee, data.chelsea)[number % 3]()  # type: ignore[no-untyped-call]
        picture = torch.from_numpy(pixels).permute(2, 0, 1)
        start = 8 * (number // 3)
        crop = picture[None, :, start : start + 280, start : start + 400].to(torch.float32)
        crops.append(functional.interpolate(crop, (side, side), mode="bilinear", antialias=True))
    return torch.cat(crops).round() / 127.5 - 1.0


@torch.inference_mode()
def seconds(model: Any, images: Tensor) -> float:
    """The time that one batch takes."""
    wait_for(images.device)
    start = time.perf_counter()
    model(images)
    wait_for(images.device)
    return time.perf_counter() - start


def in_turns(
    models: Mapping[str, Any], images: Tensor, rounds: int, report: Callable[[int], None] = lambda count: None
) -> dict[str, list[float]]:
    """Seconds of every model in every round; which of them goes first changes from round to round, and one round warms up."""
    found: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(rounds + 1):
        for name in list(models)[:: -1 if turn % 2 else 1]:
            taken = seconds(models[name], images)
            if turn:
                found[name].append(taken)
        report(1)
    return found


def efficiency_rows(
    models: Mapping[str, Any], images: Tensor, rounds: int, report: Callable[[int], None] = lambda count: None
) -> list[dict[str, Any]]:
    """A row per model; ratios are medians of those of single rounds, against the first."""
    found = in_turns(models, images, rounds, report)
    first, rows = next(iter(found.values())), []
    for name, model in models.items():
        cost, each = cost_of(model), sorted(a / b for a, b in zip(first, found[name], strict=True))
        speed = len(images) / statistics.median(found[name])
        rows.append(
            {
                "variant": name,
                "tokens": cost.tokens,
                "parameters": parameters_of(model) / 1e6,
                "gflops": cost.gflops,
                "tokens_per_second": speed * cost.tokens,
                "images_per_second": speed,
                "ratio": statistics.median(each),
                "least": each[0],
                "most": each[-1],
            }
        )
    return rows
