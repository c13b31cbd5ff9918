"""Cuts whose number of regions follows from the image: what a criterion chooses, or the regions of a level, as plain numbers."""

from typing import NamedTuple

from pixtree.kernels.tree.criterion import Scoring


class Choice(NamedTuple):
    """How the regions of a cut are chosen. Criteria see all planes but coordinates."""

    scoring: Scoring | None  # of the criterion; None takes the regions of a level
    floor: float = 1.0  # φ of the criterion
    pixelwise: bool = False  # whether every pixel takes its best region, see `pixelwise_cut`, instead of the cut of least total IC
    at_most: int = 0  # regions; what has more is merged further, in the order of the nested cuts. 0 is any number
    level: int = 0
