"""The default aggregation, fused: plain means in the forward pass, the gradient through κ in the backward pass, level by level.

For a group P of members u with weights w_u ∝ |u| κ_u, log κ_u = −π D_u (π = 1/2σ², D_u = ‖Δfixed‖² + w‖f_u − f_m‖², m = u_max,
and f_u − f_m has only the features that are compared) the straight-through rule c_u = |u|/|P| + w_u − stopgrad(w_u) has, with
G = ∂L/∂f and a_u = w_u (G_P·f_u − Σ_v w_v G_P·f_v):
G_u += |u|/|P| G_P − 2πw a_u (f_u − f_m), G_m += 2πw a_u (f_u − f_m), ∂w −= π a_u ‖f_u − f_m‖², ∂π −= a_u D_u.
A group is the part of a component that lies inside one region of the cut: all of it, or, at the cut, the members with one label.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels.tokens.aggregate.compiled.rows import STRIP, to_rows
from pixtree.kernels.tokens.segments.compiled import batch_means
from pixtree.runtime.jit import part, tolerant, tolerant_inlined
from pixtree.runtime.threads import each, scratch

Array = NDArray[Any]
COLUMNS = 5  # numbers per region, besides its vectors
USUAL = (8, 3, 5)  # learned, compared and fixed channels of the default tokenizer, for which loops over them unroll

_u8 = np.uint64


def mean_batch(features: Tensor, *others: Any) -> Tensor:
    """Implementation of the operator `straight_means`: only its gradient needs all the others."""
    labels, count = others[3:5]
    return batch_means(features, labels, count)[0]


def gradients_of_batch(
    gradient: Tensor,
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    levels: Tensor,
    compared: int,
) -> tuple[Tensor, Tensor]:
    """Implementation of the operator `straight_gradients`."""
    planes = torch.empty_like(features, memory_format=torch.contiguous_format)
    scalars = features.new_zeros((features.shape[0], 2))
    inputs = [one.contiguous().numpy() for one in (gradient, features, fixed.to(features.dtype), labels, levels)]
    scale = (weight.numpy().reshape(1)[0], precision.numpy().reshape(1)[0])
    depth, others = features.shape[1], fixed.shape[1]
    counts = (depth, compared, others)
    known = tuple((0,) * count if counts == USUAL else () for count in counts)
    regions = levels.shape[2]
    values = regions * (2 * depth + others + COLUMNS)
    words = values * features.element_size() // 4 // 2 * 2 + 2  # even, so that it can be read as float64

    def of_image(image: int) -> None:
        slab = scratch("tree", words + regions)
        region, numbers = slab[words : words + regions].view(np.int32), slab[:words].view(inputs[1].dtype)[:values]
        found = planes[image].numpy(), scalars[image].numpy()
        gradients_of_image(*known, compared, *(one[image] for one in inputs), *scale, numbers, region, *found)

    each(of_image, range(features.shape[0]))
    return planes, scalars


@tolerant
def gradients_of_image(
    learned, seen, further, compared, gradient, features, fixed, labels, levels, weight, precision, slab, region, planes, scalars
):
    """One image: from gradients of regions (N, d) to planes (d, P) and scalars (2,); see the head of this file.

    learned, seen, further: tuples as long as there are learned, compared and fixed channels where those are known when compiling,
    else empty: loops over them unroll.
    slab, region: scratch, see `gradients_of_batch`. The rows of all levels follow each other, pixels first.
    """
    depth = len(learned) if len(learned) > 0 else features.shape[0]
    others = len(further) if len(further) > 0 else fixed.shape[0]
    wide, most, pixels = depth + others, region.size, features.shape[1]
    pick, members, start, offset = levels[0], levels[1], levels[2], levels[3]
    mean = slab[: most * wide].reshape(most, wide)
    gradients = slab[most * wide : most * (wide + depth)].reshape(most, depth)
    rows = slab[most * (wide + depth) :].reshape(COLUMNS, most)
    to_rows(features, mean[:, :depth])
    to_rows(fixed, mean[:, depth:])
    # In a loop: assigning one array to a part of another compiles numba's message on shapes that do not match, for seconds.
    for p in range(pixels):
        region[p], rows[0, p] = labels[p], 1
    top = 0
    while offset[top + 1] - offset[top] > 1:
        here, up = offset[top], offset[top + 1]
        begins = start[up - pixels + top : offset[top + 2] - pixels + top + 1]
        gather_means(
            learned,
            further,
            begins,
            members[here:],
            mean[here:up],
            rows[0, here:up],
            region[here:up],
            mean[up:],
            rows[0, up:],
            region[up:],
        )
        top += 1
    last = offset[top]
    if region[last] >= 0:
        for c in range(depth):
            gradients[last, c] = gradient[region[last], c]
    for level in range(top - 1, -1, -1):
        here, up = offset[level], offset[level + 1]
        begins = start[up - pixels + level : offset[level + 2] - pixels + level + 1]
        gradients_of_level(
            learned,
            seen,
            further,
            compared,
            begins,
            members[here:up],
            pick[here:up],
            mean[here:up],
            rows[:, here:up],
            region[here:up],
            gradients[here:up],
            region[up:],
            gradients[up:],
            gradient,
            weight,
            precision,
            scalars,
        )
    for begin in range(0, pixels, STRIP):
        part = gradients[begin : min(begin + STRIP, pixels)]
        for c in range(depth):
            plane = planes[c, begin : begin + STRIP]
            for p in range(part.shape[0]):
                plane[p] = part[p, c]


@part(tolerant=True)
def gather_means(learned, further, start, members, mean, size, region, new_mean, new_size, new_region):
    """Means, sizes and labels of the next level's regions; those that the cut divides get the label −1, and no mean."""
    wide = len(learned) + len(further) if len(learned) > 0 else mean.shape[1]
    for group in range(_u8(start.size - 1)):
        begin, end = _u8(start[group]), _u8(start[group + _u8(1)])
        label = region[members[begin]]
        for i in range(begin, end):
            if region[members[i]] != label:
                label = np.int32(-1)
        new_region[group] = label
        if label < 0:
            continue
        total = size[members[begin]] - size[members[begin]]
        for c in range(wide):
            new_mean[group, c] = 0
        for i in range(begin, end):
            u = _u8(members[i])
            total += size[u]
            for c in range(wide):
                new_mean[group, c] += size[u] * mean[u, c]
        for c in range(wide):
            new_mean[group, c] /= total
        new_size[group] = total


@part(allocates=True, tolerant=True)
def gradients_of_level(
    learned,
    seen,
    further,
    compared,
    start,
    members,
    pick,
    mean,
    rows,
    region,
    gradients,
    new_region,
    next_gradients,
    gradient,
    weight,
    precision,
    scalars,
):
    """Gradients of one level's regions from those of the next, and where the cut divides a component, from those of regions."""
    having = np.zeros(gradient.shape[0], np.int32)  # members with that label, in a component that the cut divides
    of_weight, of_precision = precision - precision, precision - precision
    # Views are made here and not per group, where counting references to them would cost more than the arithmetic.
    scratch_rows = (rows[0], rows[1], rows[2], rows[3], rows[4])
    for group in range(_u8(start.size - 1)):
        begin, end = _u8(start[group]), _u8(start[group + _u8(1)])
        if new_region[group] >= 0:
            change = gradients_of_group(
                learned,
                seen,
                further,
                compared,
                members,
                begin,
                end,
                pick,
                mean,
                scratch_rows,
                gradients,
                next_gradients,
                group,
                weight,
                precision,
            )
            of_weight += change[0]
            of_precision += change[1]
            continue
        for i in range(begin, end):
            if region[members[i]] >= 0:
                having[region[members[i]]] += 1
        for i in range(begin, end):  # each label's members at its first one
            label = region[members[i]]
            if label < 0 or having[label] == 0:
                continue
            if having[label] == 1:
                member = members[i]
                for c in range(gradient.shape[1]):
                    gradients[member, c] = gradient[label, c]
            else:
                alike, found = np.empty(having[label], members.dtype), 0
                for j in range(i, end):
                    if region[members[j]] == label:
                        alike[found] = members[j]
                        found += 1
                change = gradients_of_group(
                    learned,
                    seen,
                    further,
                    compared,
                    alike,
                    _u8(0),
                    _u8(alike.size),
                    pick,
                    mean,
                    scratch_rows,
                    gradients,
                    gradient,
                    _u8(label),
                    weight,
                    precision,
                )
                of_weight += change[0]
                of_precision += change[1]
            having[label] = 0
    scalars[0] += of_weight
    scalars[1] += of_precision


@tolerant_inlined
def gradients_of_group(
    learned, seen, further, compared, members, begin, end, pick, mean, rows, gradients, outer, group, weight, precision
):
    """Gradients of members[begin:end], a group, from that of the group, outer[group] (d,); returns its part of ∂w and ∂π.

    rows: |u| per region, and scratch: ‖Δf‖² (near), D (far), the softmax's numerator and G_P·f_u (along) of the group's members.
    """
    depth = len(learned) if len(learned) > 0 else outer.shape[1]
    alike = len(seen) if len(seen) > 0 else compared
    wide = len(learned) + len(further) if len(learned) > 0 else mean.shape[1]
    size, near, far, numerator, along = rows
    zero = precision - precision  # of the features' type, which a literal would widen
    largest, total, sizes, mixed = zero - np.float32(np.inf), zero, zero, zero
    for i in range(begin, end):
        u, m = _u8(members[i]), _u8(pick[members[i]])
        squares, others, product = zero, zero, zero
        for c in range(alike):
            step = mean[u, c] - mean[m, c]
            squares += step * step
        for c in range(depth):
            product += outer[group, c] * mean[u, c]
        for c in range(depth, wide):
            step = mean[u, c] - mean[m, c]
            others += step * step
        near[i - begin], far[i - begin], along[i - begin] = squares, others + weight * squares, product
        largest = max(largest, -precision * far[i - begin])
        sizes += size[u]
    for i in range(begin, end):
        u = _u8(members[i])
        numerator[i - begin] = size[u] * np.exp(-precision * far[i - begin] - largest)
        total += numerator[i - begin]
        mixed += numerator[i - begin] * along[i - begin]
        share = size[u] / sizes
        for c in range(depth):
            gradients[u, c] = share * outer[group, c]
    mixed /= total
    slope, of_weight, of_precision = precision * weight + precision * weight, zero, zero
    for i in range(begin, end):
        u, m = _u8(members[i]), _u8(pick[members[i]])
        change = numerator[i - begin] / total * (along[i - begin] - mixed)
        drift = slope * change
        for c in range(alike):
            step = drift * (mean[u, c] - mean[m, c])
            gradients[u, c] -= step
            gradients[m, c] += step
        of_weight -= precision * change * near[i - begin]
        of_precision -= change * far[i - begin]
    return of_weight, of_precision
