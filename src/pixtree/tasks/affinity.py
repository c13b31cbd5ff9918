"""Affinity: how much tokens belong together by their features, with the settings that worked for each family of models."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.models.facets import Facet

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Affinity:
    """Which features are compared, and what their cosines mean.

    facets: the features, side by side. threshold: a cosine below it counts as none; None for the mean cosine of the image.
    soft: affinities are the cosines above the threshold; otherwise they are 1 above it. least: the affinity below the threshold,
    which keeps the graph in one piece.
    """

    facets: tuple[Facet, ...] = field(default=(Facet(-1, "key"),))
    threshold: float | None = 0.2
    soft: bool = False
    least: float = 1e-5

    def __post_init__(self) -> None:
        if not self.facets:
            raise ValueError('an affinity compares at least one facet, got none; try facets=(Facet(-1, "key"),)')
        if self.threshold is not None and not -1.0 <= self.threshold < 1.0:
            raise ValueError(f"a threshold of cosines is from −1 to below 1, or None for their mean, got {self.threshold}; try 0.2")
        if not 0.0 < self.least < 1.0:
            raise ValueError(f"the least affinity is above 0 and below 1, got {self.least}; try 1e-5")

    def matrix(self, features: Values, size: Values) -> Values:
        """Affinities (N, N) of features (N, D); nodes count by their size (N,) in the mean cosine."""
        unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
        cosine = unit @ unit.T
        share = size / size.sum()
        above = cosine - (share @ cosine @ share if self.threshold is None else self.threshold)
        return np.maximum(above, self.least) if self.soft else np.where(above > 0, 1.0, self.least)


# As published [Wang et al. 2022], for self-supervised models such as DINO.
TOKENCUT = Affinity()
# For supervised models the published setting fails: keys of their last blocks do not tell objects apart. These two were chosen on
# the odd half of ECSSD (`python benchmarks/salient.py search`), with DeiT-Tiny and ViT-Tiny, for square patches and for regions.
PATCHES = Affinity((Facet(-5, "query"), Facet(-1, "query")), threshold=None)
REGIONS = Affinity((Facet(-4, "query"), Facet(-1, "query")), threshold=None)


def affinity_for(model: Any, pooled: bool = True) -> Affinity:
    """The default of a model's family, by the name and the tag of its timm weights; for pooled features or for its own tokens."""
    config = getattr(model, "pretrained_cfg", None) or {}
    name, tag = str(config.get("architecture", "")), str(config.get("tag", ""))
    if "dino" in name + tag or not name.startswith(("deit", "vit")):
        return TOKENCUT
    return REGIONS if pooled else PATCHES
