"""Normalisation between pixels in 0..1 and the inputs of a Vision Transformer; the one place that knows mean and std."""

import torch
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.runtime.precision import InFullPrecision


class Normalisation(InFullPrecision):
    """(x − mean) / std per channel, as scale · x + shift."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> None:
        super().__init__()
        if len(mean) != channels or len(std) != channels:
            raise ValueError(f"mean and std need one value per channel ({channels}), got {mean} and {std}; give as many")
        scale = 1.0 / torch.tensor(std)
        for name, values in (("mean", torch.tensor(mean)), ("std", torch.tensor(std)), ("scale", scale)):
            self.register_buffer(name, values, persistent=False)
        self.register_buffer("shift", -torch.tensor(mean) * scale, persistent=False)

    mean: Tensor  # (C,) each
    std: Tensor
    scale: Tensor
    shift: Tensor

    def undone(self, images: Tensor, backend: str = "auto") -> Tensor:
        """Pixels 0..1 of normalised images (B, C, H, W)."""
        return kernels_for(backend, images.device).denormalised(images, self.mean, self.std)
