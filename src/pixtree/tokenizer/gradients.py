"""Gradient histograms: the texture of a region as a joint histogram of its image gradients, for models from scratch."""

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from pixtree.kernels import Kernels, kernels_for

SCHARR = (3.0, 10.0, 3.0)  # along an edge; across it the difference of the neighbours


def scharr(images: Tensor) -> Tensor:
    """Vertical and horizontal derivative (B, 2, H, W) of the mean channel, in −1..1 for values in 0..1; borders repeat."""
    grey = functional.pad(images.mean(dim=1, keepdim=True), (1, 1, 1, 1), mode="replicate")[:, 0]
    return torch.stack((_across(grey), _across(grey.mT).mT), dim=1)


def _across(grey: Tensor) -> Tensor:
    """The derivative from row to row of (B, H + 2, W + 2), smoothed along the rows, (B, H, W)."""
    width = grey.shape[2] - 2
    smooth = sum(weight / 16.0 * grey[:, :, start : start + width] for start, weight in enumerate(SCHARR))
    return smooth[:, 2:] - smooth[:, :-2]  # type: ignore[index]


def compressed(gradients: Tensor, strength: Tensor) -> Tensor:
    """arcsinh(m g) / arcsinh(m): steep near 0, and still −1..1; m > 0 per direction, (2,)."""
    factor = strength[:, None, None]
    return torch.asinh(factor * gradients) / torch.asinh(factor)


def gradient_histogram(gradients: Tensor, labels: Tensor, count: int, bins: int, kernels: Kernels) -> Tensor:
    """Joint histograms (B, N, q·q) of values (B, 2, H, W) in −1..1 over the regions of labels (B, H, W); each sums to 1.

    A value counts linearly for its two nearest bins per direction, so the histogram is differentiable in the image.
    """
    position = (gradients.clamp(-1.0, 1.0) + 1.0) * ((bins - 1) / 2.0)
    low = position.detach().floor().clamp(0, max(bins - 2, 0))
    fraction = position - low
    labels = labels.flatten(1)
    total = gradients.new_zeros((labels.shape[0], count * bins * bins, 1))
    for down in (0, 1):
        for along in (0, 1):
            rows, columns = ((low[:, k] + step).clamp_max(bins - 1).to(torch.int32) for k, step in enumerate((down, along)))
            weights = [fraction[:, k] if step else 1.0 - fraction[:, k] for k, step in enumerate((down, along))]
            cell = labels * (bins * bins) + (rows * bins + columns).flatten(1)
            cell = torch.where(labels < 0, -1, cell)
            total = total + kernels.region_sums((weights[0] * weights[1]).flatten(1)[:, None], cell, count * bins * bins)
    histogram = total.view(labels.shape[0], count, bins * bins)
    return histogram / kernels.region_sizes(labels, count, gradients.dtype).clamp_min(1.0)


class GradientHistogram(nn.Module):
    """Embeddings of texture: the joint gradient histogram times a matrix; `bins` is q."""

    def __init__(self, width: int, bins: int = 16, strength: float = 27.5, backend: str = "auto") -> None:
        super().__init__()
        if bins < 2:
            raise ValueError(f"a gradient histogram needs at least 2 bins per direction, got {bins}; 16 is the default")
        self.bins, self.backend = bins, backend
        self.log_strength = nn.Parameter(torch.full((2,), strength).log())
        self.projection = nn.Linear(bins * bins, width, bias=False)

    def forward(self, images: Tensor, labels: Tensor, count: int) -> Tensor:
        """Embeddings (B, N, D) of images (B, C, H, W) with values in 0..1 and labels (B, H, W)."""
        values = compressed(scharr(images), self.log_strength.exp().to(images.dtype))
        kernels = kernels_for(self.backend, labels.device)
        histogram = gradient_histogram(values, labels, count, self.bins, kernels)
        embedded: Tensor = self.projection(histogram.to(self.projection.weight.dtype))
        return embedded
