"""Similarities of regions: the paper's kernels, Ward's cost and the likelihood cost."""

import math
from dataclasses import dataclass

from pixtree.kernels.tree import Cost, Energy, MergeRule

ENERGIES = {"likelihood": Energy.LOG_VARIANCE, "squared_error": Energy.SQUARED_ERROR}


@dataclass(frozen=True)
class Likelihood:
    """Merge cost [E(a∪b) − E(a) − E(b)] / L^β with E = n Σ_c log(1 + M2_c/(nφ)) and L the shared pixel edges.

    The first `ward_rounds` rounds (at least the first, between single pixels) use Ward's cost, because the variance of few
    pixels says little.

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
SIMILARITIES: dict[str, type[Similarity]] = {
    "likelihood": Likelihood,
    "ward": Ward,
    "gaussian": Gaussian,
    "cosine": Cosine,
    "tanimoto": Tanimoto,
}
_COSTS: dict[type[Similarity], Cost] = {
    Likelihood: Cost.LIKELIHOOD,
    Ward: Cost.WARD,
    Gaussian: Cost.GAUSSIAN,
    Cosine: Cost.COSINE,
    Tanimoto: Cost.TANIMOTO,
}


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
    return MergeRule(_COSTS[type(similarity)], ENERGIES[energy], float(floor), int(quarters), int(rounds))
