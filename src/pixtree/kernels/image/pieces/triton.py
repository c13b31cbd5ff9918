"""Connected pieces of label maps in Triton, numbered without a read by the host."""

import torch
from torch import Tensor

from pixtree.kernels.tree.build.triton.leaves import whole
from pixtree.kernels.tree.zones.triton import roots


def connected_pieces(labels: Tensor) -> Tensor:
    """4-connected pieces of equal labels (H, W) int32, numbered from 0 by first pixel in raster order; −1 where labels are."""
    return pieces_of_maps(labels[None])[0]


def pieces_of_maps(labels: Tensor) -> Tensor:
    """The same of label maps (B, H, W)."""
    shape = (int(labels.shape[1]), int(labels.shape[2]))
    root = roots(labels.flatten(1)[:, None].contiguous(), whole(shape)).to(torch.int64)
    outside = labels.flatten(1) < 0
    is_first = (root == torch.arange(root.shape[1], device=root.device)) & ~outside
    number = (is_first.cumsum(1) - 1).gather(1, root).masked_fill(outside, -1)
    return number.view(labels.shape).to(torch.int32)
