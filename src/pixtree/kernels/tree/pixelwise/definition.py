"""The cut in which every pixel takes its best region, by way of the whole tree."""

import torch
from torch import Tensor

from pixtree.kernels.image.pieces.definition import connected_pieces
from pixtree.kernels.tree import MergeRule
from pixtree.kernels.tree.attributes.definition import sizes, volumes
from pixtree.kernels.tree.build.definition import build_with_rounds
from pixtree.kernels.tree.criterion import Scoring
from pixtree.kernels.tree.criterion.definition import misfits, scores
from pixtree.kernels.tree.cut.definition import best_ancestors
from pixtree.kernels.tree.prune.definition import fill_levels


def pixelwise_cut(
    features: Tensor, shape: tuple[int, int], rule: MergeRule, scoring: Scoring, floor: float, levels: Tensor | None = None
) -> Tensor:
    """Each pixel's region of least IC among those of all levels, the larger of equals; what this tears apart falls into pieces.

    features: planes (C, H·W) float32, all of them data. floor: φ of the criterion, which scores levels alone. levels: (4, L) int32,
    see `ExactCut`, to be filled with the levels of the tree. Returns (H, W) int32, numbered by first pixel.
    """
    inside = torch.ones(shape, dtype=torch.bool, device=features.device)
    tree, rounds = build_with_rounds(features, inside, rule)
    if levels is not None:
        fill_levels(rounds, features.shape[1], levels)
    fit, size = misfits(features, tree.left, tree.right, floor), sizes(tree.left, tree.right)
    score = scores(fit, size, volumes(tree.parent, tree.left, tree.right, inside), tree, scoring)
    node = best_ancestors(score.masked_fill(score.isnan(), torch.inf), tree.parent)
    return connected_pieces(node.view(shape))
