"""Mean injection and sampling of bounding boxes on the CPU, forward and backward in numba: the definition, fused.

The injected image x̂ exists one image at a time, on a canvas in memory that a thread keeps, with four channels interleaved: every
tap of a sample is one vector. A row of samples first blends its two rows of the canvas over the columns of the box, then
interpolates along the row. The backward pass is the transpose, and ends in sums over regions: no gradient of the size of the images
is made.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.tokens.sample import Background, Boxes, Injected, definition
from pixtree.runtime.jit import inlined, part, tolerant, tolerant_inlined
from pixtree.runtime.threads import each, scratch

Array = NDArray[Any]
LANES = 4  # channels interleaved
_u8 = np.uint64
_ONE, _TWO, _THREE, _FOUR = _u8(1), _u8(2), _u8(3), _u8(LANES)


def sample(image: Injected, boxes: Boxes, background: Background) -> Tensor:
    """F(S) (B, N, C, q, q) of all regions; gradients of the pixels and half precision are left to the definition."""
    if image.pixels.requires_grad or not operators.in_full_precision(image.pixels):
        return definition.sample(image, boxes, background)
    tokens: Tensor = operators.sample_boxes(*image, *boxes, *background)[0]
    return tokens


def sample_batch(*tensors: Tensor) -> tuple[Tensor, Tensor]:
    """Implementation of the operator `sample_boxes`."""
    image, boxes, background = grouped(tensors)
    batch, channels = image.pixels.shape[:2]
    count, samples = boxes.frame.shape[1], background.colour.shape[-1]
    tokens = image.pixels.new_empty((batch, count, channels, samples, samples))
    inside = image.pixels.new_empty((batch, count, samples, samples))
    inputs = _each_image(image, boxes, background)

    def of_image(number: int) -> None:
        sample_image(*inputs(number), _canvases(image.pixels, 1)[0], tokens[number].numpy(), inside[number].numpy())

    each(of_image, range(batch))
    return tokens, inside


def sample_batch_backward(gradient: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Implementation of the operator `sample_boxes_backward`; the last tensor is M⁺, the second output of the forward pass."""
    (image, boxes, background), inside = grouped(tensors[:-1]), tensors[-1]
    pixels = image.pixels
    changes, mixes = torch.zeros_like(image.change, memory_format=torch.contiguous_format), pixels.new_zeros(pixels.shape[0])
    colours = pixels.new_zeros((pixels.shape[0], *background.colour.shape))
    inputs, outer = _each_image(image, boxes, background), _arrays(gradient, inside)

    def of_image(number: int) -> None:
        outputs = (one[number].numpy() for one in (changes, colours))
        above = (one[number] for one in outer)
        mixes[number] = sample_image_backward(*inputs(number), *above, *_canvases(pixels, 2), *outputs)

    each(of_image, range(pixels.shape[0]))
    return changes, mixes, colours


def grouped(tensors: tuple[Tensor, ...]) -> tuple[Injected, Boxes, Background]:
    """The values from their tensors in a row, as torch passes them to operators."""
    pixels, change, scale, shift, labels, frame, mix, colour = tensors
    return Injected(pixels, change, scale, shift), Boxes(labels, frame), Background(mix, colour)


def _each_image(image: Injected, boxes: Boxes, background: Background) -> Any:
    """A function of an image's number that gives the three values of that image, as arrays."""
    (pixels, change, labels, frame), (scale, shift) = _arrays(*image[:2], *boxes), _arrays(*image[2:])
    weights = Background(*_arrays(background.mix.reshape(1), background.colour))

    def of_image(number: int) -> tuple[Injected, Boxes, Background]:
        return Injected(pixels[number], change[number], scale, shift), Boxes(labels[number], frame[number]), weights

    return of_image


def _arrays(*tensors: Tensor) -> list[Any]:
    return [one.detach().contiguous().numpy() for one in tensors]


def _canvases(pixels: Tensor, count: int) -> Array:
    """Flat images of LANES channels in memory that this thread keeps, (count, LANES · H · W)."""
    words = count * LANES * pixels.shape[2] * pixels.shape[3] * pixels.element_size() // 4
    slab: Array = scratch("tree", words)[:words].view(np.float64 if pixels.dtype == torch.float64 else np.float32)
    return slab.reshape(count, -1)


# Below, values are those of one image, without the axis of the batch. `rows` and `columns` are the taps of the samples of one box:
# arrays low, high, fraction. `pair` is two rows of the canvas: the pixels at which they start, the number of columns of the box,
# and the weight of the second row.
@inlined  # to the last digit: both passes must agree on where samples lie
def place_taps(start, side, size, taps):
    """Bilinear taps of one axis; see the definition's `taps`."""
    low, high, fraction = taps
    samples = low.size
    for i in range(samples):
        position = start + (np.float32(i) + np.float32(0.5)) * (side / np.float32(samples)) - np.float32(0.5)
        position = min(max(position, np.float32(0.0)), np.float32(size - 1))
        below = np.int64(position)
        low[i], high[i] = _u8(below), _u8(min(below + 1, size - 1))
        fraction[i] = position - np.float32(below)


@part(allocates=True, tolerant=True)
def inject(image, labels, first, canvas):
    """canvas[4p + k] = scale (x + δ of p's region) + shift of channel first + k at pixel p; labels (P,)."""
    change, scale, shift = image.change, image.scale, image.shift
    pixels = image.pixels.reshape((image.pixels.shape[0], labels.size))
    kind = pixels.dtype.type
    count = min(LANES, pixels.shape[0] - first)
    # Entry n is for the pixels of region n, the last one for pixels outside.
    offset = np.zeros(LANES * (change.shape[0] + 1), kind)
    for k in range(count):
        for n in range(change.shape[0]):
            offset[LANES * n + k] = scale[first + k] * change[n, first + k] + shift[first + k]
        offset[LANES * change.shape[0] + k] = shift[first + k]
    outside = _u8(change.shape[0])
    # Missing channels repeat the last one: they are computed and not used.
    c0, c1, c2, c3 = first, first + min(1, count - 1), first + min(2, count - 1), first + min(3, count - 1)
    s0, s1, s2, s3 = scale[c0], scale[c1], scale[c2], scale[c3]
    for p in range(labels.size):
        row = _FOUR * (_u8(labels[p]) if labels[p] >= 0 else outside)
        at = _FOUR * _u8(p)
        a0, a1, a2, a3 = offset[row], offset[row + _ONE], offset[row + _TWO], offset[row + _THREE]
        a0, a1, a2, a3 = a0 + s0 * pixels[c0, p], a1 + s1 * pixels[c1, p], a2 + s2 * pixels[c2, p], a3 + s3 * pixels[c3, p]
        canvas[at], canvas[at + _ONE], canvas[at + _TWO], canvas[at + _THREE] = a0, a1, a2, a3


@tolerant_inlined
def row_pair(rows, i, left, reach, width, kind):
    """The two rows of the canvas between which row i of the samples lies."""
    top, bottom, down = rows
    return top[i] * _u8(width) + left, bottom[i] * _u8(width) + left, reach, kind(down[i])


@tolerant_inlined
def blend_rows(canvas, pair, blend):
    """Two rows of the canvas blended over the columns of the box."""
    over, under, reach, lower = pair
    upper = canvas.dtype.type(1) - lower
    for t in range(_FOUR * reach):
        blend[t] = upper * canvas[_FOUR * over + t] + lower * canvas[_FOUR * under + t]


@tolerant_inlined
def interpolate(blend, columns, line):
    """line[4j + k]: the blended row at the place of sample j, channel k."""
    left, right, along = columns
    first = left[0]
    for j in range(left.size):
        a, b = _FOUR * (left[j] - first), _FOUR * (right[j] - first)
        fraction, at = blend.dtype.type(along[j]), _FOUR * _u8(j)
        # All loads before all stores: these become vectors of four.
        a0, a1, a2, a3 = blend[a], blend[a + _ONE], blend[a + _TWO], blend[a + _THREE]
        b0, b1, b2, b3 = blend[b], blend[b + _ONE], blend[b + _TWO], blend[b + _THREE]
        a0, a1, a2, a3 = a0 + fraction * (b0 - a0), a1 + fraction * (b1 - a1), a2 + fraction * (b2 - a2), a3 + fraction * (b3 - a3)
        line[at], line[at + _ONE], line[at + _TWO], line[at + _THREE] = a0, a1, a2, a3


@tolerant_inlined
def cover(labels, region, pair, columns, blend, inside):
    """M⁺ of one row of samples: how much of each lies in the region."""
    over, under, reach, lower = pair
    left, right, along = columns
    zero = blend.dtype.type(0)
    upper = blend.dtype.type(1) - lower
    for t in range(reach):
        above, below = labels[over + t] == region, labels[under + t] == region
        blend[t] = (upper if above else zero) + (lower if below else zero)
    for j in range(left.size):
        a = blend[left[j] - left[0]]
        inside[j] = a + blend.dtype.type(along[j]) * (blend[right[j] - left[0]] - a)


@part(allocates=True)
def empty_taps(samples):
    """Taps to be placed."""
    return np.empty(samples, _u8), np.empty(samples, _u8), np.empty(samples, np.float32)


@tolerant
def sample_image(image, boxes, background, canvas, tokens, inside):
    """Tokens (N, C, q, q) and inside (N, q, q); regions with an empty frame get zeros."""
    pixels, frame, colour = image.pixels, boxes.frame, background.colour
    channels, height, width = pixels.shape
    samples, kind = colour.shape[2], pixels.dtype.type
    labels, share = boxes.labels.reshape(-1), background.mix[0]
    blend, line = np.empty(LANES * width, pixels.dtype), np.empty(LANES * samples, pixels.dtype)
    rows, columns = empty_taps(samples), empty_taps(samples)
    for group in range(0, channels, LANES):
        inject(image, labels, group, canvas)
        for region in range(frame.shape[0]):
            if frame[region, 2] <= 0:
                tokens[region] = 0
                inside[region] = 0
                continue
            place_taps(frame[region, 0], frame[region, 2], height, rows)
            place_taps(frame[region, 1], frame[region, 3], width, columns)
            reach = columns[1][samples - 1] - columns[0][0] + _ONE
            for i in range(samples):
                pair = row_pair(rows, i, columns[0][0], reach, width, kind)
                cover(labels, region, pair, columns, blend, inside[region, i])
                blend_rows(canvas, pair, blend)
                interpolate(blend, columns, line)
                for k in range(min(LANES, channels - group)):
                    for j in range(samples):
                        hidden, sample = (kind(1) - share) * (kind(1) - inside[region, i, j]), line[_FOUR * _u8(j) + _u8(k)]
                        tokens[region, group + k, i, j] = sample + hidden * (colour[group + k, i, j] - sample)


@tolerant
def sample_image_backward(image, boxes, background, gradient, inside, canvas, canvas_gradient, changes, colours):
    """Transpose of `sample_image`: adds into changes (N, C) and colours (C, q, q), returns the gradient of λ.

    canvas, canvas_gradient: scratch for x̂ and its gradient, four channels at a time.
    """
    pixels, frame, colour = image.pixels, boxes.frame, background.colour
    channels, height, width = pixels.shape
    samples, kind = colour.shape[2], pixels.dtype.type
    labels, share = boxes.labels.reshape(-1), background.mix[0]
    blend, line = np.empty(LANES * width, pixels.dtype), np.empty(LANES * samples, pixels.dtype)
    blend_gradient, line_gradient = np.empty(LANES * width, pixels.dtype), np.zeros(LANES * samples, pixels.dtype)
    rows, columns = empty_taps(samples), empty_taps(samples)
    total = 0.0
    for group in range(0, channels, LANES):
        inject(image, labels, group, canvas)
        canvas_gradient[:] = 0
        line_gradient[:] = 0
        for region in range(frame.shape[0]):
            if frame[region, 2] <= 0:
                continue
            place_taps(frame[region, 0], frame[region, 2], height, rows)
            place_taps(frame[region, 1], frame[region, 3], width, columns)
            reach = columns[1][samples - 1] - columns[0][0] + _ONE
            for i in range(samples):
                pair = row_pair(rows, i, columns[0][0], reach, width, kind)
                blend_rows(canvas, pair, blend)
                interpolate(blend, columns, line)
                part = kind(0)
                for k in range(min(LANES, channels - group)):
                    for j in range(samples):
                        g, at = gradient[region, group + k, i, j], _FOUR * _u8(j) + _u8(k)
                        hidden = g * (kind(1) - inside[region, i, j])
                        part += hidden * (line[at] - colour[group + k, i, j])
                        colours[group + k, i, j] += (kind(1) - share) * hidden
                        line_gradient[at] = g - (kind(1) - share) * hidden
                total += part
                interpolate_backward(line_gradient, columns, reach, blend_gradient)
                blend_rows_backward(blend_gradient, pair, canvas_gradient)
        inject_backward(canvas_gradient, labels, image.scale, group, changes)
    return total


@tolerant_inlined
def add_four(target, at, weight, f0, f1, f2, f3):
    """target[at + k] += weight · f_k, as one vector."""
    t0, t1, t2, t3 = target[at], target[at + _ONE], target[at + _TWO], target[at + _THREE]
    t0, t1, t2, t3 = t0 + weight * f0, t1 + weight * f1, t2 + weight * f2, t3 + weight * f3
    target[at], target[at + _ONE], target[at + _TWO], target[at + _THREE] = t0, t1, t2, t3


@tolerant_inlined
def interpolate_backward(line_gradient, columns, reach, blend_gradient):
    """The transpose of `interpolate`."""
    left, right, along = columns
    kind = line_gradient.dtype.type
    for t in range(_FOUR * reach):
        blend_gradient[t] = kind(0)
    for j in range(left.size):
        a, b = _FOUR * (left[j] - left[0]), _FOUR * (right[j] - left[0])
        fraction, at = kind(along[j]), _FOUR * _u8(j)
        f0, f1, f2, f3 = line_gradient[at], line_gradient[at + _ONE], line_gradient[at + _TWO], line_gradient[at + _THREE]
        add_four(blend_gradient, a, kind(1) - fraction, f0, f1, f2, f3)
        add_four(blend_gradient, b, fraction, f0, f1, f2, f3)


@tolerant_inlined
def blend_rows_backward(blend_gradient, pair, canvas_gradient):
    """The transpose of `blend_rows`."""
    over, under, reach, lower = pair
    upper = blend_gradient.dtype.type(1) - lower
    for t in range(_FOUR * reach):
        canvas_gradient[_FOUR * over + t] += upper * blend_gradient[t]
    for t in range(_FOUR * reach):
        canvas_gradient[_FOUR * under + t] += lower * blend_gradient[t]


@part(allocates=True, tolerant=True)
def inject_backward(canvas_gradient, labels, scale, first, changes):
    """The transpose of `inject`: sums over regions, in float64 as they are long."""
    sums = np.zeros(LANES * changes.shape[0], np.float64)
    for p in range(labels.size):
        if labels[p] >= 0:
            row, at = _FOUR * _u8(labels[p]), _FOUR * _u8(p)
            g0, g1 = canvas_gradient[at], canvas_gradient[at + _ONE]
            add_four(sums, row, 1.0, g0, g1, canvas_gradient[at + _TWO], canvas_gradient[at + _THREE])
    for n in range(changes.shape[0]):
        for k in range(min(LANES, changes.shape[1] - first)):
            changes[n, first + k] += scale[first + k] * sums[LANES * n + k]
