"""Cuts by way of whole trees: what a criterion chooses, the regions of a level, or a number of regions, as plain numbers."""

from typing import NamedTuple

from pixtree.kernels.tree.criterion import Scoring


class Choice(NamedTuple):
    """How the regions of a cut are chosen. Criteria see all planes but coordinates."""

    scoring: Scoring | None  # of the criterion; None takes the nested cut with `regions`, or without one those of a level
    floor: float = 1.0  # φ of the criterion
    pixelwise: bool = False  # whether every pixel takes its best region, see `pixelwise_cut`, instead of the cut of least total IC
    at_most: int = 0  # regions; what has more is merged further, in the order of the nested cuts. 0 is any number
    level: int = 0
    regions: int = 0
