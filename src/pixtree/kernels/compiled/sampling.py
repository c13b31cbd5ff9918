"""Mean injection and sampling of bounding boxes on the CPU, forwards and backwards in numba: the definition, fused.

The injected picture x̂ exists one image at a time, in memory that a thread keeps, with four channels side by side: every tap of a
sample is one vector. A row of samples first blends its two rows of the picture over the columns of the box, then interpolates along
the row. The backward pass is the transpose, and ends in sums over regions: no gradient of the size of the images is made.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import operators
from pixtree.kernels.compiled.precision import in_full_precision
from pixtree.kernels.reference import sampling as reference
from pixtree.runtime.jit import inlined, tolerant, tolerant_inlined
from pixtree.runtime.scratch import scratch
from pixtree.runtime.threads import each

Array = NDArray[Any]
LANES = 4  # channels side by side
_u8 = np.uint64
_ONE, _TWO, _THREE, _FOUR = _u8(1), _u8(2), _u8(3), _u8(LANES)


def sample(
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
) -> Tensor:
    """F(S) (B, N, C, q, q) of scale · (x + δ) + shift; see the definition."""
    arguments = (pixels, change, scale, shift, labels, frame, mix, background)
    if pixels.requires_grad or not in_full_precision(pixels):
        return reference.sample(*arguments)
    tokens: Tensor = operators.sample_boxes(*arguments)[0]
    return tokens


def sample_batch(
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
) -> tuple[Tensor, Tensor]:
    """What the operator `sample_boxes` computes."""
    batch, channels = pixels.shape[:2]
    count, samples = frame.shape[1], background.shape[-1]
    tokens = pixels.new_empty((batch, count, channels, samples, samples))
    inside = pixels.new_empty((batch, count, samples, samples))
    inputs, shared = _arrays(pixels, change, labels, frame), _arrays(scale, shift, mix.reshape(1), background)

    def of_image(image: int) -> None:
        picture = _scratch(pixels, 1)[0]
        sample_image(*(one[image] for one in inputs), *shared, picture, tokens[image].numpy(), inside[image].numpy())

    each(of_image, range(batch))
    return tokens, inside


def spread_batch(
    gradient: Tensor,
    pixels: Tensor,
    change: Tensor,
    scale: Tensor,
    shift: Tensor,
    labels: Tensor,
    frame: Tensor,
    mix: Tensor,
    background: Tensor,
    inside: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """What the operator `sample_boxes_backward` computes."""
    changes, mixes = torch.zeros_like(change, memory_format=torch.contiguous_format), pixels.new_zeros(pixels.shape[0])
    betas = pixels.new_zeros((pixels.shape[0], *background.shape))
    inputs = _arrays(gradient, pixels, change, labels, frame, inside)
    shared = _arrays(scale, shift, mix.reshape(1), background)

    def of_image(image: int) -> None:
        outputs = (one[image].numpy() for one in (changes, betas))
        mixes[image] = spread_image(*(one[image] for one in inputs), *shared, *_scratch(pixels, 2), *outputs)

    each(of_image, range(pixels.shape[0]))
    return changes, mixes, betas


def _arrays(*tensors: Tensor) -> list[Array]:
    return [one.detach().contiguous().numpy() for one in tensors]


def _scratch(pixels: Tensor, pictures: int) -> Array:
    """Flat pictures of LANES channels in memory that this thread keeps, (pictures, LANES · H · W)."""
    words = pictures * LANES * pixels.shape[2] * pixels.shape[3] * pixels.element_size() // 4
    slab: Array = scratch("tree", words)[:words].view(np.float64 if pixels.dtype == torch.float64 else np.float32)
    return slab.reshape(pictures, -1)


@inlined  # to the last digit: both passes must agree on where samples lie
def place_taps(start: Any, side: Any, samples: int, size: int, low: Array, high: Array, fraction: Array) -> None:
    """Bilinear taps of one axis; see the definition's `taps`."""
    for i in range(samples):
        position = start + (np.float32(i) + np.float32(0.5)) * (side / np.float32(samples)) - np.float32(0.5)
        position = min(max(position, np.float32(0.0)), np.float32(size - 1))
        below: Any = np.int64(position)
        low[i], high[i] = _u8(below), _u8(min(below + 1, size - 1))
        fraction[i] = position - np.float32(below)


@tolerant
def inject(pixels: Array, labels: Array, change: Array, scale: Array, shift: Array, first: int, picture: Array) -> None:
    """picture[4p + k] = scale (x + δ of p's region) + shift of channel first + k at pixel p; planes (C, P), labels (P,)."""
    kind = pixels.dtype.type
    count = min(LANES, pixels.shape[0] - first)
    # Row n holds what a pixel of region n gets; the last one is for pixels outside.
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
        picture[at], picture[at + _ONE], picture[at + _TWO], picture[at + _THREE] = a0, a1, a2, a3


@tolerant_inlined
def blend_rows(picture: Array, over: Any, under: Any, reach: Any, lower: Any, blend: Array) -> None:
    """Two rows of the picture, which start at pixels `over` and `under`, blended over `reach` columns."""
    upper = picture.dtype.type(1) - lower
    for t in range(_FOUR * reach):
        blend[t] = upper * picture[_FOUR * over + t] + lower * picture[_FOUR * under + t]


@tolerant_inlined
def interpolate(blend: Array, left: Array, right: Array, along: Array, first: Any, line: Array) -> None:
    """line[4j + k]: the blended row at the place of sample j, channel k."""
    for j in range(left.size):
        a, b = _FOUR * (left[j] - first), _FOUR * (right[j] - first)
        fraction, at = blend.dtype.type(along[j]), _FOUR * _u8(j)
        # All loads before all stores: these become vectors of four.
        a0, a1, a2, a3 = blend[a], blend[a + _ONE], blend[a + _TWO], blend[a + _THREE]
        b0, b1, b2, b3 = blend[b], blend[b + _ONE], blend[b + _TWO], blend[b + _THREE]
        a0, a1, a2, a3 = a0 + fraction * (b0 - a0), a1 + fraction * (b1 - a1), a2 + fraction * (b2 - a2), a3 + fraction * (b3 - a3)
        line[at], line[at + _ONE], line[at + _TWO], line[at + _THREE] = a0, a1, a2, a3


@tolerant_inlined
def cover(
    labels: Array,
    region: int,
    over: Any,
    under: Any,
    reach: Any,
    lower: Any,
    left: Array,
    right: Array,
    along: Array,
    blend: Array,
    inside: Array,
) -> None:
    """M⁺ of one row of samples: how much of each lies in the region."""
    zero = blend.dtype.type(0)
    upper = blend.dtype.type(1) - lower
    for t in range(reach):
        above, below = labels[over + t] == region, labels[under + t] == region
        blend[t] = (upper if above else zero) + (lower if below else zero)
    for j in range(left.size):
        a = blend[left[j] - left[0]]
        inside[j] = a + blend.dtype.type(along[j]) * (blend[right[j] - left[0]] - a)


@tolerant
def sample_image(
    pixels: Array,
    change: Array,
    labels: Array,
    frame: Array,
    scale: Array,
    shift: Array,
    mix: Array,
    background: Array,
    picture: Array,
    tokens: Array,
    inside: Array,
) -> None:
    """One image (C, H, W): tokens (N, C, q, q) and inside (N, q, q); regions with an empty frame get zeros."""
    channels, height, width = pixels.shape
    samples, kind = background.shape[2], pixels.dtype.type
    flat, share = labels.reshape(-1), mix[0]
    blend, line = np.empty(LANES * width, pixels.dtype), np.empty(LANES * samples, pixels.dtype)
    top, bottom, down = np.empty(samples, _u8), np.empty(samples, _u8), np.empty(samples, np.float32)
    left, right, along = np.empty(samples, _u8), np.empty(samples, _u8), np.empty(samples, np.float32)
    for group in range(0, channels, LANES):
        inject(pixels.reshape((channels, height * width)), flat, change, scale, shift, group, picture)
        for region in range(frame.shape[0]):
            if frame[region, 2] <= 0:
                tokens[region] = 0
                inside[region] = 0
                continue
            place_taps(frame[region, 0], frame[region, 2], samples, height, top, bottom, down)
            place_taps(frame[region, 1], frame[region, 3], samples, width, left, right, along)
            reach = right[samples - 1] - left[0] + _ONE
            for i in range(samples):
                over, under, lower = top[i] * _u8(width) + left[0], bottom[i] * _u8(width) + left[0], kind(down[i])
                cover(flat, region, over, under, reach, lower, left, right, along, blend, inside[region, i])
                blend_rows(picture, over, under, reach, lower, blend)
                interpolate(blend, left, right, along, left[0], line)
                for k in range(min(LANES, channels - group)):
                    for j in range(samples):
                        hidden, sample = (kind(1) - share) * (kind(1) - inside[region, i, j]), line[_FOUR * _u8(j) + _u8(k)]
                        tokens[region, group + k, i, j] = sample + hidden * (background[group + k, i, j] - sample)


@tolerant
def spread_image(
    gradient: Array,
    pixels: Array,
    change: Array,
    labels: Array,
    frame: Array,
    inside: Array,
    scale: Array,
    shift: Array,
    mix: Array,
    background: Array,
    picture: Array,
    pulls: Array,
    changes: Array,
    betas: Array,
) -> float:
    """Transpose of `sample_image`: adds into changes (N, C) and betas (C, q, q), returns the gradient of λ.

    picture, pulls: scratch for x̂ and its gradient, four channels at a time.
    """
    channels, height, width = pixels.shape
    samples, kind = background.shape[2], pixels.dtype.type
    flat, share = labels.reshape(-1), mix[0]
    blend, line = np.empty(LANES * width, pixels.dtype), np.empty(LANES * samples, pixels.dtype)
    pull, force = np.empty(LANES * width, pixels.dtype), np.zeros(LANES * samples, pixels.dtype)
    top, bottom, down = np.empty(samples, _u8), np.empty(samples, _u8), np.empty(samples, np.float32)
    left, right, along = np.empty(samples, _u8), np.empty(samples, _u8), np.empty(samples, np.float32)
    total = 0.0
    for group in range(0, channels, LANES):
        inject(pixels.reshape((channels, height * width)), flat, change, scale, shift, group, picture)
        pulls[:] = 0
        force[:] = 0
        for region in range(frame.shape[0]):
            if frame[region, 2] <= 0:
                continue
            place_taps(frame[region, 0], frame[region, 2], samples, height, top, bottom, down)
            place_taps(frame[region, 1], frame[region, 3], samples, width, left, right, along)
            reach = right[samples - 1] - left[0] + _ONE
            for i in range(samples):
                over, under, lower = top[i] * _u8(width) + left[0], bottom[i] * _u8(width) + left[0], kind(down[i])
                blend_rows(picture, over, under, reach, lower, blend)
                interpolate(blend, left, right, along, left[0], line)
                part = kind(0)
                for k in range(min(LANES, channels - group)):
                    for j in range(samples):
                        g, at = gradient[region, group + k, i, j], _FOUR * _u8(j) + _u8(k)
                        hidden = g * (kind(1) - inside[region, i, j])
                        part += hidden * (line[at] - background[group + k, i, j])
                        betas[group + k, i, j] += (kind(1) - share) * hidden
                        force[at] = g - (kind(1) - share) * hidden
                total += part
                spread_row(force, left, right, along, reach, pull)
                push_rows(pull, over, under, reach, lower, pulls)
        collect(pulls, flat, scale, group, changes)
    return total


@tolerant_inlined
def add_four(target: Array, at: Any, weight: Any, f0: Any, f1: Any, f2: Any, f3: Any) -> None:
    """target[at + k] += weight · f_k, as one vector."""
    t0, t1, t2, t3 = target[at], target[at + _ONE], target[at + _TWO], target[at + _THREE]
    t0, t1, t2, t3 = t0 + weight * f0, t1 + weight * f1, t2 + weight * f2, t3 + weight * f3
    target[at], target[at + _ONE], target[at + _TWO], target[at + _THREE] = t0, t1, t2, t3


@tolerant_inlined
def spread_row(force: Array, left: Array, right: Array, along: Array, reach: Any, pull: Array) -> None:
    """The transpose of `interpolate`."""
    kind = force.dtype.type
    for t in range(_FOUR * reach):
        pull[t] = kind(0)
    for j in range(left.size):
        a, b = _FOUR * (left[j] - left[0]), _FOUR * (right[j] - left[0])
        fraction, at = kind(along[j]), _FOUR * _u8(j)
        f0, f1, f2, f3 = force[at], force[at + _ONE], force[at + _TWO], force[at + _THREE]
        add_four(pull, a, kind(1) - fraction, f0, f1, f2, f3)
        add_four(pull, b, fraction, f0, f1, f2, f3)


@tolerant_inlined
def push_rows(pull: Array, over: Any, under: Any, reach: Any, lower: Any, pulls: Array) -> None:
    """The transpose of `blend_rows`."""
    upper = pull.dtype.type(1) - lower
    for t in range(_FOUR * reach):
        pulls[_FOUR * over + t] += upper * pull[t]
    for t in range(_FOUR * reach):
        pulls[_FOUR * under + t] += lower * pull[t]


@tolerant
def collect(pulls: Array, labels: Array, scale: Array, first: int, changes: Array) -> None:
    """The transpose of `inject`: sums over regions, in float64 as they are long."""
    sums = np.zeros(LANES * changes.shape[0], np.float64)
    for p in range(labels.size):
        if labels[p] >= 0:
            row, at = _FOUR * _u8(labels[p]), _FOUR * _u8(p)
            add_four(sums, row, 1.0, pulls[at], pulls[at + _ONE], pulls[at + _TWO], pulls[at + _THREE])
    for n in range(changes.shape[0]):
        for k in range(min(LANES, changes.shape[1] - first)):
            changes[n, first + k] += scale[first + k] * sums[LANES * n + k]
