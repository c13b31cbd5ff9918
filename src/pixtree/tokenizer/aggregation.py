"""Kernel-weighted aggregation: the features of regions, differentiable in features and kernel. [`eq:weighted_aggr`]"""

import torch
from torch import Tensor, nn

from pixtree.kernels import Kernels
from pixtree.kernels.tokens.aggregate import MODES, SIMILARITIES, Grown, Kernel
from pixtree.runtime.transfer import scalar
from pixtree.tokenizer.cutting import Cuts, Distance

__all__ = ["MODES", "SIMILARITIES", "Similarity", "region_features"]


class Similarity(nn.Module):
    """The paper's κ on the distance that decides the partition; the Gaussian has a learnable σ. See `log_kernel`."""

    def __init__(self, kernel: str = "gaussian") -> None:
        super().__init__()
        if kernel not in SIMILARITIES:
            raise ValueError(f"a kernel is one of {', '.join(SIMILARITIES)}, got {kernel!r}; choose one of these")
        self.kernel = kernel
        self.log_sigma = nn.Parameter(torch.zeros(())) if kernel == "gaussian" else None

    @property
    def precision(self) -> Tensor | float:
        """π = 1/2σ², a scalar > 0; ½ for kernels without σ."""
        return 0.5 if self.log_sigma is None else 0.5 * torch.exp(-2.0 * self.log_sigma)


def region_features(
    features: Tensor, cuts: Cuts, similarity: Similarity, distance: Distance, mode: str, kernels: Kernels
) -> Tensor:
    """f* (B, N, d) of features (B, d, P).

    Without levels (a partition that was not cut from a tree, or means without gradient) regions take plain means.
    """
    labels = cuts.partition.labels.flatten(1)
    if cuts.levels is None or cuts.fixed is None or mode == "mean":
        return kernels.region_means(features, labels, cuts.count)
    weight, precision = (scalar(one, features) for one in (distance.weight, similarity.precision))
    compared = features.shape[1] if distance.compared is None else distance.compared
    grown, kernel = Grown(labels, cuts.count, cuts.levels, cuts.whole), Kernel(weight, precision, similarity.kernel, compared)
    return kernels.aggregate(features, cuts.fixed.to(features.dtype), grown, kernel, mode)
