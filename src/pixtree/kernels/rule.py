"""MergeRule: everything a backend must know to build a tree, as plain numbers."""

from enum import IntEnum
from typing import NamedTuple


class Cost(IntEnum):
    """What "most similar" minimises."""

    GAUSSIAN = 0  # squared distance of means: the argmax of exp(−‖Δμ‖²/2σ²) for every σ
    COSINE = 1  # 1 − cos
    TANIMOTO = 2  # 1 − Tanimoto similarity
    WARD = 3  # growth of the squared error over (shared edges)^β
    LIKELIHOOD = 4  # growth of the log-variance energy over (shared edges)^β


class Energy(IntEnum):
    """What a nested cut with n regions minimises."""

    SQUARED_ERROR = 0  # Σ_c M2_c
    LOG_VARIANCE = 1  # n Σ_c log(1 + M2_c / (n φ))


class MergeRule(NamedTuple):
    """How regions pick their neighbour, and how the tree prices its nodes."""

    cost: Cost = Cost.LIKELIHOOD
    energy: Energy = Energy.LOG_VARIANCE
    floor: float = 10.0  # φ, a variance in squared feature units
    length_quarters: int = 2  # β = length_quarters / 4: a power that √ can take
    ward_rounds: int = 1  # rounds, from the first, in which LIKELIHOOD uses Ward's cost

    @property
    def prunable(self) -> bool:
        """Whether exact cuts can do without the whole tree: energies that bound their gains, and a first round on the grid."""
        return self.energy == Energy.LOG_VARIANCE and self.cost not in (Cost.COSINE, Cost.TANIMOTO)
