"""Tokens: the input of a Vision Transformer, and the way back to pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.trees.partition import Partition


@dataclass(frozen=True, eq=False)
class Tokens:
    """Token i of an image is region i of its partition.

    features: (B, N, D), zeros where not valid. valid: (B, N) bool. prefix: (B, K, D), the class and register tokens.
    full: whether every token is valid, so that attention needs no mask; known without a copy from the device.
    """

    features: Tensor
    valid: Tensor
    partition: Partition
    prefix: Tensor
    full: bool
    backend: str = "auto"

    def __repr__(self) -> str:
        batch, count, width = self.features.shape
        prefix = self.prefix.shape[1]
        before = "" if prefix == 0 else f", {prefix} prefix token{'' if prefix == 1 else 's'}"
        padded = "" if self.full else ", padded"
        return f"Tokens({batch} image{'' if batch == 1 else 's'}, {count} tokens of {width} numbers{padded}{before})"

    def _repr_png_(self) -> bytes:
        return self.partition._repr_png_()

    def sequence(self) -> Tensor:
        """Prefix and features, (B, K + N, D).

        >>> import torch, pixtree
        >>> tokens = pixtree.Tokenizer(pixtree.Exactly(16), width=32, prefix=1)(torch.zeros(1, 3, 48, 64))
        >>> tokens.sequence().shape
        torch.Size([1, 17, 32])
        """
        return torch.cat((self.prefix, self.features), dim=1)

    def sequence_mask(self) -> Tensor | None:
        """Which tokens of `sequence` attention may see, (B, K + N) bool; None if all."""
        if self.full:
            return None
        seen = torch.ones(self.prefix.shape[:2], dtype=torch.bool, device=self.valid.device)
        return torch.cat((seen, self.valid), dim=1)

    def to_pixels(self, values: Tensor) -> Tensor:
        """Any per-token values (B, N, C) painted over their regions, (B, C, H, W); differentiable.

        >>> import torch, pixtree
        >>> tokens = pixtree.Tokenizer(pixtree.Exactly(16), width=32)(torch.zeros(1, 3, 48, 64))
        >>> tokens.to_pixels(torch.arange(16.0)[None, :, None]).shape
        torch.Size([1, 1, 48, 64])
        """
        expected = tuple(self.valid.shape)
        if values.shape[:2] != expected or values.ndim != 3:
            raise ValueError(f"expected values (B, N, C) with B, N = {expected}, got {tuple(values.shape)}; drop prefix tokens")
        return painted(values, self.partition.labels, self.backend)


def painted(values: Tensor, labels: Tensor, backend: str = "auto") -> Tensor:
    """Values (B, N, C) of tokens over the pixels of labels (B, H, W), (B, C, H, W); differentiable."""
    planes = kernels_for(backend, values.device).paint(values, labels.flatten(1))
    return planes.view(*planes.shape[:2], *labels.shape[1:])
