"""Cuts by criteria, of levels, and nested ones by way of whole trees: of batches in Triton, without a read by the host."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from pixtree.kernels.image.pieces.triton import pieces_of_maps
from pixtree.kernels.image.planes.triton import planes_of_batch, refuse_out_of_range
from pixtree.kernels.tree import MergeRule
from pixtree.kernels.tree.attributes.triton import sizes_of_trees, volumes_of_trees
from pixtree.kernels.tree.build.triton import Forest, grow, takes
from pixtree.kernels.tree.build.triton.leaves import whole
from pixtree.kernels.tree.choice import Choice, definition
from pixtree.kernels.tree.criterion.triton import misfits_of_trees, scores_of_trees
from pixtree.kernels.tree.cut.triton import labels_of_cuts, select_largest
from pixtree.kernels.tree.cut.triton.choosing import best_above, cheapest_nodes
from pixtree.kernels.tree.cut.triton.scales import scales
from pixtree.kernels.tree.prune import CutBatch, empty_batch
from pixtree.kernels.tree.prune.triton import fill_levels
from pixtree.runtime.launch import chunks

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
    """The labels that `choice` gives for a batch; see the definition."""
    shape, channels = (int(images.shape[2]), int(images.shape[3])), int(images.shape[1]) if colour else 0
    if not takes(features, rule, channels + (2 if unit else 0)):
        return definition.choose_batch(kernels, images, features, scale, choice, colour, unit, rule, levels)
    made = empty_batch(images, features, colour, unit, levels)
    for part in chunks(len(images), shape[0] * shape[1]):
        planes = planes_of_batch(images[part], features[part], colour, unit, scale, made.fixed[part] if levels else None)
        refuse_out_of_range(planes, rule.floor)
        forest = grow(planes, whole(shape), rule)
        if levels:
            fill_levels(forest, planes.shape[2], made.levels[part])
        data = torch.cat((planes[:, :channels], planes[:, channels + 2 :]), 1) if unit else planes
        made.labels[part] = chosen(forest, data, shape, choice)
    return made


def chosen(forest: Forest, data: Tensor, shape: tuple[int, int], choice: Choice) -> Tensor:
    """The labels (B, H, W) int32 that `choice` gives for trees; data: the planes (B, C, H·W) that are evidence."""
    trees, pixels = (forest.parent, forest.left, forest.right), shape[0] * shape[1]
    if choice.scoring is None:
        opened = forest.level[:, pixels:] > choice.level
        if choice.regions:
            opened = select_largest(scales(*trees, forest.gain), choice.regions - 1)
        return labels_of_cuts(forest.parent, opened).view(-1, *shape)
    size = sizes_of_trees(*trees)
    fit, volume = misfits_of_trees(data, size, *trees, choice.floor), volumes_of_trees(*trees, whole(shape))
    score = scores_of_trees(fit, size, volume, forest.parent, forest.level, forest.altitude, choice.scoring)
    if choice.pixelwise:
        node = best_above(score.masked_fill(score.isnan(), torch.inf), forest.parent)
        return pieces_of_maps(node.view(-1, *shape))
    opened = cheapest_nodes(score, *trees)[0]
    if choice.at_most and pixels > 1:
        ranked = torch.where(opened, scales(*trees, forest.gain), -1.0)
        fewer = select_largest(ranked, min(choice.at_most, pixels) - 1)
        opened = torch.where(opened.sum(1, keepdim=True) >= choice.at_most, fewer, opened)
    return labels_of_cuts(forest.parent, opened).view(-1, *shape)
