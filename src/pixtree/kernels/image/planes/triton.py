"""Features that decide trees, of whole batches on a device."""

import torch
from torch import Tensor

from pixtree.kernels.image.colour.triton import fill_lab, lab, lightness
from pixtree.kernels.image.planes import LARGEST, LARGEST_VARIANCE_RATIO, UNIT, definition


def colours(image: Tensor) -> Tensor:
    """Planes (C, H·W) float32 of an image (C, H, W), uint8 or float 0..1; see the definition."""
    if image.shape[0] in (1, 3):
        return lab(image) if image.shape[0] == 3 else lightness(image)
    return definition.colours(image)


def planes_of_batch(
    images: Tensor, features: Tensor, colour: bool, unit: float, scale: Tensor | float, fixed: Tensor | None
) -> Tensor:
    """`distance_planes` of images (B, C, H, W) and features (B, d, P), with their colours or without: (B, K + d, P)."""
    batch, channels, height, width = images.shape
    seen = channels if colour else 0
    count = seen + (2 if unit else 0)
    planes = features.new_empty((batch, count + features.shape[1], height * width), dtype=torch.float32)
    if seen in (1, 3):
        fill_lab(images, planes)
    elif seen:
        below = definition.colours(images.transpose(0, 1).reshape(channels, batch * height, width))  # all images as one
        planes[:, :seen] = below.view(channels, batch, -1).transpose(0, 1)
    if unit:
        planes[:, seen:count] = definition.coordinates((height, width), unit, planes.device)
    torch.mul(features, scale, out=planes[:, count:]).clamp_(-LARGEST, LARGEST)
    if fixed is not None:
        torch.div(planes[:, :count], UNIT, out=fixed)
    return planes


def refuse_out_of_range(planes: Tensor, floor: float) -> None:
    """An error of the device, which the host does not wait for, if values are NaN, or too large for the statistics."""
    limit = (LARGEST_VARIANCE_RATIO * floor) ** 0.5
    message = f"features must be finite and at most {limit:.0e} in magnitude; remove NaN and Inf, or scale the features down"
    low, high = torch.aminmax(planes)  # NaN if any is, which is in no range
    torch._assert_async((low >= -limit) & (high <= limit), message)
