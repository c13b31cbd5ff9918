"""Normalisation: between pixels 0..1 and what a Vision Transformer was trained on; the one place that knows mean and std."""

import torch
from torch import Tensor, nn


class Normalisation(nn.Module):
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

    def undone(self, images: Tensor) -> Tensor:
        """Pixels 0..1 of normalised images (B, C, H, W)."""
        mean, std = (one.to(images.dtype)[:, None, None] for one in (self.mean, self.std))
        return torch.addcmul(mean, images, std)
