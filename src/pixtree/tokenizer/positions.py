"""Positions: where the pixels of a region lie, as a joint histogram at p×p. [Section *Positional Embedding*, `tab:kernelpos`]"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.positions.definition import axis_bins


@dataclass(frozen=True)
class PositionOptions:
    """positions: bins p per side, 0 for none. position_kernel, bandwidth: how pixels count for bins, see `axis_bins`."""

    positions: int = 16
    position_kernel: str = "hard"
    bandwidth: float = 0.3


def resampled_table(table: Tensor, bins: int) -> Tensor:
    """A trained table (g·g, D) for another resolution, (p·p, D), such that coarse cells keep their embeddings in the mean.

    u + up(old − mean(u)), u the bicubic interpolation: at p = k·g the mean over each old cell's new cells is exactly the old
    embedding, so a patch on the old grid embeds as before. At other ratios the same correction holds to first order.
    """
    side = math.isqrt(table.shape[0])
    if side * side != table.shape[0]:
        raise ValueError(f"a table of positions has g·g rows, got {table.shape[0]}; leave out the rows of prefix tokens")
    if side == bins:
        return table.clone()
    grid = table.T.reshape(1, -1, side, side).to(torch.float32)
    smooth = functional.interpolate(grid, size=(bins, bins), mode="bicubic", align_corners=False)
    missing = grid - functional.adaptive_avg_pool2d(smooth, (side, side))
    smooth = smooth + functional.interpolate(missing, size=(bins, bins), mode="nearest")
    return smooth.reshape(-1, bins * bins).T.to(table.dtype)


class Positions(nn.Module):
    """Embeddings of positions: P(S) times a table (p·p, D)."""

    def __init__(self, width: int, bins: int = 16, kernel: str = "hard", bandwidth: float = 0.3, backend: str = "auto") -> None:
        super().__init__()
        if bins < 1 or not bandwidth > 0:
            raise ValueError(
                f"positions need at least 1 bin and a bandwidth above 0, got {bins} and {bandwidth}; 16 and 0.3 are usual"
            )
        axis_bins(1, 1, kernel, bandwidth)
        self.bins, self.kernel, self.bandwidth, self.backend = bins, kernel, bandwidth, backend
        self.table = nn.Parameter(torch.randn(bins * bins, width) * 0.02)

    def forward(self, labels: Tensor, count: int) -> Tensor:
        """Embeddings (B, N, D) of the regions of labels (B, H, W)."""
        kernels = kernels_for(self.backend, labels.device)
        if self.kernel == "hard":
            return kernels.embed_cells(labels, count, (self.bins, self.bins), self.table)
        return kernels.joint_histogram(labels, count, self.bins, self.kernel, self.bandwidth).to(self.table.dtype) @ self.table

    @classmethod
    def from_table(
        cls, table: Tensor, bins: int | None = None, kernel: str = "hard", bandwidth: float = 0.3, backend: str = "auto"
    ) -> "Positions":
        """Positions that continue a trained table (g·g, D), resampled to `bins` if that is given."""
        weights = table.detach() if bins is None else resampled_table(table.detach(), bins)
        positions = cls(table.shape[1], math.isqrt(weights.shape[0]), kernel, bandwidth, backend)
        with torch.no_grad():
            positions.table.copy_(weights)
        return positions
