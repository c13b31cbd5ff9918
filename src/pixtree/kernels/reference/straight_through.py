"""The default aggregation: the value of a region is its mean, the gradient also flows through κ. [`eq:weighted_aggr`]

In every round the members u of a component P join with coefficients c_u = |u|/|P| + w_u − stopgrad(w_u), w_u ∝ |u| κ(u, u_max).
A group is the part of a component that lies inside one region of the cut: all of it, or, at the cut, the members with one label.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """The regions of one level, R of them."""

    features: Tensor  # (R, d)
    fixed: Tensor  # (R, K): the means without gradient that κ sees as well
    size: Tensor  # (R,) pixels
    label: Tensor  # (R,) int64: the cut's region that all its pixels share, −1 if they share none


class Members(NamedTuple):
    """One level's regions and their components, G of them."""

    component: Tensor  # (R,) int64
    pick: Tensor  # (R,) int64
    groups: int


def straight_means(
    features: Tensor, fixed: Tensor, weight: Tensor, precision: Tensor, labels: Tensor, count: int, levels: Tensor
) -> Tensor:
    """Region means (B, N, d) of features (B, d, P), N = `count`, differentiable in features, w and π.

    log κ(u, m) = −π (‖Δfixed‖² + w ‖Δf‖²). fixed: (B, K, P). weight, precision: w and π, scalars. labels: (B, P), of a cut whose
    regions are nodes of the tree. levels: (B, 4, L) int32, of that tree, see `ExactCut`.
    """
    images = zip(features, fixed, labels, levels, strict=True)
    return torch.stack([_of_image(*image, weight, precision, count) for image in images])


def _of_image(
    features: Tensor, fixed: Tensor, labels: Tensor, levels: Tensor, weight: Tensor, precision: Tensor, count: int
) -> Tensor:
    """One image: (N, d)."""
    rows = Rows(features.T, fixed.T, torch.ones_like(features[0]), labels.to(torch.int64))
    total, area = features.new_zeros((count, features.shape[0])), features.new_zeros(count)
    for members in rounds_of(levels, labels.numel()):
        whole = _next_labels(rows.label, members)
        coefficient = _coefficients(rows, members, whole, weight, precision)
        done = torch.nonzero((rows.label >= 0) & (whole[members.component] < 0)).flatten()
        total = total.index_add(0, rows.label[done], (coefficient * rows.size)[done, None] * rows.features[done])
        area = area.index_add(0, rows.label[done], rows.size[done])
        rows = _joined(rows, members, coefficient, whole)
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


def _next_labels(label: Tensor, members: Members) -> Tensor:
    """The label that all members of each component share, −1 if they share none, (G,)."""
    least = torch.full((members.groups,), torch.iinfo(torch.int64).max, device=label.device)
    least = least.scatter_reduce(0, members.component, label, "amin")
    most = torch.full_like(least, -1).scatter_reduce(0, members.component, label, "amax")
    return torch.where(least == most, most, -1)


def _coefficients(rows: Rows, members: Members, whole: Tensor, weight: Tensor, precision: Tensor) -> Tensor:
    """c_u |P| / |u| of every region, (R,): 1 in value."""
    near = (rows.features - rows.features[members.pick]).square().sum(1)
    far = (rows.fixed - rows.fixed[members.pick]).square().sum(1) + weight * near
    # Members of a component that the cut divides join those of their own label only.
    labels = int(rows.label.max()) + 2
    group = torch.where(whole[members.component] < 0, members.component * labels + rows.label + 1, members.component * labels)
    _, index = torch.unique(group, return_inverse=True)
    weights = group_softmax(rows.size.log() - precision * far, index, int(index.max()) + 1)
    size = torch.zeros_like(rows.size).index_add(0, index, rows.size)[index]
    return 1.0 + (weights - weights.detach()) * (size / rows.size)


def _joined(rows: Rows, members: Members, coefficient: Tensor, whole: Tensor) -> Rows:
    """The regions of the next level; those that the cut divides carry plain means, which nothing reads."""
    size = rows.size.new_zeros(members.groups).index_add(0, members.component, rows.size)
    share = (rows.size / size[members.component])[:, None]
    empty = rows.features.new_zeros((members.groups, rows.features.shape[1]))
    features = empty.index_add(0, members.component, coefficient[:, None] * share * rows.features)
    fixed = rows.fixed.new_zeros((members.groups, rows.fixed.shape[1])).index_add(0, members.component, share * rows.fixed)
    return Rows(features, fixed, size, whole)


def group_softmax(scores: Tensor, group: Tensor, count: int) -> Tensor:
    """Softmax of (R,) scores within each of `count` groups; safe for any magnitude."""
    largest = torch.full((count,), -math.inf, dtype=scores.dtype, device=scores.device)
    largest = largest.scatter_reduce(0, group, scores.detach(), "amax")
    exponential = torch.exp(scores - largest[group])
    total = torch.zeros(count, dtype=scores.dtype, device=scores.device).index_add(0, group, exponential)
    return exponential / total[group]
