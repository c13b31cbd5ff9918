"""Pooling of patches into regions: a region's row is the mean of its pixels', which are bilinear mixtures of patches."""

import torch
from torch import Tensor

from pixtree.models.positions import Grid


def bilinear_shares(labels: Tensor, grid: Grid, count: int) -> Tensor:
    """How much each patch of a grid weighs in each region: (B, count, patches) float32, rows with the sum 1 or, without pixels, 0.

    labels: (B, H, W), of pictures that the grid covers; negative ones count nowhere. A pixel mixes its four nearest patches.
    """
    batch, height, width = labels.shape
    down, across = (_ends(length, side, labels.device) for length, side in zip((height, width), grid, strict=True))
    patches = grid[0] * grid[1]
    region = labels.to(torch.int64).flatten(1)
    inside = region >= 0
    start = (torch.arange(batch, device=labels.device)[:, None] * count + region) * patches
    total = torch.zeros(batch * count * patches, dtype=torch.float64, device=labels.device)
    for row, weight in down:
        for column, other in across:
            place = start + (row[:, None] * grid[1] + column).flatten()
            amount = (weight[:, None] * other).flatten().expand(batch, -1)
            total += torch.bincount(place[inside], amount[inside], minlength=total.numel())
    shares = total.view(batch, count, patches)
    return (shares / shares.sum(dim=2, keepdim=True).clamp_min(1e-12)).to(torch.float32)


def _ends(length: int, side: int, device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """The two nearest patches along one axis for every pixel, (length,), and their weights, as bilinear interpolation has them."""
    place = ((torch.arange(length, device=device, dtype=torch.float64) + 0.5) * side / length - 0.5).clamp(0, side - 1)
    low = place.to(torch.int64).clamp_max(max(side - 2, 0))
    return [(low, 1 - (place - low)), ((low + 1).clamp_max(side - 1), place - low)]
