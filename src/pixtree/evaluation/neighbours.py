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
    """Per k the share of tested features (M, D) whose k nearest learned ones (N, D) by cosine vote for the right class (M,)."""
    answers = neighbour_answers(learned, classes, tested, counts)
    return {count: float((found == truth).double().mean()) for count, found in answers.items()}


def neighbour_answers(learned: Tensor, classes: Tensor, tested: Tensor, counts: Sequence[int] = COUNTS) -> dict[int, Tensor]:
    """Per k the classes (M,) that the k nearest learned features (N, D) of tested ones (M, D) by cosine vote for.

    A neighbour at cosine c votes with exp(c / 0.07). classes (N,). A k above N takes all N.
    """
    if len(learned) < 1:
        raise ValueError("neighbours need pictures to learn from, got none; give a train part")
    number, known = 1 + int(classes.max()), functional.normalize(learned, dim=1)
    found: dict[int, list[Tensor]] = {count: [] for count in counts}
    for rows in torch.split(tested, CHUNK):
        near = (functional.normalize(rows, dim=1) @ known.T).topk(min(max(counts), len(known)), dim=1)
        votes, voted = (near.values / TEMPERATURE).exp(), classes[near.indices]
        for count in counts:
            sums = torch.zeros(len(rows), number).scatter_add_(1, voted[:, :count], votes[:, :count])
            found[count].append(sums.argmax(1))
    return {count: torch.cat(parts) for count, parts in found.items()}


def best_count(found: dict[int, float]) -> int:
    """The k of the highest accuracy, the smallest of equals."""
    return max(found, key=lambda count: (found[count], -count))
