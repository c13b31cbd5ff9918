"""k nearest neighbours: how well classes lie together in the features of a model, without training a classifier."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

COUNTS = (10, 20, 50, 100, 150, 200)  # of the paper, which reports the best
TEMPERATURE = 0.07  # DINO's, by whose protocol neighbours vote
CHUNK = 1024  # test pictures at a time


def neighbour_accuracy(
    learned: Tensor, classes: Tensor, tested: Tensor, truth: Tensor, counts: Sequence[int] = COUNTS
) -> dict[int, float]:
    """Per k the share of tested features (M, D) whose k nearest learned ones (N, D) by cosine vote for the right class.

    A neighbour at cosine c votes with exp(c / 0.07). classes (N,), truth (M,). A k above N takes all N.
    """
    if len(learned) < 1:
        raise ValueError("neighbours need pictures to learn from, got none; give a train part")
    number = 1 + int(max(classes.max(), truth.max()))
    known = functional.normalize(learned, dim=1)
    right = dict.fromkeys(counts, 0.0)
    for rows, wanted in zip(torch.split(tested, CHUNK), torch.split(truth, CHUNK), strict=True):
        near = (functional.normalize(rows, dim=1) @ known.T).topk(min(max(counts), len(known)), dim=1)
        votes, voted = (near.values / TEMPERATURE).exp(), classes[near.indices]
        for count in counts:
            sums = torch.zeros(len(rows), number).scatter_add_(1, voted[:, :count], votes[:, :count])
            right[count] += float((sums.argmax(1) == wanted).sum())
    return {count: total / len(tested) for count, total in right.items()}


def best_count(found: dict[int, float]) -> int:
    """The k of the highest accuracy, the smallest of equals."""
    return max(found, key=lambda count: (found[count], -count))
