"""The nested cut with exactly n regions, of one image and of a batch."""

from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.tree import MOST_LEVELS


class CutBatch(NamedTuple):
    """The cuts of a batch, and what their gradients need."""

    labels: Tensor  # (B, H, W) int32, numbered by first pixel
    fixed: Tensor  # (B, K, H·W) float32: the planes that are not learned, in distances; empty unless asked for
    levels: Tensor  # (B, 4, L) int32, see `ExactCut`; empty unless asked for


def empty_batch(images: Tensor, features: Tensor, colour: bool, unit: float, levels: bool) -> CutBatch:
    """The tensors of a batch's cuts, which are still to be filled."""
    batch, channels, height, width = images.shape
    planes = (channels if colour else 0) + (2 if unit else 0)
    sizes = (planes, height * width, 4, 2 * height * width + MOST_LEVELS) if levels else (0, 0, 0, 0)
    return CutBatch(
        features.new_empty((batch, height, width), dtype=torch.int32),
        features.new_empty((batch, *sizes[:2]), dtype=torch.float32),
        features.new_empty((batch, *sizes[2:]), dtype=torch.int32),
    )
