"""Partitions of a batch: every image for itself, side by side."""

import torch
from torch import Tensor

from pixtree.kernels.threads import each
from pixtree.trees.build import hierarchy_of_image
from pixtree.trees.cuts import Budget, cut
from pixtree.trees.partition import Partition


def partition_images(
    images: Tensor, budget: Budget, *, mask: Tensor | None = None, relax: bool = False, backend: str = "auto", **options: object
) -> Partition:
    """The partition of images (B, C, H, W) under one budget; `options` are those of `hierarchy_of_image`.

    Images run in threads (`PIXTREE_THREADS`); the result does not depend on their number.
    """

    def labels_of(image: Tensor) -> Tensor:
        tree = hierarchy_of_image(image, mask=mask, backend=backend, **options)  # type: ignore[arg-type]
        return cut(tree, budget, relax=relax).labels

    return Partition(torch.cat(each(labels_of, images.unbind())))
