"""The paper's aggregation without gradients, fused: Σ_u |u|/|P| κ_u f(u), level by level. [`eq:weighted_aggr`]"""

import numpy as np
from torch import Tensor

from pixtree.kernels.tokens.aggregate.compiled.rows import to_rows
from pixtree.runtime.jit import tolerant, tolerant_inlined
from pixtree.runtime.threads import each, scratch

USUAL = 8  # learned channels of the usual tokenizers, for which loops over them unroll

_u8 = np.uint64


def sum_batch(
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    count: int,
    levels: Tensor,
    compared: int,
) -> Tensor:
    """Implementation of the operator `raw_sums`."""
    batch, depth = features.shape[:2]
    found, areas = features.new_zeros((batch, count, depth)), features.new_zeros((batch, count))
    inputs = [one.contiguous().numpy() for one in (features, fixed.to(features.dtype), labels, levels)]
    scale = (weight.numpy().reshape(1)[0], precision.numpy().reshape(1)[0])
    wide, regions = depth + fixed.shape[1], levels.shape[2]
    known = (0,) * depth if depth == USUAL else ()
    words = regions * (wide + 2) * features.element_size() // 4 // 2 * 2 + 2  # even, so that it can be read as float64

    def of_image(image: int) -> None:
        slab = scratch("tree", words + regions)
        region, numbers = slab[words : words + regions].view(np.int32), slab[:words].view(inputs[0].dtype)[: regions * (wide + 2)]
        having = np.zeros(count, np.int32)
        sum_image(
            known,
            compared,
            *(one[image] for one in inputs),
            *scale,
            numbers,
            region,
            having,
            found[image].numpy(),
            areas[image].numpy(),
        )

    each(of_image, range(batch))
    return found


@tolerant
def sum_image(learned, compared, features, fixed, labels, levels, weight, precision, slab, region, having, sums, area):
    """One image: sums (N, d) of regions from planes (d, P), and their pixels (N,); both are 0 on entry.

    learned: a tuple as long as there are learned channels where that is known when compiling, else empty.
    slab, region, having: scratch, see `sum_batch`. The rows of all levels follow each other, pixels first. Regions that the
    partition divides have the label −1, and a vector all the same: a neighbour may have picked them.
    """
    depth = len(learned) if len(learned) > 0 else features.shape[0]
    wide, most, pixels = depth + fixed.shape[0], region.size, features.shape[1]
    pick, members, start, offset = levels[0], levels[1], levels[2], levels[3]
    vectors = slab[: most * wide].reshape(most, wide)
    size, factor = slab[most * wide : most * (wide + 1)], slab[most * (wide + 1) : most * (wide + 2)]
    to_rows(features, vectors[:, :depth])
    to_rows(fixed, vectors[:, depth:])
    for p in range(pixels):
        region[p], size[p] = labels[p], 1
    level = 0
    while offset[level + 1] - offset[level] > 1:
        here, up = offset[level], offset[level + 1]
        begins = start[up - pixels + level : offset[level + 2] - pixels + level + 1]
        own, sizes, names, factors = vectors[here:up], size[here:up], region[here:up], factor[here:up]
        picks, some = pick[here:up], members[here:up]
        for u in range(_u8(up - here)):
            m, near, far = _u8(picks[u]), precision - precision, precision - precision
            for c in range(min(depth, compared)):
                near += (own[u, c] - own[m, c]) * (own[u, c] - own[m, c])
            for c in range(depth, wide):
                far += (own[u, c] - own[m, c]) * (own[u, c] - own[m, c])
            factors[u] = np.exp(-precision * (far + weight * near))
        next_vectors, next_size, next_region = vectors[up:], size[up:], region[up:]
        for group in range(_u8(begins.size - 1)):
            begin, end = _u8(begins[group]), _u8(begins[group + _u8(1)])
            label, total = names[some[begin]], sizes[some[begin]] - sizes[some[begin]]
            for c in range(wide):
                next_vectors[group, c] = 0
            for i in range(begin, end):
                u = _u8(some[i])
                if names[u] != label:
                    label = np.int32(-1)
                amount = sizes[u] * factors[u]
                total += sizes[u]
                for c in range(depth):
                    next_vectors[group, c] += amount * own[u, c]
                for c in range(depth, wide):
                    next_vectors[group, c] += sizes[u] * own[u, c]
            for c in range(wide):
                next_vectors[group, c] /= total
            next_size[group], next_region[group] = total, label
            if label < 0:
                add_parts(depth, some, begin, end, own, sizes, names, factors, having, sums, area)
        level += 1
    last = offset[level]
    if region[last] >= 0:
        area[region[last]] += size[last]
        for c in range(depth):
            sums[region[last], c] += size[last] * vectors[last, c]
    for label in range(area.size):
        for c in range(depth):
            sums[label, c] /= max(area[label], 1)


@tolerant_inlined
def add_parts(depth, members, begin, end, vectors, size, region, factor, having, sums, area):
    """Add the members of a component that the partition divides to their regions; one that is alone there joins nothing."""
    for i in range(begin, end):
        if region[members[i]] >= 0:
            having[region[members[i]]] += 1
    for i in range(begin, end):
        u = _u8(members[i])
        label = region[u]
        if label < 0:
            continue
        amount = size[u] if having[label] == 1 else size[u] * factor[u]
        area[label] += size[u]
        for c in range(depth):
            sums[label, c] += amount * vectors[u, c]
    for i in range(begin, end):
        if region[members[i]] >= 0:
            having[region[members[i]]] = 0
