"""The encoder on the CPU, forward and backward in numba: the definition, fused.

The image is a grid of cells of 4×4 pixels, each of which c₂(silu(c₁ x)) makes one vector of. Blocks of cells go through both
layers at a time, so that the values between them never leave the cache; the backward pass computes them again. Rows of a block are
cells, so that every inner loop runs over a constant number of them. Features decide, so the forward pass keeps the definition's
order of sums; the backward pass is free to change it.
"""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as functional
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.arithmetic.compiled import copy_values, sigmoid
from pixtree.kernels.tokens.encode import EncoderLayers, definition
from pixtree.runtime.jit import inlined, kernel, part, tolerant, tolerant_inlined
from pixtree.runtime.threads import each

Array = NDArray[Any]
BLOCK = 128  # cells: both layers of a block fit the first cache
_sigmoid: Any = sigmoid  # typed by numba
_f4, _i4, _u8 = np.float32, np.int32, np.uint64
_ZERO, _ONE, _HALF, _QUARTER = _f4(0.0), _f4(1.0), _f4(0.5), _f4(0.25)
# Weights of the two cells nearest to the first and second of a cell's four pixels; the other two mirror them.
_FAR0, _NEAR0, _FAR1, _NEAR1 = _f4(0.375), _f4(0.625), _f4(0.125), _f4(0.875)


def encode(images: Tensor, layers: EncoderLayers) -> Tensor:
    """Features (B, d, H, W) of images (B, C, H, W); see the definition."""
    if _is_fused(images, layers):
        features: Tensor = operators.encode(images, *layers.tensors())
        return features
    return definition.encode(images, layers)


def _is_fused(images: Tensor, layers: EncoderLayers) -> bool:
    """Whether the fused kernel computes it: the default layers in float32."""
    default = layers.first is not None and layers.first.shape[2] == 2 and not (layers.activation or layers.corners)
    single = images.dtype == layers.lift.dtype == torch.float32
    fits = images.ndim == 4 and images.shape[1] == layers.lift.shape[1]  # else the definition reports the wrong shape
    return default and single and fits


def encode_batch(
    images: Tensor, lift: Tensor, offset: Tensor, first: Tensor, bias: Tensor, second: Tensor, shift: Tensor
) -> Tensor:
    """Implementation of the operator `encode`."""
    features = images.new_empty((images.shape[0], lift.shape[0], *images.shape[2:]))
    pixels, planes = images.detach().contiguous().numpy(), features.numpy()
    weights = [_rows(lift), offset, _rows(first), bias, _corners(second), shift]
    arrays = [one.detach().contiguous().numpy() for one in weights]
    each(lambda image: encode_image(pixels[image], *arrays, planes[image]), range(len(pixels)))
    return features


def encode_batch_backward(
    gradient: Tensor, images: Tensor, first: Tensor, bias: Tensor, second: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Implementation of the operator `encode_backward`."""
    batch, channels, depth, hidden = images.shape[0], images.shape[1], second.shape[0], second.shape[1]
    shapes = ((depth, channels + 1), (hidden, 4 * channels), (hidden,), (4, depth, hidden), (depth,))
    sums = [images.new_zeros((batch, *shape)) for shape in shapes]
    upper, pixels = (one.detach().contiguous().numpy() for one in (gradient, images))
    arrays = [one.detach().contiguous().numpy() for one in (_rows(first), bias, _corners(second).transpose(1, 2))]

    def of_image(image: int) -> None:
        encode_image_backward(pixels[image], upper[image], *arrays, *(one[image].numpy() for one in sums))

    each(of_image, range(batch))
    residual, first_sum, bias_sum, second_sum, shift_sum = (one.sum(0) for one in sums)
    second_sum = second_sum.view(2, 2, depth, hidden).permute(2, 3, 0, 1).contiguous()
    lift_sum = residual[:, :channels, None, None].contiguous()
    return lift_sum, residual[:, channels].contiguous(), first_sum.view_as(first), bias_sum, second_sum, shift_sum


def encode_images_backward(gradient: Tensor, images: Tensor, lift: Tensor, first: Tensor, bias: Tensor, second: Tensor) -> Tensor:
    """Implementation of the operator `encode_images_backward`."""
    height, width = images.shape[-2:]
    border = (0, -width % 4, 0, -height % 4)
    extended = functional.pad(images, border, mode="replicate")
    hidden = functional.conv2d(extended, first, bias, 2)
    size, cells = list(extended.shape[-2:]), [*second.shape[:1], extended.shape[-2] // 4, extended.shape[-1] // 4]
    # An operator computes below autograd, so the transposes are called by name.
    aten = torch.ops.aten
    upper = aten.upsample_bilinear2d_backward(functional.pad(gradient, border), size, [len(images), *cells], False)
    upper = aten.silu_backward(functional.conv_transpose2d(upper, second, stride=2), hidden)
    upper = functional.conv_transpose2d(upper, first, stride=2)
    if any(border):
        upper = aten.replication_pad2d_backward(upper, images, list(border))
    found: Tensor = functional.conv_transpose2d(gradient, lift) + upper
    return found


def _rows(weight: Tensor) -> Tensor:
    """A convolution's weight (O, I, k, k) as (O, I·k·k)."""
    return weight.flatten(1)


def _corners(weight: Tensor) -> Tensor:
    """A convolution's weight (O, I, 2, 2) as one matrix (O, I) for each of its four places, (4, O, I)."""
    return weight.permute(2, 3, 0, 1).flatten(0, 1)


@inlined
def add_mixed(weight: Array, source: Array, target: Array) -> None:
    """target[i] += Σ_k weight[k] source[k, i] over a block, four rows at a time."""
    count = weight.size
    for quarter in range(count // 4):
        k = 4 * quarter
        w0, w1, w2, w3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        for i in range(BLOCK):
            target[i] += w0 * source[k, i] + w1 * source[k + 1, i] + w2 * source[k + 2, i] + w3 * source[k + 3, i]
    for k in range(count // 4 * 4, count):
        w0 = weight[k]
        for i in range(BLOCK):
            target[i] += w0 * source[k, i]


@inlined
def add_mixed_pair(weight: Array, other: Array, source: Array, target: Array, partner: Array) -> None:
    """`add_mixed` of two targets, which share the loads of the source."""
    count = weight.size
    for quarter in range(count // 4):
        k = 4 * quarter
        w0, w1, w2, w3 = weight[k], weight[k + 1], weight[k + 2], weight[k + 3]
        o0, o1, o2, o3 = other[k], other[k + 1], other[k + 2], other[k + 3]
        for i in range(BLOCK):
            s0, s1, s2, s3 = source[k, i], source[k + 1, i], source[k + 2, i], source[k + 3, i]
            target[i] += w0 * s0 + w1 * s1 + w2 * s2 + w3 * s3
            partner[i] += o0 * s0 + o1 * s1 + o2 * s2 + o3 * s3
    for k in range(count // 4 * 4, count):
        w0, o0 = weight[k], other[k]
        for i in range(BLOCK):
            target[i] += w0 * source[k, i]
            partner[i] += o0 * source[k, i]


@part()
def add_linear(weight: Array, source: Array, target: Array) -> None:
    """target (O, BLOCK) += weight (O, I) source (I, BLOCK)."""
    count = weight.shape[0]
    for half in range(count // 2):
        o = 2 * half
        add_mixed_pair(weight[o], weight[o + 1], source, target[o], target[o + 1])
    if count % 2:
        add_mixed(weight[count - 1], source, target[count - 1])


@tolerant_inlined
def add_products(line: Array, rows: Array, length: int, target: Array) -> None:
    """target[k] += Σ_i line[i] rows[k, i] over `length` columns, four rows at a time."""
    count = target.size
    for quarter in range(count // 4):
        k = 4 * quarter
        s0, s1, s2, s3 = _ZERO, _ZERO, _ZERO, _ZERO
        for i in range(length):
            value = line[i]
            s0 += value * rows[k, i]
            s1 += value * rows[k + 1, i]
            s2 += value * rows[k + 2, i]
            s3 += value * rows[k + 3, i]
        target[k] += s0
        target[k + 1] += s1
        target[k + 2] += s2
        target[k + 3] += s3
    for k in range(count // 4 * 4, count):
        s0 = _ZERO
        for i in range(length):
            s0 += line[i] * rows[k, i]
        target[k] += s0


@part()
def gather_cells(image: Array, start: int, patches: Array) -> None:
    """patches[2·(row // 2) + column // 2, (c, row % 2, column % 2), i] is pixel (row, column) of cell start + i, channel c.

    Beyond the image its border repeats; beyond the last cell, the last row of cells.
    """
    channels, height, width = image.shape
    across, down = (width + 3) // 4, (height + 3) // 4
    y, x, i = start // across, start % across, 0
    while i < BLOCK:
        count = min(across - x, BLOCK - i)
        for c in range(channels):
            for row in range(4):
                line = image[c, min(4 * y + row, height - 1)]
                for column in range(4):
                    target = patches[row // 2 * 2 + column // 2, (2 * c + row % 2) * 2 + column % 2, i : i + count]
                    inside = min(count, max(0, (width - column + 3) // 4 - x))
                    source = line[4 * x + column :]
                    for k in range(inside):
                        target[k] = source[4 * k]
                    for k in range(inside, count):
                        target[k] = line[width - 1]
        i, x, y = i + count, 0, min(y + 1, down - 1)


@part()
def linear(weight: Array, bias: Array, source: Array, target: Array) -> None:
    """target (O, BLOCK) = weight (O, I) source (I, BLOCK) + bias (O,)."""
    for o in range(bias.size):
        target[o] = bias[o]
    add_linear(weight, source, target)


@part()
def silu(values: Array) -> None:
    """values ← values · sigmoid(values)."""
    for i in range(values.size):
        values[i] = values[i] * _sigmoid(values[i])


@tolerant
def silu_backward(values: Array, upper: Array) -> None:
    """Through silu: upper ← upper · silu′(values), values ← silu(values)."""
    for i in range(values.size):
        share = _sigmoid(values[i])
        value = values[i] * share
        upper[i] = upper[i] * (share + value * (_ONE - share))
        values[i] = value


@kernel
def encode_image(
    image: Array, lift: Array, offset: Array, first: Array, bias: Array, second: Array, shift: Array, features: Array
) -> None:
    """One image (C, H, W) to features (d, H, W); weights as `_rows` and `_corners` give them."""
    channels, height, width = image.shape
    depth, down, across = offset.size, (height + 3) // 4, (width + 3) // 4
    cells = down * across
    patches, hidden = np.empty((4, 4 * channels, BLOCK), _f4), np.empty((bias.size, BLOCK), _f4)
    out, coarse = np.empty((depth, BLOCK), _f4), np.empty((depth, cells), _f4)
    for start in range(0, cells, BLOCK):
        gather_cells(image, start, patches)
        for o in range(depth):
            out[o] = shift[o]
        for corner in range(4):
            linear(first, bias, patches[corner], hidden)
            silu(hidden.reshape(-1))
            add_linear(second[corner], hidden, out)
        count = min(BLOCK, cells - start)
        for o in range(depth):
            copy_values(out[o, :count], coarse[o, start : start + count])
    enlarge(image, lift, offset, coarse.reshape((depth, down, across)), features)


@inlined
def nearest_rows(y: int, down: int) -> Any:
    """The two rows of cells nearest to row y of the image, and the weight of the second."""
    position = min(max((_f4(y) + _HALF) * _QUARTER - _HALF, _ZERO), _f4(down - 1))
    above = np.int64(position)
    return above, min(above + 1, down - 1), position - _f4(above)


@inlined
def stretch(line: Array, wide: Array) -> None:
    """Four values of wide for each cell of line, whose first and last entry are the neighbours beyond its ends."""
    # Unsigned, so that no index is tested for being negative: that would stop vectorisation.
    four, one, two, three = _u8(4), _u8(1), _u8(2), _u8(3)
    for j in range(_u8(line.size - 2)):
        left, here, right = line[j], line[j + one], line[j + two]
        wide[four * j] = _FAR0 * left + _NEAR0 * here
        wide[four * j + one] = _FAR1 * left + _NEAR1 * here
        wide[four * j + two] = _NEAR1 * here + _FAR1 * right
        wide[four * j + three] = _NEAR0 * here + _FAR0 * right


@tolerant_inlined
def shrink(wide: Array, line: Array) -> None:
    """The transpose of `stretch`."""
    four, one, two, three = _u8(4), _u8(1), _u8(2), _u8(3)
    line[0] = line[line.size - 1] = _ZERO
    for j in range(_u8(line.size - 2)):
        middle = _NEAR1 * (wide[four * j + one] + wide[four * j + two])
        line[j + one] = middle + _NEAR0 * (wide[four * j] + wide[four * j + three])
    for j in range(_u8(line.size - 2)):
        line[j] += _FAR0 * wide[four * j] + _FAR1 * wide[four * j + one]
    for j in range(_u8(line.size - 2)):
        line[j + two] += _FAR1 * wide[four * j + two] + _FAR0 * wide[four * j + three]


@part(allocates=True)
def enlarge(image: Array, lift: Array, offset: Array, coarse: Array, features: Array) -> None:
    """features (d, H, W) = A image + b + coarse (d, down, across), bilinearly enlarged four times and cropped."""
    channels, height, width = image.shape
    depth, down, across = coarse.shape
    line, wide = np.empty(across + 2, _f4), np.empty(4 * across, _f4)
    for y in range(height):
        above, below, share = nearest_rows(y, down)
        for o in range(depth):
            for j in range(across):
                line[j + 1] = coarse[o, above, j] + share * (coarse[o, below, j] - coarse[o, above, j])
            line[0], line[across + 1] = line[1], line[across]
            stretch(line, wide)
            target, base = features[o, y], offset[o]
            for x in range(width):
                target[x] = wide[x] + base
            for c in range(channels):
                weight = lift[o, c]
                for x in range(width):
                    target[x] += weight * image[c, y, x]


@part(allocates=True, tolerant=True)
def residual_backward(image: Array, gradient: Array, residual: Array) -> None:
    """Adds into residual (d, C + 1), the gradients of A and b."""
    channels, height, width = image.shape
    pixels = np.ones((channels + 1, width), _f4)
    for y in range(height):
        for c in range(channels):
            copy_values(image[c, y], pixels[c])
        for o in range(gradient.shape[0]):
            add_products(gradient[o, y], pixels, width, residual[o])


@part(allocates=True, tolerant=True)
def enlarge_backward(gradient: Array, coarse: Array) -> None:
    """The transpose of enlarging, from (d, H, W) to (d, down, across): first over rows, so that few are left to shrink."""
    depth, height, width = gradient.shape
    down, across = coarse.shape[1:]
    wide, line = np.zeros((down, 4 * across), _f4), np.empty(across + 2, _f4)
    for o in range(depth):
        wide[:] = 0
        for y in range(height):
            above, below, share = nearest_rows(y, down)
            for x in range(width):
                wide[above, x] += (_ONE - share) * gradient[o, y, x]
            for x in range(width):
                wide[below, x] += share * gradient[o, y, x]
        for j in range(down):
            shrink(wide[j], line)
            line[1] += line[0]
            line[across] += line[across + 1]
            copy_values(line[1 : across + 1], coarse[o, j])


@tolerant
def encode_image_backward(
    image: Array,
    gradient: Array,
    first: Array,
    bias: Array,
    second: Array,
    residual: Array,
    first_sum: Array,
    bias_sum: Array,
    second_sum: Array,
    shift_sum: Array,
) -> None:
    """Transpose of `encode_image` for the weights: adds into the last five arrays; second is (4, h, d) here."""
    channels, height, width = image.shape
    depth, hidden, down, across = gradient.shape[0], bias.size, (height + 3) // 4, (width + 3) // 4
    cells = down * across
    coarse = np.empty((depth, down, across), _f4)
    residual_backward(image, gradient, residual)
    enlarge_backward(gradient, coarse)
    flat = coarse.reshape((depth, cells))
    patches, values, upper = np.empty((4, 4 * channels, BLOCK), _f4), np.empty((hidden, BLOCK), _f4), np.empty((hidden, BLOCK), _f4)
    above, nothing, ones = np.zeros((depth, BLOCK), _f4), np.zeros(hidden, _f4), np.ones(BLOCK, _f4)
    for start in range(0, cells, BLOCK):
        count = min(BLOCK, cells - start)
        for o in range(depth):
            copy_values(flat[o, start : start + count], above[o, :count])
        above[:, count:] = 0
        add_products(ones, above, BLOCK, shift_sum)
        gather_cells(image, start, patches)
        for corner in range(4):
            linear(first, bias, patches[corner], values)
            linear(second[corner], nothing, above, upper)
            silu_backward(values.reshape(-1), upper.reshape(-1))
            for o in range(depth):
                add_products(above[o], values, BLOCK, second_sum[corner, o])
            add_products(ones, upper, BLOCK, bias_sum)
            for k in range(hidden):
                add_products(upper[k], patches[corner], BLOCK, first_sum[k])
