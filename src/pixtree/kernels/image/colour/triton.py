"""Colours of pixels in Triton: one launch for a batch, with the bits of the definition."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.arithmetic.triton import cube_root
from pixtree.kernels.image.colour import definition
from pixtree.runtime.launch import launch

_STEPS, _LAST, _TOLERANCE = (tl.constexpr(c) for c in (definition.STEPS, 255 * definition.STEPS - 1, definition.BYTE_TOLERANCE))
_BELOW, _SLOPE, _OFFSET = (tl.constexpr(c) for c in (definition.LINEAR_BELOW, definition.LINEAR_SLOPE, definition.LINEAR_OFFSET))
_XR, _XG, _XB = (tl.constexpr(c) for c in definition.RGB_TO_XYZ[0])
_YR, _YG, _YB = (tl.constexpr(c) for c in definition.RGB_TO_XYZ[1])
_ZR, _ZG, _ZB = (tl.constexpr(c) for c in definition.RGB_TO_XYZ[2])
_TO_WHOLE = tl.constexpr(12582912.0)  # 1.5 · 2²³: adding it rounds what is below 2²² to whole numbers, halves to even ones


def lab(image: Tensor) -> Tensor:
    """L, a, b of an sRGB image (3, H, W), uint8 or float 0..1, as planes (3, H·W) float32."""
    planes = torch.empty((1, 3, image.shape[1] * image.shape[2]), device=image.device)
    fill_lab(image[None], planes)
    return planes[0]


def lightness(image: Tensor) -> Tensor:
    """L of a grey sRGB image (1, H, W), uint8 or float 0..1, as planes (1, H·W) float32."""
    planes = torch.empty((1, 1, image.shape[1] * image.shape[2]), device=image.device)
    fill_lab(image[None], planes)
    return planes[0]


def fill_lab(images: Tensor, planes: Tensor) -> None:
    """Fill the first planes (B, C, P) of every image with L, a, b of images (B, 3, H, W), or L of images (B, 1, H, W)."""
    count, floats = planes.shape[2], images.dtype != torch.uint8
    values = (images.detach().to(torch.float32) if floats else images).contiguous()
    lanes, kernel = len(images) * count, lab_of_pixels if images.shape[1] == 3 else lightness_of_pixels
    launch(kernel, lanes, values, definition.light_table_on(images.device), planes, lanes, count, planes.stride(0), FLOATS=floats)


@triton.jit
def light(image, table, at, there, FLOATS: tl.constexpr):
    """Linear light of sRGB values."""
    if FLOATS:
        scaled = tl.load(image + at, mask=there, other=0.0) * 255.0
        nearest = (scaled + _TO_WHOLE) - _TO_WHOLE
        scaled = tl.where(tl.abs(scaled - nearest) < _TOLERANCE, nearest, scaled)
        scaled = tl.where(scaled < 0.0, 0.0, scaled)  # both comparisons let NaN pass
        scaled = tl.where(scaled > 255.0, 255.0, scaled) * _STEPS
        index = tl.where(scaled >= 0.0, scaled, 0.0).to(tl.int32)  # down, as floor, which would flush subnormals; NaN has no place
        index = tl.where(index > _LAST, _LAST, index)
        low = index.to(tl.float32)
        here = tl.load(table + index, mask=there, other=0.0)
        value = here + (scaled - low) * (tl.load(table + index + 1, mask=there, other=0.0) - here)
    else:
        value = tl.load(table + tl.load(image + at, mask=there, other=0).to(tl.int32) * _STEPS, mask=there, other=0.0)
    return value


@triton.jit
def response(t):
    """CIE f(t): the cube root, with a line near black."""
    return tl.where(t > _BELOW, cube_root(tl.where(t > _BELOW, t, tl.full(t.shape, _BELOW, tl.float32))), t * _SLOPE + _OFFSET)


@triton.jit
def lab_of_pixels(images, table, planes, lanes, P, stride, FLOATS: tl.constexpr, BLOCK: tl.constexpr):
    """One lane per pixel of images (B, 3, P); planes of an image are `stride` numbers apart from those of the next."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // P).to(tl.int64)
    pixel = lane - image * P
    at = image * 3 * P + pixel
    red = light(images, table, at, there, FLOATS)
    green = light(images, table, at + P, there, FLOATS)
    blue = light(images, table, at + 2 * P, there, FLOATS)
    x = response(red * _XR + green * _XG + blue * _XB)
    y = response(red * _YR + green * _YG + blue * _YB)
    z = response(red * _ZR + green * _ZG + blue * _ZB)
    to = planes + image * stride + pixel
    tl.store(to, y * 116.0 - 16.0, mask=there)
    tl.store(to + P, (x - y) * 500.0, mask=there)
    tl.store(to + 2 * P, (y - z) * 200.0, mask=there)


@triton.jit
def lightness_of_pixels(images, table, planes, lanes, P, stride, FLOATS: tl.constexpr, BLOCK: tl.constexpr):
    """The same for images (B, 1, P)."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // P).to(tl.int64)
    value = response(light(images, table, lane, there, FLOATS)) * 116.0 - 16.0
    tl.store(planes + image * stride + lane - image * P, value, mask=there)
