"""The nested cut with exactly n regions, and the levels in which its tree grew."""

from collections.abc import Sequence

import torch
from torch import Tensor

from pixtree.kernels.tree import ExactCut, MergeRule
from pixtree.kernels.tree.build.definition import Round, build_with_rounds
from pixtree.kernels.tree.cut.definition import cut_labels, open_largest


def exact_cut(
    features: Tensor,
    shape: tuple[int, int],
    rule: MergeRule,
    count: int,
    levels: Tensor | None = None,
    coarser: Sequence[int] = (),
) -> ExactCut:
    """The nested cut with exactly `count` regions, from planes (C, H·W) float32.

    levels: (4, L) int32, see `ExactCut`, to be filled with the levels of the tree, whose rule must be prunable.
    coarser: counts up to `count`, whose nested cuts are returned as well.
    """
    inside = torch.ones(shape, dtype=torch.bool, device=features.device)
    tree, rounds = build_with_rounds(features, inside, rule)
    if levels is not None:
        fill_levels(rounds, features.shape[1], levels)
    found = [cut_labels(tree.parent, open_largest(tree.gain, tree.left, tree.right, regions - 1)) for regions in (count, *coarser)]
    return ExactCut(found[0], levels, tuple(found[1:]))


def fill_levels(rounds: Sequence[Round], pixels: int, levels: Tensor) -> None:
    """Write the rounds of an image of `pixels` pixels as levels."""
    levels.zero_()
    levels[3, 1] = pixels
    here, begin = 0, 0
    for number, one in enumerate(rounds):
        sizes = torch.bincount(one.component)
        up = here + one.pick.numel()
        levels[0, here:up] = one.pick.to(torch.int32)
        levels[1, here:up] = torch.argsort(one.component, stable=True).to(torch.int32)
        levels[2, begin + 1 : begin + 1 + sizes.numel()] = sizes.cumsum(0).to(torch.int32)
        levels[3, number + 2] = up + sizes.numel()
        here, begin = up, begin + sizes.numel() + 1
