"""Kernel-weighted aggregation: the features of regions, differentiable in features and kernel. [`eq:weighted_aggr`]"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from pixtree.kernels import Kernels
from pixtree.kernels.reference.straight_through import group_softmax
from pixtree.tokenizer.ancestry import Ancestry
from pixtree.tokenizer.cutting import Cuts

MODES = ("straight", "raw", "normalised", "mean")
KERNELS = ("gaussian", "cosine", "tanimoto")
SMALLEST = 1e-12  # of κ before its logarithm


class Similarity(nn.Module):
    """The paper's κ on the distance that decides the partition, in logarithms so that nothing underflows.

    gaussian: exp(−D/2σ²) with σ learnable; cosine: (1 + cos)/2; tanimoto: ⟨a, b⟩/(‖a‖² + ‖b‖² − ⟨a, b⟩), clamped at 0.
    """

    def __init__(self, kernel: str = "gaussian") -> None:
        super().__init__()
        if kernel not in KERNELS:
            raise ValueError(f"a kernel is one of {', '.join(KERNELS)}, got {kernel!r}; choose one of these")
        self.kernel = kernel
        self.log_sigma = nn.Parameter(torch.zeros(())) if kernel == "gaussian" else None

    @property
    def precision(self) -> Tensor:
        """1/2σ², a scalar > 0."""
        assert self.log_sigma is not None
        return 0.5 * torch.exp(-2.0 * self.log_sigma)

    def forward(self, a: "Rows", b: "Rows", weight: Tensor | float) -> Tensor:
        """log κ(a, b), (R,)."""
        if self.kernel == "gaussian":
            step = Rows(a.features - b.features, a.fixed - b.fixed, a.size)
            return -self.precision * inner(step, step, weight)
        product, squares_a, squares_b = inner(a, b, weight), inner(a, a, weight), inner(b, b, weight)
        if self.kernel == "cosine":
            norm = (squares_a.clamp_min(SMALLEST) * squares_b.clamp_min(SMALLEST)).sqrt()
            return torch.log((0.5 + 0.5 * product / norm).clamp_min(SMALLEST))
        return torch.log((product / (squares_a + squares_b - product).clamp_min(SMALLEST)).clamp_min(SMALLEST))


class Rows(NamedTuple):
    """Regions of one level: features (R, d), the means without gradient that also decide (R, K), and pixels (R,)."""

    features: Tensor
    fixed: Tensor
    size: Tensor

    def take(self, index: Tensor) -> "Rows":
        """The rows at `index`."""
        return Rows(self.features[index], self.fixed[index], self.size[index])


def inner(a: Rows, b: Rows, weight: Tensor | float) -> Tensor:
    """⟨a, b⟩ of what decides: fixed planes plus w times features."""
    return (a.fixed * b.fixed).sum(1) + weight * (a.features * b.features).sum(1)


class Round(NamedTuple):
    """One round over the whole batch: which rows of this level join which of the next, and whom they picked."""

    member: Tensor  # (R,) rows of this level that join
    partner: Tensor  # (R,) rows of this level
    group: Tensor  # (R,) rows of the next level
    nodes: Tensor  # (R',) flat node numbers of the next level's rows


def rounds(ancestry: Ancestry) -> Iterator[Round]:
    """The rounds of a batch, first to last; level 0 has the pixels of all images as rows."""
    batch, nodes = ancestry.group.shape
    start = torch.arange(batch, device=ancestry.group.device)[:, None] * nodes
    group = torch.where(ancestry.group < 0, -1, ancestry.group + start).flatten()
    partner = torch.where(ancestry.partner < 0, -1, ancestry.partner + start).flatten()
    level = ancestry.level.flatten()
    row = torch.full_like(group, -1)
    here = (torch.arange((nodes + 1) // 2, device=start.device) + start).flatten()
    for number in range(int(level.max())):
        row[here] = torch.arange(here.numel(), device=here.device)
        member = torch.nonzero((group >= 0) & (level == number)).flatten()
        above, index = torch.unique(group[member], return_inverse=True)
        yield Round(row[member], row[partner[member]], index, above)
        here = above


def aggregate(
    features: Tensor, fixed: Tensor, ancestry: Ancestry, similarity: Similarity, weight: Tensor | float, mode: str = "straight"
) -> Tensor:
    """Features (B, N, d) of the regions of a batch, from those of its pixels, planes (B, d, H·W).

    f_{t+1}(P) = Σ_u c_u f_t(u) over the members u of P, with |u|/|P| = share, κ_u = κ(u, u_max) of u's own pick, and c_u
    "raw": share · κ_u, the paper's, unnormalised; "normalised": |u| κ_u / Σ|v| κ_v; "mean": share;
    "straight": share + w − stopgrad(w), w the normalised weights: the value is the mean, the gradient also flows through κ.
    fixed: planes (B, K, H·W) without gradient that κ sees beside w·f. O(H·W) per image and round.
    """
    if mode not in MODES:
        raise ValueError(f"an aggregation is one of {', '.join(MODES)}, got {mode!r}; choose one of these")
    batch, nodes = ancestry.group.shape
    rows = Rows(_pixel_rows(features), _pixel_rows(fixed), features.new_ones(features.shape[0] * features.shape[2]))
    found = [rows.features]
    where = [
        (torch.arange(features.shape[2], device=fixed.device) + nodes * torch.arange(batch, device=fixed.device)[:, None]).flatten()
    ]
    for step in rounds(ancestry):
        rows = _merged(rows, step, similarity, weight, mode)
        found.append(rows.features)
        where.append(step.nodes)
    place = torch.full((batch * nodes,), -1, dtype=torch.int64, device=fixed.device)
    place[torch.cat(where)] = torch.arange(sum(len(one) for one in where), device=fixed.device)
    start = torch.arange(batch, device=fixed.device)[:, None] * nodes
    chosen = place[(ancestry.region.clamp_min(0) + start)]
    return torch.cat(found)[chosen].masked_fill(ancestry.region[..., None] < 0, 0.0)


def _pixel_rows(planes: Tensor) -> Tensor:
    return planes.transpose(1, 2).flatten(0, 1)


def _merged(rows: Rows, step: Round, similarity: Similarity, weight: Tensor | float, mode: str) -> Rows:
    """The rows of the next level."""
    members, count = rows.take(step.member), step.nodes.numel()
    size = torch.zeros(count, dtype=members.size.dtype, device=members.size.device).index_add(0, step.group, members.size)
    share = members.size / size[step.group]
    coefficient = share
    if mode != "mean":
        log_kernel = similarity(members, rows.take(step.partner), weight)
        if mode == "raw":
            coefficient = share * torch.exp(log_kernel)
        else:
            weights = group_softmax(members.size.log() + log_kernel, step.group, count)
            coefficient = weights if mode == "normalised" else share + weights - weights.detach()
    return Rows(
        _summed(coefficient[:, None] * members.features, step.group, count),
        _summed(share[:, None] * members.fixed, step.group, count),
        size,
    )


def _summed(rows: Tensor, group: Tensor, count: int) -> Tensor:
    return torch.zeros((count, rows.shape[1]), dtype=rows.dtype, device=rows.device).index_add(0, group, rows)


def region_features(
    features: Tensor,
    cuts: Cuts,
    similarity: Similarity,
    weight: Tensor | float,
    mode: str,
    kernels: Kernels,
) -> Tensor:
    """f* (B, N, d): `aggregate`, by the shortest way to the same values and gradients.

    Without levels or an ancestry (a partition that no tree made, or no gradient is asked for) regions take plain means.
    """
    labels = cuts.partition.labels.flatten(1)
    if cuts.levels is not None and cuts.fixed is not None:
        scalars = torch.as_tensor(weight, dtype=features.dtype), similarity.precision.to(features.dtype)
        return kernels.straight_means(features, cuts.fixed.to(features.dtype), *scalars, labels, cuts.count, cuts.levels)
    if cuts.ancestry is None or cuts.fixed is None or (mode == "mean" and cuts.ancestry.whole):
        return kernels.region_means(features, labels, cuts.count)
    return aggregate(features, cuts.fixed.to(features.dtype), cuts.ancestry, similarity, weight, mode)
