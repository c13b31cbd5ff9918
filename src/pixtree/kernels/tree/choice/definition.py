"""Cuts by way of whole trees: by criteria, of levels, and nested ones."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pixtree.kernels.tree import MergeRule, Tree
from pixtree.kernels.tree.choice import Choice
from pixtree.kernels.tree.prune import CutBatch, empty_batch
from pixtree.kernels.tree.prune.definition import planes_of_image
from pixtree.runtime.threads import each

if TYPE_CHECKING:
    from pixtree.kernels import Kernels


def choose_batch(
    kernels: "Kernels",
    images: Tensor,
    features: Tensor,
    scale: Tensor | float,
    choice: Choice,
    colour: bool,
    unit: float,
    rule: MergeRule,
    levels: bool,
) -> CutBatch:
    """The labels that `choice` gives for images (B, C, H, W) with features f (B, d, H·W) float32; the rest as in `cut_batch`."""
    made, shape = empty_batch(images, features, colour, unit, levels), (int(images.shape[2]), int(images.shape[3]))
    seen, scoring = int(images.shape[1]) if colour else 0, choice.scoring

    def of_image(number: int) -> Tensor:
        planes = planes_of_image(kernels, made, number, images, features, scale, colour, unit, rule)
        kept = made.levels[number] if levels else None
        if scoring is not None and choice.pixelwise and scoring.levels and not unit:
            return kernels.pixelwise_cut(planes, shape, rule, scoring, choice.floor, kept)
        inside = torch.ones(shape, dtype=torch.bool, device=planes.device)
        tree = kernels.build(planes, inside, rule, levels)
        if kept is not None:
            kernels.tree_levels(tree, kept)
        data = torch.cat((planes[:seen], planes[seen + 2 :])) if unit else planes
        return chosen(kernels, tree, data, inside, choice)

    return made._replace(labels=torch.stack(each(of_image, range(len(images)))))


def chosen(kernels: "Kernels", tree: Tree, data: Tensor, inside: Tensor, choice: Choice) -> Tensor:
    """The labels (H, W) int32 that `choice` gives for a tree; data: the planes that are evidence."""
    children, leaves = (tree.left, tree.right), data.shape[1]
    if choice.scoring is None:
        nested = bool(choice.regions)
        opened = kernels.open_largest(tree.gain, *children, choice.regions - 1) if nested else tree.level[leaves:] > choice.level
        return kernels.cut_labels(tree.parent, opened).view(inside.shape)
    fit, size = kernels.misfits(data, *children, choice.floor), kernels.sizes(*children)
    score = kernels.scores(fit, size, kernels.volumes(tree.parent, *children, inside), tree, choice.scoring)
    if choice.pixelwise:
        node = kernels.best_ancestors(score.masked_fill(score.isnan(), torch.inf), tree.parent)
        return kernels.connected_pieces(node.to(torch.int32).view(inside.shape))
    opened = kernels.cheapest_cut(score, *children)[0]
    if choice.at_most and int(opened.sum()) >= choice.at_most:
        ranked = torch.where(opened, kernels.persistence(tree.gain, *children), -1.0)
        opened = kernels.select_largest(ranked, choice.at_most - 1)
    return kernels.cut_labels(tree.parent, opened).view(inside.shape)
