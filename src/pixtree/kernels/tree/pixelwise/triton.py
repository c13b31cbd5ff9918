"""The cut in which every pixel takes its best region, in Triton."""

from torch import Tensor

from pixtree.kernels.tree import MergeRule
from pixtree.kernels.tree.build.triton import grow, takes
from pixtree.kernels.tree.build.triton.leaves import whole
from pixtree.kernels.tree.choice import Choice
from pixtree.kernels.tree.choice.triton import chosen
from pixtree.kernels.tree.criterion import Scoring
from pixtree.kernels.tree.pixelwise import definition
from pixtree.kernels.tree.prune.triton import fill_levels


def pixelwise_cut(
    features: Tensor, shape: tuple[int, int], rule: MergeRule, scoring: Scoring, floor: float, levels: Tensor | None = None
) -> Tensor:
    """Each pixel's region of least IC among those of all levels, the larger of equals; see the definition."""
    if not takes(features, rule):
        return definition.pixelwise_cut(features, shape, rule, scoring, floor, levels)
    forest = grow(features[None], whole(shape), rule)
    if levels is not None:
        fill_levels(forest, features.shape[1], levels[None])
    return chosen(forest, features[None], shape, Choice(scoring, floor, True))[0]
