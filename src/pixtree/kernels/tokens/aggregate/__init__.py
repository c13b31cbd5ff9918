"""Kernel-weighted aggregation: the features of regions from those of their pixels, round by round. [`eq:weighted_aggr`]

In every round the members u of a component P join as f(P) = Σ_u c_u f(u), with share = |u|/|P| and κ_u = κ(u, u_max) of u's pick.
A group is the part of a component that lies inside one region of the partition: all of it, or, where the partition divides the
component, the members with one label. Groups of one region that never meet in a round are averaged by their pixels.
"""

from typing import NamedTuple

from torch import Tensor

MODES = ("straight", "raw", "normalised", "mean")
SIMILARITIES = ("gaussian", "cosine", "tanimoto")


class Grown(NamedTuple):
    """The regions of a batch, and the rounds of the trees that they were cut from."""

    labels: Tensor  # (B, P)
    regions: int  # N, per image
    levels: Tensor  # (B, 4, L) int32, see `ExactCut`
    whole: bool = True  # whether every region is a node of its tree


class Kernel(NamedTuple):
    """κ on the distance that decides the partition: fixed planes plus w times the first `compared` features, None: all."""

    weight: Tensor  # w, a scalar
    precision: Tensor  # π = 1/2σ² of the Gaussian, a scalar
    name: str = "gaussian"
    compared: int | None = None
