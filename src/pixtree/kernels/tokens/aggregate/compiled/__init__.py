"""Aggregations in numba, each fused over all rounds: the default one with its gradient, and the paper's without."""

import torch
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.tokens.aggregate import Grown, Kernel, definition


def aggregate(features: Tensor, fixed: Tensor, grown: Grown, kernel: Kernel, mode: str = "straight") -> Tensor:
    """Features (B, N, d) of regions; fused for the default mode of whole regions and for raw weights, else the definition."""
    fused = None
    if kernel.name == "gaussian" and operators.in_full_precision(features):
        learned = (features, kernel.weight, kernel.precision)
        if mode == "straight" and grown.whole:
            fused = operators.straight_means
        elif mode == "raw" and not (torch.is_grad_enabled() and any(one.requires_grad for one in learned)):
            fused = operators.raw_sums
    if fused is None:
        return definition.aggregate(features, fixed, grown, kernel, mode)
    seen = features.shape[1] if kernel.compared is None else kernel.compared
    found: Tensor = fused(features, fixed, kernel.weight, kernel.precision, grown.labels, grown.regions, grown.levels, seen)
    return found
