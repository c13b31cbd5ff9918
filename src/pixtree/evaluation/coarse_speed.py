"""Images per second of a model and of the same model with fewer tokens, for `pixtree evaluate speed`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pixtree.evaluation.variants import efficiency_rows, model_of
from pixtree.models.coarsening import CoarseViT, Speed, coarsen
from pixtree.models.retrofit import timm_model

SPEED_COLUMNS = [
    ["variant", "Model", ""],
    ["gflops", "GFLOPs per image", ".2f"],
    ["compute", "Compute", ".3f"],
    ["images_per_second", "Images/s", ".2f"],
    ["ratio", "Images/s against the model", ".3f"],
    ["least", "least", ".3f"],
    ["most", "most", ".3f"],
    ["counts", "Tokens after each block", ""],
]


def untouched(name: str, weights: Path | None = None, size: int | None = None) -> Any:
    """A model of timm by name, with random weights unless a file is given, or that of a folder; at its own size or another."""
    is_name = weights is None and not Path(name).is_dir()
    model = timm_model(name, False, {}) if is_name else model_of(name, weights)
    if size is not None:
        model.set_input_size(img_size=(size, size))
    return model.eval()


@contextmanager
def using_threads(count: int) -> Iterator[int]:
    """`count` threads of torch for a while, or as many as there are with 0; gives their number."""
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def coarsened_at(base: Any, shares: Sequence[float], times: Sequence[float], batch: int) -> dict[str, Any]:
    """The model as it is, and coarsened to shares of its compute and by measured time to speeds, by what was asked for."""
    models = {"as it is": base}
    models |= {f"compute={share:g}": coarsen(base, share) for share in shares}
    return models | {f"speed={one:g}": coarsen(base, speed=Speed(one, batch)) for one in times}


def speed_rows(
    models: Mapping[str, Any], images: Tensor, rounds: int, report: Callable[[int], None] = lambda count: None
) -> list[dict[str, Any]]:
    """A row per model, the first of which the others are compared with."""
    rows = efficiency_rows(models, images, rounds, report)
    for row, model in zip(rows, models.values(), strict=True):
        if isinstance(model, CoarseViT):
            row |= {"compute": model.compute, "counts": " ".join(map(str, model.counts))}
        else:
            row["compute"] = 1.0
    return rows
