"""sRGB to CIE Lab (D65, 2°), in float32 and with the same bits in every backend."""

import torch
from torch import Tensor

from pixtree.kernels.arithmetic import cube_root

# Rows X, Y, Z over the white point, columns R, G, B (linear light).
RGB_TO_XYZ = (
    (0.412453 / 0.950456, 0.357580 / 0.950456, 0.180423 / 0.950456),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.088754, 0.119193 / 1.088754, 0.950227 / 1.088754),
)
LINEAR_BELOW, LINEAR_SLOPE, LINEAR_OFFSET = 0.008856, 7.787, 16.0 / 116.0


def linear_light(values: Tensor) -> Tensor:
    """sRGB values in 0..1 to linear light, computed in float64 and rounded to float32."""
    wide = values.to(torch.float64)
    return torch.where(wide > 0.04045, ((wide + 0.055) / 1.055) ** 2.4, wide / 12.92).to(torch.float32)


def linear_light_table() -> Tensor:
    """Linear light of the 256 byte values, (256,) float32."""
    return linear_light(torch.arange(256, dtype=torch.float64) / 255.0)


def to_linear(image: Tensor) -> Tensor:
    """Linear light of an image, uint8 or float 0..1, float32."""
    if image.dtype == torch.uint8:
        return linear_light_table().to(image.device)[image.to(torch.int64)]
    return linear_light(image)


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
