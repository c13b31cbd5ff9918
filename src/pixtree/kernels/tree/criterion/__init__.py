"""Information criteria of tree nodes, IC(S) = −2 log L(S) + γ g(k), as plain numbers. [`eq:information_criteria`]"""

from enum import IntEnum
from typing import NamedTuple

# Channels whose variances share one logarithm of float64; a product of eight stays far from the largest number.
CHANNELS_PER_DOUBLE_LOG = 8


class Penalty(IntEnum):
    """g(k), with k = |E| / Vol(S) degrees of freedom and n pixels in the image."""

    AIC = 0  # 2k
    AICC = 1  # 2k + 2k (k + 1) / (n − k − 1), ∞ where the denominator is not positive
    BIC = 2  # k log n
    CIC = 3  # k (log |S| + 1)


class Scoring(NamedTuple):
    """How a criterion scores nodes."""

    penalty: Penalty
    scale: float  # γ
    single_volume: float  # Vol of a single pixel; 0 makes its k infinite
    levels: bool  # whether only regions of a level may be chosen
