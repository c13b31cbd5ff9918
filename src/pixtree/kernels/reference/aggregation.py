"""Kernel-weighted aggregation: the features of regions from those of their pixels, round by round. [`eq:weighted_aggr`]

In every round the members u of a component P join as f(P) = Σ_u c_u f(u), with share = |u|/|P| and κ_u = κ(u, u_max) of u's pick.
A group is the part of a component that lies inside one region of the partition: all of it, or, where the partition divides the
component, the members with one label. Groups of one region that never meet in a round are averaged by their pixels.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

MODES = ("straight", "raw", "normalised", "mean")
SIMILARITIES = ("gaussian", "cosine", "tanimoto")
SMALLEST = 1e-12  # of κ before its logarithm


class Rows(NamedTuple):
    """The regions of one level, R of them."""

    features: Tensor  # (R, d)
    fixed: Tensor  # (R, K): the means without gradient that κ sees as well
    size: Tensor  # (R,) pixels
    label: Tensor  # (R,) int64: the partition's region that all its pixels share, −1 if they share none

    def take(self, index: Tensor) -> "Rows":
        """The rows at `index`."""
        return Rows(*(one[index] for one in self))


class Members(NamedTuple):
    """One level's regions and their components, G of them."""

    component: Tensor  # (R,) int64
    pick: Tensor  # (R,) int64
    groups: int


class Kernel(NamedTuple):
    """κ on the distance that decides the partition: fixed planes plus w times the first `compared` features, None: all."""

    weight: Tensor  # w, a scalar
    precision: Tensor  # π = 1/2σ² of the Gaussian, a scalar
    name: str = "gaussian"
    compared: int | None = None


def aggregate(
    features: Tensor,
    fixed: Tensor,
    labels: Tensor,
    count: int,
    levels: Tensor,
    weight: Tensor,
    precision: Tensor,
    mode: str = "straight",
    similarity: str = "gaussian",
    whole: bool = True,
    compared: int | None = None,
) -> Tensor:
    """Features (B, N, d) of the regions of labels (B, P), N = `count`, from those of pixels (B, d, P).

    mode: c_u is "raw": share · κ_u, the paper's, unnormalised; "normalised": |u| κ_u / Σ|v| κ_v; "mean": share; "straight":
    share + w_u − stopgrad(w_u), w the normalised weights: the value is the mean, the gradient also flows through κ.
    fixed: (B, K, P), without gradient. levels: (B, 4, L) int32, of the tree that made the labels, see `ExactCut`.
    weight, precision, similarity: of κ, see `log_kernel`. whole: whether every region is a node of the tree.
    compared: how many features κ sees, from the first on; None is all.
    """
    if mode not in MODES:
        raise ValueError(f"an aggregation is one of {', '.join(MODES)}, got {mode!r}; choose one of these")
    kernel = Kernel(weight, precision, similarity, compared)
    images = zip(features, fixed, labels, levels, strict=True)
    return torch.stack([_of_image(*image, count, kernel, mode) for image in images])


def _of_image(features: Tensor, fixed: Tensor, labels: Tensor, levels: Tensor, count: int, kernel: Kernel, mode: str) -> Tensor:
    """One image: (N, d)."""
    rows = Rows(features.T, fixed.T, torch.ones_like(features[0]), labels.to(torch.int64))
    total, area = features.new_zeros((count, features.shape[0])), features.new_zeros(count)
    for members in rounds_of(levels, labels.numel()):
        shared = _shared_labels(rows.label, members)
        logarithm = log_kernel(rows, rows.take(members.pick), kernel) if mode != "mean" else None
        divided = (rows.label >= 0) & (shared[members.component] < 0)
        done = torch.nonzero(divided).flatten()
        if done.numel():
            pair = members.component[done] * count + rows.label[done]
            names, group = torch.unique(pair, return_inverse=True)
            factor = factors(rows.size[done], None if logarithm is None else logarithm[done], group, names.numel(), mode)
            total = total.index_add(0, rows.label[done], (factor * rows.size[done])[:, None] * rows.features[done])
            area = area.index_add(0, rows.label[done], rows.size[done])
        factor = factors(rows.size, logarithm, members.component, members.groups, mode)
        rows = _joined(rows, members, factor, shared)
    last = torch.nonzero(rows.label >= 0).flatten()
    total = total.index_add(0, rows.label[last], rows.size[last, None] * rows.features[last])
    area = area.index_add(0, rows.label[last], rows.size[last])
    return total / area.clamp_min(1.0)[:, None]


def rounds_of(levels: Tensor, pixels: int) -> list[Members]:
    """The rounds of one image's tree, first to last, from its levels (4, L)."""
    pick, member, start, offsets = levels.to(torch.int64).unbind()
    offset, found = offsets[: levels.shape[1] - 2 * pixels].tolist(), []
    for level in range(len(offset) - 2):
        here, up = offset[level], offset[level + 1]
        if up - here <= 1:
            break
        groups = offset[level + 2] - up
        begins = start[up - pixels + level : up - pixels + level + groups + 1]
        number = torch.arange(groups, device=levels.device).repeat_interleave(begins.diff())
        component = torch.empty_like(number).scatter_(0, member[here:up], number)
        found.append(Members(component, pick[here:up], groups))
    return found


def log_kernel(a: Rows, b: Rows, kernel: Kernel) -> Tensor:
    """log κ(a, b), (R,): in logarithms, so that nothing underflows.

    gaussian: −π D, D = ‖Δfixed‖² + w‖Δf‖²; cosine: (1 + cos)/2; tanimoto: ⟨a, b⟩/(‖a‖² + ‖b‖² − ⟨a, b⟩), clamped at 0.
    """
    a, b = (rows._replace(features=rows.features[:, : kernel.compared]) for rows in (a, b))
    if kernel.name == "gaussian":
        near, far = (a.features - b.features).square().sum(1), (a.fixed - b.fixed).square().sum(1)
        return -kernel.precision * (far + kernel.weight * near)
    product, squares_a, squares_b = (_inner(first, second, kernel.weight) for first, second in ((a, b), (a, a), (b, b)))
    if kernel.name == "cosine":
        norm = (squares_a.clamp_min(SMALLEST) * squares_b.clamp_min(SMALLEST)).sqrt()
        return torch.log((0.5 + 0.5 * product / norm).clamp_min(SMALLEST))
    return torch.log((product / (squares_a + squares_b - product).clamp_min(SMALLEST)).clamp_min(SMALLEST))


def _inner(a: Rows, b: Rows, weight: Tensor) -> Tensor:
    """⟨a, b⟩ of what κ sees."""
    return (a.fixed * b.fixed).sum(1) + weight * (a.features * b.features).sum(1)


def _shared_labels(label: Tensor, members: Members) -> Tensor:
    """The label that all members of each component share, −1 if they share none, (G,)."""
    least = torch.full((members.groups,), torch.iinfo(torch.int64).max, device=label.device)
    least = least.scatter_reduce(0, members.component, label, "amin")
    most = torch.full_like(least, -1).scatter_reduce(0, members.component, label, "amax")
    return torch.where(least == most, most, -1)


def factors(size: Tensor, logarithm: Tensor | None, group: Tensor, count: int, mode: str) -> Tensor:
    """c_u / share_u of members in groups, (R,): how much more than its pixels each counts; logarithm is log κ_u."""
    if mode == "mean" or logarithm is None:
        return torch.ones_like(size)
    if mode == "raw":  # a member alone in its group joins nothing
        alone = torch.bincount(group, minlength=count)[group] == 1
        return torch.where(alone, 1.0, torch.exp(logarithm))
    total = torch.zeros(count, dtype=size.dtype, device=size.device).index_add(0, group, size)
    weights = group_softmax(size.log() + logarithm, group, count) * (total[group] / size)
    return weights if mode == "normalised" else 1.0 + weights - weights.detach()


def _joined(rows: Rows, members: Members, factor: Tensor, shared: Tensor) -> Rows:
    """The regions of the next level."""
    size = rows.size.new_zeros(members.groups).index_add(0, members.component, rows.size)
    share = (rows.size / size[members.component])[:, None]
    empty = rows.features.new_zeros((members.groups, rows.features.shape[1]))
    features = empty.index_add(0, members.component, factor[:, None] * share * rows.features)
    fixed = rows.fixed.new_zeros((members.groups, rows.fixed.shape[1])).index_add(0, members.component, share * rows.fixed)
    return Rows(features, fixed, size, shared)


def group_softmax(scores: Tensor, group: Tensor, count: int) -> Tensor:
    """Softmax of (R,) scores within each of `count` groups; safe for any magnitude."""
    largest = torch.full((count,), -math.inf, dtype=scores.dtype, device=scores.device)
    largest = largest.scatter_reduce(0, group, scores.detach(), "amax")
    exponential = torch.exp(scores - largest[group])
    total = torch.zeros(count, dtype=scores.dtype, device=scores.device).index_add(0, group, exponential)
    return exponential / total[group]
