"""TreeOptions: how a tree is grown, as one value: similarity, compactness, energy and variance floor, with all defaults."""

import math
from dataclasses import dataclass, field

from pixtree.kernels.image.planes import UNIT
from pixtree.kernels.tree import FLOOR, Cost, Energy, MergeRule

ENERGIES = {"likelihood": Energy.LOG_VARIANCE, "squared_error": Energy.SQUARED_ERROR}


@dataclass(frozen=True)
class Likelihood:
    """Merge cost [E(a∪b) − E(a) − E(b)] / L^β with E = n Σ_c log(1 + M2_c/(nφ)) and L the shared pixel edges.

    The first `ward_rounds` rounds (at least the first, between single pixels) use Ward's cost, because the variance of a few
    pixels is unreliable.

    >>> import numpy as np, pixtree
    >>> int(pixtree.segment(np.eye(20), 7, similarity=pixtree.Likelihood(ward_rounds=2)).max()) + 1
    7
    """

    length_exponent: float = 0.5
    ward_rounds: int = 1


@dataclass(frozen=True)
class Ward:
    """Merge cost n_a n_b / (n_a + n_b) · ‖Δμ‖² / L^β: the growth of the squared error, gentler along long common boundaries.

    >>> import numpy as np, pixtree
    >>> int(pixtree.segment(np.eye(20), 7, similarity=pixtree.Ward(length_exponent=0.0)).max()) + 1
    7
    """

    length_exponent: float = 0.5


@dataclass(frozen=True)
class Gaussian:
    """The paper's κ = exp(−‖Δμ‖² / 2σ²); the choice of neighbour does not depend on σ.

    >>> import numpy as np, pixtree
    >>> int(pixtree.segment(np.eye(20), 7, similarity=pixtree.Gaussian()).max()) + 1
    7
    """


@dataclass(frozen=True)
class Cosine:
    """The paper's cosine kernel, κ = (1 + cos(μ_a, μ_b)) / 2.

    >>> import numpy as np, pixtree
    >>> int(pixtree.segment(np.eye(20), 7, similarity=pixtree.Cosine()).max()) + 1
    7
    """


@dataclass(frozen=True)
class Tanimoto:
    """The paper's Tanimoto kernel, κ = ⟨a, b⟩ / (‖a‖² + ‖b‖² − ⟨a, b⟩), clamped at 0.

    >>> import numpy as np, pixtree
    >>> int(pixtree.segment(np.eye(20), 7, similarity=pixtree.Tanimoto()).max()) + 1
    7
    """


Similarity = Likelihood | Ward | Gaussian | Cosine | Tanimoto
SIMILARITIES: dict[str, type[Similarity]] = {kind.__name__.lower(): kind for kind in (Likelihood, Ward, Gaussian, Cosine, Tanimoto)}


def named(similarity: Similarity | str) -> Similarity:
    """A similarity given by value or by name."""
    if not isinstance(similarity, str):
        return similarity
    if similarity not in SIMILARITIES:
        raise ValueError(f"a similarity is one of {', '.join(SIMILARITIES)}, got {similarity!r}; choose one of these")
    return SIMILARITIES[similarity]()


def merge_rule(similarity: Similarity | str, energy: str, floor: float) -> MergeRule:
    """The plain numbers that a backend needs; every value is checked here."""
    similarity = named(similarity)
    if energy not in ENERGIES:
        raise ValueError(f"an energy is one of {', '.join(ENERGIES)}, got {energy!r}; choose one of these")
    if not (math.isfinite(floor) and floor > 0):
        raise ValueError(f"the variance floor must be a positive number, got {floor}; 10 suits Lab features")
    quarters = 4 * getattr(similarity, "length_exponent", 0.0)
    if quarters not in (0, 1, 2, 3, 4):
        raise ValueError(f"length_exponent must be 0, 0.25, 0.5, 0.75 or 1, got {quarters / 4}; 0.5 is the default")
    rounds = getattr(similarity, "ward_rounds", 1)
    if rounds < 1:
        raise ValueError(f"ward_rounds must be at least 1, got {rounds}; a single pixel has no variance to compare")
    return MergeRule(Cost[type(similarity).__name__.upper()], ENERGIES[energy], float(floor), int(quarters), int(rounds))


def coordinate_unit(compactness: float) -> float:
    """Lab units that one pixel of distance counts: 10 s, as s is given per 10 Lab units; 0 leaves coordinates out."""
    if not (math.isfinite(compactness) and compactness >= 0):
        raise ValueError(f"compactness must be a number from 0 up, got {compactness}; 0 is off, 0.1 suits square-ish tokens")
    return UNIT * compactness


@dataclass(frozen=True)
class TreeOptions:
    """Options of a tree: the similarity of regions, and the energy that nested cuts minimise.

    similarity: "likelihood" (default), "ward", or the paper's "gaussian", "cosine", "tanimoto"; by name or by value.
    compactness: weight of pixel coordinates; 0.1 makes one pixel count as much as one Lab unit, 0 leaves them out.
    energy: minimised by a nested cut with n regions, "likelihood" (n Σ log(1 + σ²/φ)) or "squared_error".
    floor: φ, a variance in squared feature units, below which a region counts as flat; it also regularises the likelihood cost.
    """

    similarity: Similarity | str = field(default=Likelihood())
    compactness: float = 0.0
    energy: str = "likelihood"
    floor: float = FLOOR

    def __post_init__(self) -> None:
        coordinate_unit(self.compactness)
        merge_rule(self.similarity, self.energy, self.floor)

    @property
    def rule(self) -> MergeRule:
        """The plain numbers that kernels take."""
        return merge_rule(self.similarity, self.energy, self.floor)
