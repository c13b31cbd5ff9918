"""Kernel-weighted aggregation in plain torch. [`eq:weighted_aggr`]

All images of a batch take a round together, and nothing is read back to the host. Regions at least halve from round to round, so
that level t has room for ⌊P / 2^t⌋ of them. Places that an image does not use belong to one more component, which is dropped.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.tokens.aggregate import MODES, Grown, Kernel

SMALLEST = 1e-12  # of κ before its logarithm


class Rows(NamedTuple):
    """The regions of one level, room for R of them per image."""

    features: Tensor  # (B, R, d)
    fixed: Tensor  # (B, R, K): the means without gradient that κ sees as well
    size: Tensor  # (B, R) pixels, at least 1
    label: Tensor  # (B, R) int64: the partition's region that all its pixels share, −1 if they share none

    def take(self, index: Tensor) -> "Rows":
        """The rows at `index` (B, R)."""
        features, fixed = (one.gather(1, _wide(index, one)) for one in (self.features, self.fixed))
        return Rows(features, fixed, self.size.gather(1, index), self.label.gather(1, index))


class Members(NamedTuple):
    """One level's regions and their components, room for G of them; unused places have the component G."""

    component: Tensor  # (B, R) int64
    pick: Tensor  # (B, R) int64
    groups: int


def aggregate(features: Tensor, fixed: Tensor, grown: Grown, kernel: Kernel, mode: str = "straight") -> Tensor:
    """Features (B, N, d) of regions from those of pixels (B, d, P).

    fixed: (B, K, P), without gradient. kernel: κ, see `log_kernel`.
    mode: c_u is "raw": share · κ_u, the paper's, unnormalised; "normalised": |u| κ_u / Σ|v| κ_v; "mean": share; "straight":
    share + w_u − stopgrad(w_u), w the normalised weights: the value is the mean, the gradient also flows through κ.
    """
    if mode not in MODES:
        raise ValueError(f"an aggregation is one of {', '.join(MODES)}, got {mode!r}; choose one of these")
    labels, count, levels, whole = grown
    label = labels.to(torch.int64)
    rows = Rows(features.transpose(1, 2), fixed.transpose(1, 2), torch.ones_like(features[:, 0]), label)
    total, area = features.new_zeros((len(labels), count + 1, features.shape[1])), features.new_zeros((len(labels), count + 1))
    for members in rounds_of(levels, labels.shape[1]):
        shared = _shared_labels(rows.label, members)
        logarithm = log_kernel(rows, rows.take(members.pick), kernel) if mode != "mean" else None
        divided = (rows.label >= 0) & (shared.gather(1, members.component) < 0)
        place = torch.where(divided, rows.label, count)
        # The parts of a node are all in one component, so their label identifies the group.
        group, groups = (place, count + 1) if whole else _numbered(torch.where(divided, members.component * count + place, -1))
        amount = factors(rows.size, logarithm, group, groups, mode) * rows.size
        total = total.scatter_add(1, _wide(place, total), amount[..., None] * rows.features)
        area = area.scatter_add(1, place, rows.size)
        factor = factors(rows.size, logarithm, members.component, members.groups + 1, mode)
        rows = _joined(rows, members, factor, shared)
    place = torch.where(rows.label >= 0, rows.label, count)
    total = total.scatter_add(1, _wide(place, total), rows.size[..., None] * rows.features)
    area = area.scatter_add(1, place, rows.size)
    return total[:, :count] / area[:, :count, None].clamp_min(1.0)


def rounds_of(levels: Tensor, pixels: int) -> Iterator[Members]:
    """The rounds of the trees of a batch, first to last, from their levels (B, 4, L).

    An image that is whole before the others stays one region.
    """
    pick, member, start, offset = levels.to(torch.int64).unbind(1)
    room, last = pixels, levels.shape[2] - 1
    grows = torch.ones_like(offset[:, :1], dtype=torch.bool)  # (B, 1), as all below
    for level in range(pixels.bit_length() - 1):
        here, up, above = (offset[:, level + step : level + step + 1] for step in range(3))
        grows = grows & (up - here > 1)
        groups = room // 2
        number = torch.arange(room, device=levels.device).expand(len(levels), -1)
        is_region = number < torch.where(grows, up - here, 1)
        place, known = (here + number).clamp(0, last), grows & is_region
        first = torch.arange(groups, device=levels.device).expand(len(levels), -1)
        begins = start.gather(1, (up - pixels + level + first).clamp(0, last))
        begins = torch.where(first < above - up, begins, room)
        group = torch.searchsorted(begins, number.contiguous(), right=True) - 1
        group = torch.where(known, group, torch.where(is_region, 0, groups))
        component = torch.empty_like(group).scatter_(1, torch.where(known, member.gather(1, place), number), group)
        yield Members(component, torch.where(known, pick.gather(1, place), number), groups)
        room = groups


def log_kernel(a: Rows, b: Rows, kernel: Kernel) -> Tensor:
    """log κ(a, b), (B, R): in logarithms, so that nothing underflows.

    gaussian: −π D, D = ‖Δfixed‖² + w‖Δf‖²; cosine: (1 + cos)/2; tanimoto: ⟨a, b⟩/(‖a‖² + ‖b‖² − ⟨a, b⟩), clamped at 0.
    """
    a, b = (rows._replace(features=rows.features[..., : kernel.compared]) for rows in (a, b))
    if kernel.name == "gaussian":
        near, far = (a.features - b.features).square().sum(-1), (a.fixed - b.fixed).square().sum(-1)
        return -kernel.precision * (far + kernel.weight * near)
    product, squares_a, squares_b = (_inner(first, second, kernel.weight) for first, second in ((a, b), (a, a), (b, b)))
    if kernel.name == "cosine":
        norm = (squares_a.clamp_min(SMALLEST) * squares_b.clamp_min(SMALLEST)).sqrt()
        return torch.log((0.5 + 0.5 * product / norm).clamp_min(SMALLEST))
    return torch.log((product / (squares_a + squares_b - product).clamp_min(SMALLEST)).clamp_min(SMALLEST))


def _inner(a: Rows, b: Rows, weight: Tensor) -> Tensor:
    """⟨a, b⟩ of the planes that κ sees."""
    return (a.fixed * b.fixed).sum(-1) + weight * (a.features * b.features).sum(-1)


def _wide(index: Tensor, rows: Tensor) -> Tensor:
    """An index (B, R) for every channel of rows (B, …, d)."""
    return index[..., None].expand(-1, -1, rows.shape[2])


def _shared_labels(label: Tensor, members: Members) -> Tensor:
    """The label that all members of each component share, −1 if they share none, (B, G + 1)."""
    least = label.new_full((len(label), members.groups + 1), torch.iinfo(torch.int64).max)
    least = least.scatter_reduce(1, members.component, label, "amin")
    most = torch.full_like(least, -1).scatter_reduce(1, members.component, label, "amax")
    return torch.where(least == most, most, -1)


def _numbered(keys: Tensor) -> tuple[Tensor, int]:
    """Consecutive numbers for equal keys (B, R) of an image, and a bound of how many there are."""
    ordered, order = keys.sort(dim=1)
    steps = torch.zeros_like(keys)
    steps[:, 1:] = (ordered[:, 1:] != ordered[:, :-1]).to(keys.dtype)
    return torch.empty_like(keys).scatter_(1, order, steps.cumsum(1)), keys.shape[1]


def factors(size: Tensor, logarithm: Tensor | None, group: Tensor, count: int, mode: str) -> Tensor:
    """c_u / share_u of members in groups, (B, R): how much more than its pixels each counts; logarithm is log κ_u."""
    if mode == "mean" or logarithm is None:
        return torch.ones_like(size)
    empty = size.new_zeros((len(size), count))
    if mode == "raw":  # a member alone in its group joins nothing
        alone = empty.scatter_add(1, group, torch.ones_like(size)).gather(1, group) == 1
        return torch.where(alone, 1.0, torch.exp(logarithm))
    total = empty.scatter_add(1, group, size)
    weights = group_softmax(size.log() + logarithm, group, count) * (total.gather(1, group) / size)
    return weights if mode == "normalised" else 1.0 + weights - weights.detach()


def _joined(rows: Rows, members: Members, factor: Tensor, shared: Tensor) -> Rows:
    """The regions of the next level."""
    groups, component = members.groups, members.component
    size = rows.size.new_zeros((len(factor), groups + 1)).scatter_add(1, component, rows.size)
    share = (rows.size / size.gather(1, component))[..., None]
    parts = (factor[..., None] * share * rows.features, share * rows.fixed)
    empty = (one.new_zeros((len(factor), groups + 1, one.shape[2])) for one in parts)
    sums = [start.scatter_add(1, _wide(component, one), one)[:, :groups] for start, one in zip(empty, parts, strict=True)]
    return Rows(sums[0], sums[1], size[:, :groups].clamp_min(1.0), shared[:, :groups])


def group_softmax(scores: Tensor, group: Tensor, count: int) -> Tensor:
    """Softmax of scores (B, R) within each of `count` groups per image; safe for any magnitude."""
    largest = scores.new_full((len(scores), count), -math.inf)
    largest = largest.scatter_reduce(1, group, scores.detach(), "amax")
    exponential = torch.exp(scores - largest.gather(1, group))
    total = torch.zeros_like(largest).scatter_add(1, group, exponential)
    return exponential / total.gather(1, group)
