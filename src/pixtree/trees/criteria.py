"""Information criteria: the cost of a region, as fit plus complexity. [`eq:information_criteria`]

IC(S) = −2 log L(S) + γ g(k), with k = |E| / Vol(S) degrees of freedom: a region of few inner pixel edges is a complex one.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from pixtree.kernels.tree import FLOOR
from pixtree.kernels.tree.criterion import Penalty, Scoring
from pixtree.trees.structure import TreeStructure

PENALTIES = {penalty.name.lower(): penalty for penalty in Penalty}
RULES = ("optimal", "pixel")
NODES = ("binary", "levels")
SHAPES = (0.1, 10.0)  # beyond, the gamma function or the powers of residuals overflow


@dataclass(frozen=True)
class Criterion:
    """The cut that an information criterion chooses, with every regulariser that the paper leaves open as a named parameter.

    name: "aic", "aicc", "bic" or "cic".
    penalty: γ, the scale of the complexity term; smaller means more regions.
    floor: φ, added to every variance, in squared feature units: regions flatter than √φ count as flat.
    shape: b of the generalised normal distribution of residuals; 2 is the Gaussian. Other shapes need the pixels of a region, so
        they are computed at level nodes only.
    single_volume: Vol of a single pixel, which has no inner edge; 0 makes single pixels infinitely complex.
    constants: keep the terms d log 2πeφ per pixel of the full likelihood. They add the same to every cut, so the optimal one stays;
        the pixel rule compares regions of different sizes, so there they do change the result.
    rule: "optimal", the cut of least total IC; or "pixel", that of the authors' released code (the paper states none): each
        pixel takes its best ancestor, then regions that this tears apart are split into connected pieces.
    nodes: "binary" chooses among all nodes, "levels" among those that are a region of some level, as in the paper.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> int(pixtree.segment(image, criterion=pixtree.Criterion("bic")).max()) + 1
    2
    """

    name: str = "aicc"
    penalty: float = 1.0
    floor: float = FLOOR
    shape: float = 2.0
    single_volume: float = 0.0
    constants: bool = False
    rule: str = "optimal"
    nodes: str = "binary"

    def __post_init__(self) -> None:
        _choose("a criterion", self.name, tuple(PENALTIES))
        _choose("a rule", self.rule, RULES)
        _choose("nodes", self.nodes, NODES)
        for what, value, open_end in (("penalty", self.penalty, False), ("floor", self.floor, True), ("shape", self.shape, True)):
            if not math.isfinite(value) or value < 0 or (open_end and value == 0):
                raise ValueError(f"{what} must be a positive number, got {value}; leave it out for the default")
        if not SHAPES[0] <= self.shape <= SHAPES[1]:
            raise ValueError(f"shape must lie in {SHAPES[0]}..{SHAPES[1]}, got {self.shape}; 2 is the Gaussian")
        if not self.single_volume >= 0:
            raise ValueError(f"single_volume must be a number from 0 up, got {self.single_volume}; 0 forbids single pixels")


def _choose(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{what} is one of {', '.join(choices)}, got {value!r}; choose one of these")


def misfit(tree: TreeStructure, criterion: Criterion) -> Tensor:
    """−2 log L(S) per node, (2M−1,) float64, with variances raised by the floor; without constants a flat region has 0.

    The data are all planes except pixel coordinates, which shape the tree but carry no information about the image.

    Gaussian with diagonal covariance, n Σ_c log(1 + σ_c²/φ) [`eq:loglhsigma`], or the generalised normal of shape b,
    (2n/b) Σ_c log(1 + α_c^b/α_φ^b), whose α_φ has variance φ; NaN at nodes that are not a level's region.
    """
    size, b = tree.size.to(torch.float64), criterion.shape
    if b == 2.0:
        fit = tree.kernels.misfits(tree.data, tree.left, tree.right, criterion.floor)
    else:
        floor, powers = scale_of_variance(criterion.floor, b) ** b, scale_powers(tree, b)
        logs = sum(torch.log1p(powers[:, plane] / floor) for plane in tree.content)
        fit = size * (2.0 / b) * logs
    return fit + size * len(tree.content) * likelihood_constant(criterion) if criterion.constants else fit


def scale_of_variance(variance: float, shape: float) -> float:
    """α of the generalised normal distribution that has this variance: α² Γ(3/b)/Γ(1/b) = σ²."""
    return math.sqrt(variance * math.gamma(1.0 / shape) / math.gamma(3.0 / shape))


def likelihood_constant(criterion: Criterion) -> float:
    """−2 log L per pixel and channel of a flat region: log 2πeφ for the Gaussian. [`eq:loglhsigma`]"""
    b = criterion.shape
    return 2.0 * (math.log(2.0 * scale_of_variance(criterion.floor, b) * math.gamma(1.0 / b) / b) + 1.0 / b)


def scale_powers(tree: TreeStructure, shape: float) -> Tensor:
    """α̂^b = (b/n) Σ|x − μ|^b per node and channel, (2M−1, C) float64, from the pixels; NaN at nodes of no level."""
    powers = torch.full_like(tree.mean, torch.nan, dtype=torch.float64)
    features = tree.features.T.to(torch.float64)
    for level in range(tree.levels + 1):
        node = tree.region_nodes(tree.level[tree.leaves :] > level)
        residual = (features - tree.mean[node].to(torch.float64)).abs() ** shape
        total = torch.zeros_like(powers).index_add_(0, node, residual)
        present = torch.unique(node)
        powers[present] = total[present] * shape / tree.size[present, None].to(torch.float64)
    return powers


def scoring_of(criterion: Criterion) -> Scoring:
    """The plain numbers that kernels take."""
    return Scoring(PENALTIES[criterion.name], criterion.penalty, criterion.single_volume, criterion.nodes == "levels")


def scores(tree: TreeStructure, criterion: Criterion) -> Tensor:
    """IC per node, (2M−1,) float64; NaN where a node may not become a region."""
    return tree.kernels.scores(misfit(tree, criterion), tree.size, tree.volume, tree.tree, scoring_of(criterion))
