"""Boundary polishing in numba: the definition's loops, compiled."""

from torch import Tensor

from pixtree.kernels.image.polish import definition
from pixtree.runtime.jit import kernel, shared

for _loop in (
    definition.logarithm,
    definition.sum_regions,
    definition.describe_regions,
    definition.keeps_connected,
    definition.misfit,
    definition.move_pixel,
):
    shared(_loop)
polish_in_place = kernel(definition.polish_in_place)


def relax(
    labels: Tensor, features: Tensor, sweeps: int, smoothness: float, floor: float, fixed: Tensor | None = None
) -> Tensor:  # fmt: skip
    """Labels (H, W) int32 after boundary polishing; features are planes (C, H, W) float32. See the definition."""
    polished = labels.clone()
    state = definition.empty_state(int(labels.max()) + 1, features.shape[0])
    kept = definition.NOWHERE if fixed is None else fixed.contiguous().numpy()
    polish_in_place(polished.numpy(), features.contiguous().numpy(), kept, *state, sweeps, smoothness, floor)
    return polished
