"""Trees of regions: the merge rule as plain numbers, and the trees, edges and cuts that every backend takes and returns."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from torch import Tensor

MOST_LEVELS = 64  # regions at least halve from level to level
FLOOR = 10.0  # the variance below which a region counts as flat, in squared Lab units


class Cost(IntEnum):
    """The cost that the most similar neighbour minimises."""

    GAUSSIAN = 0  # squared distance of means: the argmax of exp(−‖Δμ‖²/2σ²) for every σ
    COSINE = 1  # 1 − cos
    TANIMOTO = 2  # 1 − Tanimoto similarity
    WARD = 3  # growth of the squared error over (shared edges)^β
    LIKELIHOOD = 4  # growth of the log-variance energy over (shared edges)^β


class Energy(IntEnum):
    """The energy that a nested cut with n regions minimises."""

    SQUARED_ERROR = 0  # Σ_c M2_c
    LOG_VARIANCE = 1  # n Σ_c log(1 + M2_c / (n φ))


class MergeRule(NamedTuple):
    """The rule by which regions pick their neighbours, and by which the tree prices its nodes."""

    cost: Cost = Cost.LIKELIHOOD
    energy: Energy = Energy.LOG_VARIANCE
    floor: float = FLOOR  # φ, a variance in squared feature units
    length_quarters: int = 2  # β = length_quarters / 4: a power that √ can take
    ward_rounds: int = 1  # rounds, from the first, in which LIKELIHOOD uses Ward's cost
    # Whether the costs that are kernels compare f_t of `alg:merge`, sums weighted by κ(v, v_max), instead of plain means.
    weighted: bool = False
    precision: float = 0.0  # π = 1/2σ² of a weighted rule's Gaussian κ, in squared feature units

    @classmethod
    def from_numbers(cls, numbers: Sequence[float]) -> "MergeRule":
        """The rule whose fields, as numbers, are these; up to version 0.2 there were five."""
        cost, energy, floor, quarters, rounds, weighted, precision = (*numbers, 0.0, 0.0)[:7]
        plain = Cost(int(cost)), Energy(int(energy)), float(floor), int(quarters), int(rounds)
        return cls(*plain, bool(weighted), float(precision))

    @property
    def prunable(self) -> bool:
        """Whether exact cuts can do without the whole tree: energies that bound their gains, and a first round on the grid."""
        return self.energy == Energy.LOG_VARIANCE and self.cost not in (Cost.COSINE, Cost.TANIMOTO) and not self.weighted


class Place(NamedTuple):
    """Where a window lies in an image: where costs are equal, regions are then identified by their first pixel in the image.

    So windows that overlap, and the image itself under Place(0, width), decide alike; without a place, numbers of regions decide.
    """

    first: int  # number of the window's first pixel, in the raster order of the image
    width: int  # of the image


class Tree(NamedTuple):
    """A binary tree over M leaves: nodes 0..M−1 are leaves, M..2M−2 inner nodes in the order in which they were made."""

    parent: Tensor  # (2M−1,) int32, −1 at the root
    left: Tensor  # (M−1,) int32: the cluster that grew
    right: Tensor  # (M−1,) int32: the member it absorbed
    level: Tensor  # (2M−1,) int16: the round that made the node, 0 for leaves
    altitude: Tensor  # (2M−1,) float32: the merge cost, 0 for leaves, ∞ where pieces that do not touch are joined
    gain: Tensor  # (M−1,) float32: the energy that closing the node adds, ∞ where pieces are joined
    # (M−1,) int32: the region that the absorbed member had picked, u_max of u = right; −1 − p inside a flat zone, all of whose
    # pixels pick its first pixel p; empty if not asked for
    pick: Tensor


class Edges(NamedTuple):
    """Which regions touch: pairs first < second in lexicographic order, and the number of pixel edges they share."""

    first: Tensor
    second: Tensor
    length: Tensor


class ExactCut(NamedTuple):
    """The labels of a cut, (M,) int32, numbered by first pixel, and if asked for the levels of its tree and coarser nested cuts.

    levels: (4, 2M + MOST_LEVELS) int32, how pixels became regions, level after level; None unless the rule is prunable. Row 3
    has the offsets: level l has the regions offset[l]:offset[l + 1] of rows 0 and 1, level 0 pixels; the last level is the whole
    image. Row 0: the region that a region picked. Row 1: the regions again, by component. Row 2: where component g of level l
    begins there, entry offset[l + 1] − offset[1] + l + g; members[start[g]:start[g + 1]]. All are numbers within the level.
    """

    labels: Tensor
    levels: Tensor | None
    coarser: tuple[Tensor, ...] = ()  # labels alike
