"""Tokens: what a Vision Transformer reads, and the way back to pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.trees.partition import Partition


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token i of an image is region i of its partition.

    features: (B, N, D), zeros where not valid. valid: (B, N) bool. prefix: (B, K, D), the class and register tokens.
    full: whether every row is valid, so that attention needs no mask; known without asking the device.
    """

    features: Tensor
    valid: Tensor
    partition: Partition
    prefix: Tensor
    full: bool
    backend: str = "auto"

    def sequence(self) -> Tensor:
        """Prefix and features, (B, K + N, D)."""
        return torch.cat((self.prefix, self.features), dim=1)

    def sequence_mask(self) -> Tensor | None:
        """Which rows of `sequence` attention may see, (B, K + N) bool; None where it may see all."""
        if self.full:
            return None
        seen = torch.ones(self.prefix.shape[:2], dtype=torch.bool, device=self.valid.device)
        return torch.cat((seen, self.valid), dim=1)

    def to_pixels(self, values: Tensor) -> Tensor:
        """Any per-token values (B, N, C) painted over their regions, (B, C, H, W); differentiable."""
        labels = self.partition.labels
        if values.shape[:2] != self.valid.shape or values.ndim != 3:
            raise ValueError(
                f"expected values (B, N, C) with B, N = {tuple(self.valid.shape)}, got {tuple(values.shape)}; drop prefix rows"
            )
        planes = kernels_for(self.backend, values.device).paint(values, labels.flatten(1))
        return planes.view(*planes.shape[:2], *labels.shape[1:])
