"""The encoder: pixels to features. [Section *Subobject Feature Projection*]"""

import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from pixtree.tokenizer.encoding import encode

STRIDE = 4  # two convolutions of stride 2


class Encoder(nn.Module):
    """f = A x + b + up(c₂(silu(c₁ x))): a 1×1 residual branch, and two strided convolutions, bilinearly upsampled.

    kernel_size: 2 or 3, of both strided convolutions. linear: the ablation that keeps only the residual branch.
    activation, corners: a final SiLU and corner-aligned upsampling, as the authors' released weights expect.

    It starts as an isometry of colours: A has orthonormal columns and c₂ is zero, so Aᵀ f = x exactly.
    """

    def __init__(
        self,
        channels: int = 3,
        features: int = 8,
        hidden: int = 32,
        *,
        kernel_size: int = 2,
        linear: bool = False,
        activation: bool = False,
        corners: bool = False,
    ) -> None:
        super().__init__()
        if features < channels:
            raise ValueError(f"features must be at least the {channels} channels of the image, got {features}; 8 is the default")
        if kernel_size not in (2, 3):
            raise ValueError(f"kernel_size must be 2 or 3, got {kernel_size}; 2 is the default")
        self.activation, self.corners = activation, corners
        self.residual = nn.Conv2d(channels, features, 1)
        self.first = None if linear else nn.Conv2d(channels, hidden, kernel_size, 2, kernel_size // 3)
        self.second = None if linear else nn.Conv2d(hidden, features, kernel_size, 2, kernel_size // 3)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """The isometry that this encoder starts from; the same for every seed but for c₁."""
        seeded = torch.Generator().manual_seed(0)
        nn.init.orthogonal_(self.residual.weight.flatten(1), generator=seeded)
        nn.init.zeros_(self.residual.bias)  # type: ignore[arg-type]
        if self.second is not None:
            nn.init.zeros_(self.second.weight)
            nn.init.zeros_(self.second.bias)  # type: ignore[arg-type]

    def forward(self, images: Tensor) -> Tensor:
        """Features (B, d, H, W) of images (B, C, H, W), values about 0..1, any size."""
        if self.is_fused(images):
            return self.fused(images)
        if images.device.type != "cpu" or len(images) < 2:
            return self.features(images)
        # One image after the other keeps a CPU's caches and pages warm: twice as fast as the batch at once.
        return torch.cat([self.features(part) for part in torch.split(images, 1)])

    def features(self, images: Tensor) -> Tensor:
        """The features in plain torch, on any device and in any precision: the definition of what `encode` computes."""
        features: Tensor = self.residual(images)
        if self.first is not None and self.second is not None:
            features = features + self.context(images)
        return functional.silu(features) if self.activation else features

    def is_fused(self, images: Tensor) -> bool:
        """Whether `encode` has what is asked for: the default layers on the CPU, in float32, without gradients of images."""
        default = self.first is not None and self.first.kernel_size == (2, 2) and not (self.activation or self.corners)
        plain = images.device.type == "cpu" and not torch.is_autocast_enabled("cpu")
        single = images.dtype == self.residual.weight.dtype == torch.float32
        fits = images.ndim == 4 and images.shape[1] == self.residual.in_channels  # else the convolution says what is wrong
        return default and plain and single and fits and not (images.requires_grad and torch.is_grad_enabled())

    def fused(self, images: Tensor) -> Tensor:
        """The features by `encode`."""
        assert self.first is not None
        assert self.second is not None
        layers = (self.residual, self.first, self.second)
        features: Tensor = encode(images, *(tensor for layer in layers for tensor in (layer.weight, layer.bias)))
        return features

    def context(self, images: Tensor) -> Tensor:
        """The main branch: computed on the image extended to multiples of 4 by its border, and cropped back."""
        assert self.first is not None
        assert self.second is not None
        height, width = images.shape[-2:]
        down, right = -height % STRIDE, -width % STRIDE
        extended = functional.pad(images, (0, right, 0, down), mode="replicate") if down or right else images
        coarse = self.second(functional.silu(self.first(extended)))
        size = (height + down, width + right)
        fine = functional.interpolate(coarse, size=size, mode="bilinear", align_corners=self.corners)
        return fine[..., :height, :width]
