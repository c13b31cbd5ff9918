"""The encoder: pixels to features. [Section *Subobject Feature Projection*]"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.encode import EncoderLayers


@dataclass(frozen=True)
class EncoderOptions:
    """The layers of the encoder, see `Encoder`."""

    channels: int = 3
    features: int = 8
    hidden: int = 32
    kernel_size: int = 2
    linear: bool = False
    activation: bool = False
    corners: bool = False


class Encoder(nn.Module):
    """f = A x + b + up(c₂(silu(c₁ x))): a 1×1 residual branch, and two strided convolutions, bilinearly upsampled.

    kernel_size: 2 or 3, of both strided convolutions. linear: the ablation that keeps only the residual branch.
    activation, corners: a final SiLU and corner-aligned upsampling, as the authors' released weights expect.

    It starts as an isometry of colours: A has orthonormal columns and c₂ is zero, so Aᵀ f = x exactly. leading: the first features
    are then the colours themselves, for a distance that compares no more; else colours are spread over all features.
    """

    def __init__(self, options: EncoderOptions = EncoderOptions(), backend: str = "auto", leading: bool = False) -> None:
        super().__init__()
        channels, features, hidden, kernel_size = options.channels, options.features, options.hidden, options.kernel_size
        if features < channels:
            raise ValueError(f"features must be at least the {channels} channels of the image, got {features}; 8 is the default")
        if kernel_size not in (2, 3):
            raise ValueError(f"kernel_size must be 2 or 3, got {kernel_size}; 2 is the default")
        self.activation, self.corners, self.backend = options.activation, options.corners, backend
        self.leading = leading
        self.residual = nn.Conv2d(channels, features, 1)
        self.first = None if options.linear else nn.Conv2d(channels, hidden, kernel_size, 2, kernel_size // 3)
        self.second = None if options.linear else nn.Conv2d(hidden, features, kernel_size, 2, kernel_size // 3)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """The isometry that this encoder starts from; the same for every seed but for c₁."""
        seeded = torch.Generator().manual_seed(0)
        if self.leading:
            nn.init.eye_(self.residual.weight.flatten(1))
        else:
            nn.init.orthogonal_(self.residual.weight.flatten(1), generator=seeded)
        nn.init.zeros_(self.residual.bias)  # type: ignore[arg-type]
        if self.second is not None:
            nn.init.zeros_(self.second.weight)
            nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> Tensor:
        """Features (B, d, H, W) of images (B, C, H, W), values about 0..1, any size."""
        return kernels_for(self.backend, images.device).encode(images, self.layers(images.dtype))

    def layers(self, dtype: torch.dtype | None = None) -> EncoderLayers:
        """The weights as kernels take them, in the precision of images, or in their own."""
        convolutions = (self.residual, self.first, self.second)
        pairs = ((None, None) if one is None else (one.weight, one.bias) for one in convolutions)
        weights = [None if weight is None else weight.to(dtype or weight.dtype) for pair in pairs for weight in pair]
        return EncoderLayers(*weights, self.activation, self.corners)  # type: ignore[call-arg, arg-type]
