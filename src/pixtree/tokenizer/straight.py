"""The default aggregation, fused: plain means forwards, the gradient through κ backwards, in one pass over the tree each way.

For a group P of members u with weights w_u ∝ |u| κ_u, log κ_u = −π D_u (π = 1/2σ², D_u = ‖Δfixed‖² + w‖f_u − f_m‖², m = u_max) the
straight-through rule c_u = |u|/|P| + w_u − stopgrad(w_u) has, with G = ∂L/∂f and a_u = w_u (G_P·f_u − Σ_v w_v G_P·f_v):
G_u += |u|/|P| G_P − 2πw a_u (f_u − f_m), G_m += 2πw a_u (f_u − f_m), ∂w −= π a_u ‖f_u − f_m‖², ∂π −= a_u D_u.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels.compiled.jit import kernel
from pixtree.kernels.compiled.workspace import scratch
from pixtree.kernels.segments import region_means
from pixtree.kernels.threads import each

Array = NDArray[Any]
COLUMNS = 8  # numbers per node beside its vectors


@torch.library.custom_op("pixtree::straight_means", mutates_args=())
def straight_means(
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    count: int,
    group: Tensor,
    partner: Tensor,
    level: Tensor,
) -> Tensor:
    """Region means (B, N, d) of features (B, d, P), whose gradient also reaches κ; the last three are an `Ancestry`'s."""
    return region_means(features, labels, count)


@straight_means.register_fake
def _(
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    count: int,
    group: Tensor,
    partner: Tensor,
    level: Tensor,
) -> Tensor:
    return features.new_empty((features.shape[0], count, features.shape[1]))


@torch.library.custom_op("pixtree::straight_gradients", mutates_args=(), device_types="cpu")
def straight_gradients(
    gradient: Tensor,
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    group: Tensor,
    partner: Tensor,
    level: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of the features (B, d, P), and of (w, π) per image, (B, 2)."""
    planes = torch.empty_like(features, memory_format=torch.contiguous_format)
    scalars = features.new_zeros((features.shape[0], 2))
    inputs = [one.contiguous().numpy() for one in (gradient, features, fixed.to(features.dtype), labels, group, partner, level)]
    scale = (weight.numpy().reshape(1)[0], precision.numpy().reshape(1)[0])
    values = group.shape[1] * (2 * features.shape[1] + fixed.shape[1] + COLUMNS)
    words = values * features.element_size() // 4 // 2 * 2 + 2  # even, so that it can be read as float64

    def of_image(image: int) -> None:
        slab = scratch("tree", words)[:words].view(inputs[1].dtype)[:values]
        pull_back(*(one[image] for one in inputs), *scale, slab, planes[image].numpy(), scalars[image].numpy())

    each(of_image, range(features.shape[0]))
    return planes, scalars


@straight_gradients.register_fake
def _(
    gradient: Tensor,
    features: Tensor,
    fixed: Tensor,
    weight: Tensor,
    precision: Tensor,
    labels: Tensor,
    group: Tensor,
    partner: Tensor,
    level: Tensor,
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(features), features.new_empty((features.shape[0], 2))


@kernel
def pull_back(
    gradient: Array,
    features: Array,
    fixed: Array,
    labels: Array,
    group: Array,
    partner: Array,
    level: Array,
    weight: Any,
    precision: Any,
    slab: Array,
    planes: Array,
    scalars: Array,
) -> None:
    """One image: from gradients of regions (N, d) to planes (d, P) and scalars (2,); see the head of this file.

    slab: scratch of the features' type, K (2d + fixed + COLUMNS) values. Per node: ‖Δf‖² (near), D (far), the softmax's numerator
    and G_P·f_u (along); per group: the largest log κ, the softmax's denominator (total), Σ numerator·along (mixed).
    """
    depth, pixels = features.shape
    wide = depth + fixed.shape[0]
    nodes = group.size
    mean, pull = slab[: nodes * wide].reshape(nodes, wide), slab[nodes * wide : nodes * (wide + depth)].reshape(nodes, depth)
    rows = slab[nodes * (wide + depth) :].reshape(COLUMNS, nodes)
    size, largest, total, mixed, near, far, numerator, along = (
        rows[0],
        rows[1],
        rows[2],
        rows[3],
        rows[4],
        rows[5],
        rows[6],
        rows[7],
    )
    slab[:] = 0
    largest[:] = -np.inf
    region = np.empty(nodes, np.int32)
    gather_means(features, fixed, labels, group, mean, size, region)
    for node in range(nodes):
        if group[node] < 0 and size[node] > 0:
            for c in range(depth):
                pull[node, c] = gradient[region[node], c]
    end = nodes
    while end > 0:
        begin = end - 1
        while begin > 0 and level[begin - 1] == level[end - 1]:
            begin -= 1
        compare(begin, end, depth, group, partner, mean, weight, precision, near, far, largest)
        weigh(begin, end, depth, group, mean, size, precision, pull, far, largest, total, mixed, numerator, along)
        share_out(
            begin,
            end,
            depth,
            group,
            partner,
            mean,
            size,
            weight,
            precision,
            pull,
            near,
            far,
            total,
            mixed,
            numerator,
            along,
            scalars,
        )
        end = begin
    for p in range(pixels):
        for c in range(depth):
            planes[c, p] = pull[p, c]


@kernel
def gather_means(features: Array, fixed: Array, labels: Array, group: Array, mean: Array, size: Array, region: Array) -> None:
    """Means, sizes and region labels of pixels, members and groups; members come before their group."""
    depth, pixels = features.shape
    wide = mean.shape[1]
    for p in range(pixels):
        for c in range(depth):
            mean[p, c] = features[c, p]
        for c in range(fixed.shape[0]):
            mean[p, depth + c] = fixed[c, p]
    for node in range(group.size):
        if node < pixels:
            size[node] = 1
            region[node] = labels[node]
        elif size[node] > 0:
            for c in range(wide):
                mean[node, c] /= size[node]
        above = group[node]
        if above >= 0:
            size[above] += size[node]
            region[above] = region[node]
            for c in range(wide):
                mean[above, c] += size[node] * mean[node, c]


@kernel
def compare(
    begin: int,
    end: int,
    depth: int,
    group: Array,
    partner: Array,
    mean: Array,
    weight: Any,
    precision: Any,
    near: Array,
    far: Array,
    largest: Array,
) -> None:
    """‖Δf‖² and D of every member's pick, and the largest log κ of each group."""
    for u in range(begin, end):
        above = group[u]
        if above < 0:
            continue
        m = partner[u]
        squares = mean[u, 0] * 0
        for c in range(depth):
            squares += (mean[u, c] - mean[m, c]) ** 2
        others = squares * 0
        for c in range(depth, mean.shape[1]):
            others += (mean[u, c] - mean[m, c]) ** 2
        near[u] = squares
        far[u] = others + weight * squares
        largest[above] = max(largest[above], -precision * far[u])


@kernel
def weigh(
    begin: int,
    end: int,
    depth: int,
    group: Array,
    mean: Array,
    size: Array,
    precision: Any,
    pull: Array,
    far: Array,
    largest: Array,
    total: Array,
    mixed: Array,
    numerator: Array,
    along: Array,
) -> None:
    """Numerator and G_P·f_u of every member; per group the softmax's denominator and Σ_v (numerator of v) G_P·f_v."""
    for u in range(begin, end):
        above = group[u]
        if above < 0:
            continue
        factor = size[u] * np.exp(-precision * far[u] - largest[above])
        product = factor * 0
        for c in range(depth):
            product += pull[above, c] * mean[u, c]
        numerator[u], along[u] = factor, product
        total[above] += factor
        mixed[above] += factor * product


@kernel
def share_out(
    begin: int,
    end: int,
    depth: int,
    group: Array,
    partner: Array,
    mean: Array,
    size: Array,
    weight: Any,
    precision: Any,
    pull: Array,
    near: Array,
    far: Array,
    total: Array,
    mixed: Array,
    numerator: Array,
    along: Array,
    scalars: Array,
) -> None:
    """Gradients of the members of one level from those of their groups."""
    slope = precision * weight
    slope += slope
    for u in range(begin, end):
        above = group[u]
        if above < 0:
            continue
        m = partner[u]
        change = numerator[u] / total[above] * (along[u] - mixed[above] / total[above])
        share, force = size[u] / size[above], slope * change
        for c in range(depth):
            step = force * (mean[u, c] - mean[m, c])
            pull[u, c] += share * pull[above, c] - step
            pull[m, c] += step
        scalars[0] -= precision * change * near[u]
        scalars[1] -= change * far[u]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    features, fixed, weight, precision, labels, _, group, partner, level = inputs
    ctx.save_for_backward(features, fixed, weight, precision, labels, group, partner, level)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    planes, scalars = straight_gradients(gradient, *ctx.saved_tensors)
    weight, precision = scalars.sum(0).unbind()
    return planes, None, weight, precision, None, None, None, None, None


straight_means.register_autograd(_backward, setup_context=_keep)
