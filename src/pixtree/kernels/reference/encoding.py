"""The encoder in plain torch: pixels to features. [Section *Subobject Feature Projection*]"""

import torch.nn.functional as functional
from torch import Tensor

from pixtree.kernels.types import EncoderLayers

STRIDE = 4  # two convolutions of stride 2


def encode(images: Tensor, layers: EncoderLayers) -> Tensor:
    """Features (B, d, H, W) of images (B, C, H, W): f = A x + b + up(c₂(silu(c₁ x))), then a SiLU if `layers.activation`."""
    features = functional.conv2d(images, layers.lift, layers.offset)
    if layers.first is not None:
        features = features + context(images, layers)
    return functional.silu(features) if layers.activation else features


def context(images: Tensor, layers: EncoderLayers) -> Tensor:
    """The main branch: computed on the image extended to multiples of 4 by its border, and cropped back."""
    assert layers.first is not None
    assert layers.second is not None
    height, width = images.shape[-2:]
    down, right = -height % STRIDE, -width % STRIDE
    extended = functional.pad(images, (0, right, 0, down), mode="replicate") if down or right else images
    margin = layers.first.shape[2] // 3  # kernels of 3×3 see one pixel beyond the border
    hidden = functional.silu(functional.conv2d(extended, layers.first, layers.bias, 2, margin))
    coarse = functional.conv2d(hidden, layers.second, layers.shift, 2, margin)
    size = (height + down, width + right)
    fine = functional.interpolate(coarse, size=size, mode="bilinear", align_corners=layers.corners)
    return fine[..., :height, :width]
