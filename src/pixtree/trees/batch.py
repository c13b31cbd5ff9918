"""Partitions of a batch: every image for itself, side by side."""

import torch
from torch import Tensor

from pixtree.runtime.backend import backend as choose_backend
from pixtree.runtime.threads import each
from pixtree.trees.build import exact_cut_of_features, features_of_image, hierarchy_of_features
from pixtree.trees.cuts import Budget, Exactly, cut
from pixtree.trees.partition import Partition
from pixtree.trees.relax import relaxed


def partition_images(
    images: Tensor,
    budget: Budget,
    *,
    mask: Tensor | None = None,
    relax: bool = False,
    compactness: float = 0.0,
    backend: str = "auto",
    **options: object,
) -> Partition:
    """The partition of images (B, C, H, W) under one budget; `options` are those of `hierarchy_of_features`.

    Images run in threads (`PIXTREE_THREADS`); the result does not depend on their number.
    """

    def labels_of(image: Tensor) -> Tensor:
        features, shape = features_of_image(image, compactness, backend)
        if mask is not None or not isinstance(budget, Exactly):
            tree = hierarchy_of_features(features, shape, mask=mask, backend=backend, **options)  # type: ignore[arg-type]
            return cut(tree, budget, relax=relax).labels[0]
        labels = exact_cut_of_features(features, shape, budget.count, backend=backend, **options).labels.view(shape)  # type: ignore[arg-type]
        return relaxed(labels, features.view(-1, *shape), choose_backend(backend, image.device)) if relax else labels

    return Partition(torch.stack(each(labels_of, images.unbind())))
