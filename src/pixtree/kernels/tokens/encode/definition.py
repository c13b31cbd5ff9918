"""The encoder in plain torch: pixels to features. [Section *Subobject Feature Projection*]

Features decide partitions, so they have the same bits on every path: sums run in one written order, without contraction, and the
sigmoid is a polynomial. Convolutions of a library promise neither.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as functional
from torch import Tensor

from pixtree.kernels.arithmetic.definition import sigmoid
from pixtree.kernels.tokens.encode import EncoderLayers

STRIDE = 4  # two convolutions of stride 2
TOGETHER = 4  # products that are added up before they join a sum
# Weights of the nearer and the farther cell for the outer and the inner two of a cell's four pixels.
OUTER, INNER = (0.625, 0.375), (0.875, 0.125)


def encode(images: Tensor, layers: EncoderLayers) -> Tensor:
    """Features (B, d, H, W) of images (B, C, H, W): f = A x + b + up(c₂(silu(c₁ x))), then a SiLU if `layers.activation`."""
    if images.ndim != 4 or images.shape[1] != layers.lift.shape[1]:
        raise ValueError(
            f"the encoder takes (B, C, H, W) of {layers.lift.shape[1]} channels, got shape {tuple(images.shape)}; convert them"
        )
    lift, offset = layers.lift.flatten(1), layers.offset[:, None, None]
    features = offset.expand(images.shape[0], -1, *images.shape[2:]) if layers.first is None else context(images, layers) + offset
    for channel, weight in zip(images.unbind(1), lift.unbind(1), strict=True):
        features = features + weight[:, None, None] * channel[:, None]
    return features * sigmoid(features) if layers.activation else features


def context(images: Tensor, layers: EncoderLayers) -> Tensor:
    """The main branch: computed on the image extended to multiples of 4 by its border, and cropped back."""
    assert layers.first is not None
    assert layers.second is not None
    assert layers.bias is not None
    assert layers.shift is not None
    height, width = images.shape[-2:]
    down, right = -height % STRIDE, -width % STRIDE
    extended = functional.pad(images, (0, right, 0, down), mode="replicate") if down or right else images
    size = layers.first.shape[2]
    corners = [(row, column) for row in range(size) for column in range(size)]
    views = {corner: strided(extended, size, *corner) for corner in corners}
    inputs = [views[corner][:, channel] for channel in range(images.shape[1]) for corner in corners]
    hidden = mixed(layers.bias, layers.first.flatten(1), inputs)
    hidden = hidden * sigmoid(hidden)
    coarse: Tensor = layers.shift
    for row, column in corners:
        coarse = mixed(coarse, layers.second[:, :, row, column], strided(hidden, size, row, column).unbind(1))
    if layers.corners:
        sides = (height + down, width + right)
        fine = functional.interpolate(coarse, size=sides, mode="bilinear", align_corners=True)
    else:
        fine = enlarged(enlarged(coarse, 2, lerp=True), 3, lerp=False)
    return fine[..., :height, :width]


def strided(planes: Tensor, size: int, row: int, column: int) -> Tensor:
    """Every second pixel of planes (B, C, H, W) as a kernel of `size` sees it at (row, column); zeros beyond the border."""
    margin = size // 3  # kernels of 3×3 see one pixel beyond the border
    seen = functional.pad(planes, (margin, margin, margin, margin)) if margin else planes
    height, width = planes.shape[-2:]
    return seen[..., row : row + height : 2, column : column + width : 2]


def mixed(start: Tensor, weights: Tensor, planes: Sequence[Tensor]) -> Tensor:
    """start + Σ_k weights[:, k] planes[k], (B, O, H, W), in the order of k, four products at a time.

    start: (O,), or the sum so far (B, O, H, W).
    """
    total = start if start.ndim == 4 else start[:, None, None]
    columns = [weight[:, None, None] for weight in weights.unbind(1)]
    whole = len(planes) // TOGETHER * TOGETHER
    for k in range(0, whole, TOGETHER):
        products = [columns[i] * planes[i][:, None] for i in range(k, k + TOGETHER)]
        total = total + (((products[0] + products[1]) + products[2]) + products[3])
    for k in range(whole, len(planes)):
        total = total + columns[k] * planes[k][:, None]
    return total


def enlarged(coarse: Tensor, axis: int, *, lerp: bool) -> Tensor:
    """Four values for each along an axis, bilinearly between the centres of cells; the ends repeat.

    lerp: as a + t (b − a), else as a sum of two products: rows and columns are written differently.
    """
    count = coarse.shape[axis]
    before = torch.cat((coarse.narrow(axis, 0, 1), coarse.narrow(axis, 0, count - 1)), axis)
    after = torch.cat((coarse.narrow(axis, 1, count - 1), coarse.narrow(axis, count - 1, 1)), axis)
    if lerp:
        steps, back = coarse - before, after - coarse
        parts = [before + OUTER[0] * steps, before + INNER[0] * steps, coarse + INNER[1] * back, coarse + OUTER[1] * back]
    else:
        parts = [
            OUTER[1] * before + OUTER[0] * coarse,
            INNER[1] * before + INNER[0] * coarse,
            INNER[0] * coarse + INNER[1] * after,
            OUTER[0] * coarse + OUTER[1] * after,
        ]
    return torch.stack(parts, axis + 1).flatten(axis, axis + 1)
