"""Partitions of a batch: every image for itself, side by side."""

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.runtime.threads import each
from pixtree.trees.build import exact_cut_of_planes, hierarchy_of_planes
from pixtree.trees.cuts import Budget, Exactly, cut
from pixtree.trees.features import image_planes
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition
from pixtree.trees.relax import relaxed


def partition_images(
    images: Tensor,
    budget: Budget,
    options: TreeOptions = TreeOptions(),
    *,
    mask: Tensor | None = None,
    relax: bool = False,
    backend: str = "auto",
) -> Partition:
    """The partition of images (B, C, H, W) under one budget; `relax` polishes boundaries.

    Images run in threads (`PIXTREE_THREADS`); the result does not depend on their number.
    """

    def labels_of(image: Tensor) -> Tensor:
        planes, shape, coordinates = image_planes(image, options.compactness, backend)
        if mask is not None or not isinstance(budget, Exactly):
            tree = hierarchy_of_planes(planes, shape, options.rule, mask=mask, coordinates=coordinates, backend=backend)
            return cut(tree, budget, relax=relax).labels[0]
        labels = exact_cut_of_planes(planes, shape, budget.count, options.rule, backend).labels.view(shape)
        if not relax:
            return labels
        return relaxed(labels, planes.view(-1, *shape), kernels_for(backend, image.device), options.floor)

    return Partition(torch.stack(each(labels_of, images.unbind())))
