"""Top-1 and top-5 accuracy of models and their variants, and how near they stay to the first of them."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.evaluation.labelled_pictures import LabelledPictures

COLUMNS = [
    ["variant", "Variant", ""],
    ["tokens", "Tokens", ""],
    ["left", "left at the end", ""],
    ["gflops", "GFLOPs", ".2f"],
    ["top1", "Top-1 ↑", ".4f"],
    ["error", "± standard error", ".4f"],
    ["top5", "Top-5 ↑", ".4f"],
    ["kept", "Share of the first's top-1 ↑", ".4f"],
    ["agreement", "Same answer as the first ↑", ".4f"],
    ["divergence", "KL from the first, nats ↓", ".4f"],
]


def check_classes(model: Any, data: LabelledPictures) -> None:
    """Refuse data whose classes a classifier does not have."""
    own = int(model.num_classes)
    if data.classes > own:
        raise ValueError(
            f"expected pictures of the {own} classes of the model, got class {data.classes - 1} in {data.name}; give a model with "
            "at least as many, or measure its features by knn or probe"
        )


def class_table(data: LabelledPictures, classes: int) -> Tensor:
    """Which classes count as right for every picture, (N, classes) bool."""
    table = torch.zeros(len(data), classes, dtype=torch.bool)
    for row, picture in zip(table, data.pictures, strict=True):
        row[list(picture.classes)] = True
    return table


def hits(logits: Tensor, right: Tensor, top: int) -> Tensor:
    """Whether one of the `top` classes of logits (N, classes) is right, (N,) float64."""
    best = logits.topk(min(top, logits.shape[1]), dim=1).indices
    return right.gather(1, best).any(dim=1).to(torch.float64)


def measures(found: Tensor, first: Tensor, right: Tensor) -> dict[str, float]:
    """Accuracy of logits (N, classes), and how near they are to those of the first model."""
    top1, reference = hits(found, right, 1), hits(first, right, 1).mean().item()
    divergence = functional.kl_div(
        found.double().log_softmax(1), first.double().log_softmax(1), reduction="batchmean", log_target=True
    )
    return {
        "top1": top1.mean().item(),
        "error": (top1.std() / math.sqrt(len(top1))).item() if len(top1) > 1 else math.nan,
        "top5": hits(found, right, 5).mean().item(),
        "kept": top1.mean().item() / reference if reference else math.nan,
        "agreement": (found.argmax(1) == first.argmax(1)).double().mean().item(),
        "divergence": divergence.item(),
    }


def accuracy_rows(answers: Sequence[Tensor], data: LabelledPictures) -> list[dict[str, float]]:
    """The measures of every model's logits, the first of which is what the others are compared with."""
    right = class_table(data, answers[0].shape[1])
    return [measures(found, answers[0], right) for found in answers]
