"""Colours of pixels: sRGB to CIE Lab (D65, 2°), and the values 0..1 of images in other forms.

In float32, and with the same bits in every backend.
"""

from functools import cache

import torch
from torch import Tensor

from pixtree.kernels.arithmetic.definition import cube_root
from pixtree.runtime import transfer
from pixtree.runtime.backend import is_host

# Rows X, Y, Z over the white point, columns R, G, B (linear light).
RGB_TO_XYZ = (
    (0.412453 / 0.950456, 0.357580 / 0.950456, 0.180423 / 0.950456),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.088754, 0.119193 / 1.088754, 0.950227 / 1.088754),
)
STEPS = 16  # of the table of linear light, per byte
BYTE_TOLERANCE = 1e-3  # of a byte, by which a float may miss it
LINEAR_BELOW, LINEAR_SLOPE, LINEAR_OFFSET = 0.008856, 7.787, 16.0 / 116.0


def linear_light_table() -> Tensor:
    """Linear light of sRGB values from 0 to 1 in steps of a sixteenth of a byte, (4081,), in float64 rounded to float32."""
    values = torch.arange(255 * STEPS + 1, dtype=torch.float64) / (255 * STEPS)
    return torch.where(values > 0.04045, ((values + 0.055) / 1.055) ** 2.4, values / 12.92).to(torch.float32)


@cache
def light_table_on(device: torch.device) -> Tensor:
    """The same on a device, to which it is copied once."""
    table = linear_light_table()
    return table if is_host(device) else transfer.to_device([table], device)[0]


def to_linear(image: Tensor) -> Tensor:
    """Linear light of an image, uint8 or float 0..1, float32; floats between the table's by interpolation (error < 2e-7).

    Floats within 1/1000 of a byte count as that byte (error < 1e-5): an image and its normalised version have the same Lab.
    """
    table = light_table_on(image.device)
    if image.dtype == torch.uint8:
        return table[image.to(torch.int64) * STEPS]
    scaled = image.to(torch.float32) * 255.0
    nearest = scaled.round()
    scaled = torch.where((scaled - nearest).abs() < BYTE_TOLERANCE, nearest, scaled).clamp(0.0, 255.0) * STEPS
    low = scaled.floor().clamp_max(255 * STEPS - 1)
    index = torch.where(low >= 0, low, 0.0).to(torch.int64)  # NaN has no place in a table, but passes through `scaled`
    return table[index] + (scaled - low) * (table[index + 1] - table[index])


def _response(t: Tensor) -> Tensor:
    """CIE f(t): the cube root, with a line near black."""
    return torch.where(t > LINEAR_BELOW, cube_root(t.clamp_min(LINEAR_BELOW)), t * LINEAR_SLOPE + LINEAR_OFFSET)


def lab(image: Tensor) -> Tensor:
    """L, a, b of an sRGB image (3, H, W), uint8 or float 0..1, as planes (3, H·W) float32."""
    red, green, blue = to_linear(image).flatten(1)
    x, y, z = (_response(red * row[0] + green * row[1] + blue * row[2]) for row in RGB_TO_XYZ)
    return torch.stack((y * 116.0 - 16.0, (x - y) * 500.0, (y - z) * 200.0))


def lightness(image: Tensor) -> Tensor:
    """L of a grey sRGB image (1, H, W), uint8 or float 0..1, as planes (1, H·W) float32."""
    return _response(to_linear(image).flatten(1)) * 116.0 - 16.0


def in_bytes(image: Tensor) -> Tensor:
    """Values of an image, uint8 or float 0..1, in bytes; floats within `BYTE_TOLERANCE` of a whole byte are that byte.

    So an image, its floats, and its floats after normalising and back give the same decisions.
    """
    if image.dtype == torch.uint8:
        return image
    scaled = image * 255.0
    nearest = scaled.round()
    return torch.where((scaled - nearest).abs() < BYTE_TOLERANCE, nearest, scaled)


def whole_bytes(images: Tensor) -> Tensor:
    """Floats 0..1 in which those that mean a byte are that byte over 255, to the last bit; the gradient is that of the images."""
    values = images.detach()
    found = in_bytes(values) / 255.0
    return images + (found - values) if images.requires_grad else found


def denormalised(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """std · x + mean of images (B, C, H, W), with mean and std (C,) without gradients."""
    scale, shift = (one.to(images.dtype)[:, None, None] for one in (std, mean))
    return images * scale + shift
