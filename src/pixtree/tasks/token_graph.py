"""TokenGraph: the tokens of one image as nodes of a graph; their affinities, its normalised cut, and which side is the object.

Square patches, the regions of a retrofitted model, and either of them pooled into the regions of a tree all become such a graph.
[Wang et al. 2022; Shi & Malik 2000]
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from pixtree.models.facets import Facet, Reading
from pixtree.models.patch_grids import Grid, bilinear_shares

Values = NDArray[np.float64]
LabelMap = NDArray[np.int32]
Certainty = Callable[[NDArray[np.bool_]], float]  # of the model, if it sees only the pixels (H, W) of a mask

DENSE = 64  # nodes up to which all eigenvectors are computed at once: Lanczos iterations gain nothing there
GAP = 1e-9  # eigenvalues closer than this count as equal
SEED = 0  # of the start vector of Lanczos iterations, which also decides between eigenvectors of equal eigenvalues
RULES = ("border", "centre", "largest", "attention", "occlusion")
CENTRE_WIDTH = 0.25  # standard deviation of the centre prior, in heights and widths


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenGraph:
    """N tokens.

    features: (N, D). attention: (N,) of the class token, per pixel for regions. size: (N,) pixels, 1 for patches. labels: (H, W)
    the token of each pixel. grid: of patches, between whose centres values are interpolated; None for regions.
    """

    features: Values
    attention: Values
    size: Values
    labels: LabelMap
    grid: Grid | None

    def painted(self, values: Values) -> Values:
        """Values (N,) over the pixels, (H, W); those of patches are interpolated bilinearly."""
        if self.grid is None:
            return values[self.labels]
        small = torch.from_numpy(values.reshape(1, 1, *self.grid))
        large: Values = functional.interpolate(small, self.labels.shape, mode="bilinear")[0, 0].numpy()
        return large

    def some(self, kept: NDArray[np.bool_]) -> "TokenGraph":
        """The graph of the kept tokens (N,); pixels of all others have label −1."""
        number = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
        return TokenGraph(
            features=self.features[kept],
            attention=self.attention[kept],
            size=self.size[kept],
            labels=number[self.labels],
            grid=None,
        )


def own_tokens(reading: Reading, shape: tuple[int, int]) -> TokenGraph:
    """The model's own tokens, in an image of that height and width."""
    labels = labels_at(reading, shape)
    features, attention = _array(reading.features), _array(reading.attention)
    size = np.ones(len(features)) if reading.is_grid else np.bincount(labels.ravel(), minlength=len(features)).astype(np.float64)
    attention = attention if reading.is_grid else attention / np.maximum(size, 1)
    return TokenGraph(features=features, attention=attention, size=size, labels=labels, grid=reading.grid)


def pooled_tokens(reading: Reading, labels: LabelMap) -> TokenGraph:
    """The features of the model's tokens averaged over the pixels of other regions (H, W), such as those of a tree."""
    share = token_shares(reading, labels)
    return TokenGraph(
        features=share @ _array(reading.features),
        attention=share @ _array(reading.attention),
        size=np.bincount(labels.ravel()).astype(np.float64),
        labels=labels,
        grid=None,
    )


def token_shares(reading: Reading, labels: LabelMap) -> Values:
    """The weight of each token in each region of a label map (H, W): (regions, N), rows with the sum 1.

    A pixel mixes its four nearest patches, by bilinear weights, or belongs to one region of the model.
    """
    count = int(labels.max()) + 1
    if reading.grid is not None:
        return _array(bilinear_shares(torch.from_numpy(labels)[None], reading.grid, count)[0])
    tokens = len(reading.features)
    pairs = labels.ravel().astype(np.int64) * tokens + labels_at(reading, labels.shape).ravel()
    pixels = np.bincount(pairs, minlength=count * tokens).reshape(count, tokens)
    shares: Values = pixels / pixels.sum(axis=1, keepdims=True)
    return shares


def labels_at(reading: Reading, shape: tuple[int, ...]) -> LabelMap:
    """The model's token of every pixel of an image of another height and width."""
    base = reading.entry.base[0]
    rows, columns = ((torch.arange(length) * 2 + 1) * side // (2 * length) for length, side in zip(shape, base.shape, strict=True))
    found: LabelMap = base[rows][:, columns].cpu().numpy().astype(np.int32)
    return found


def _array(values: Tensor) -> Values:
    return values.cpu().numpy().astype(np.float64)


@dataclass(frozen=True)
class Affinity:
    """How much tokens belong together: which features are compared, and what their cosines mean.

    facets: the features, side by side. threshold: a cosine below it counts as zero; None for the mean cosine of the image.
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
# For supervised models the published setting fails: keys of their last blocks do not separate objects. These two were chosen on
# the odd half of ECSSD (`python benchmarks/salient.py search`), with DeiT-Tiny and ViT-Tiny, for square patches and for regions.
PATCHES = Affinity((Facet(-5, "query"), Facet(-1, "query")), threshold=None)
REGIONS = Affinity((Facet(-4, "query"), Facet(-1, "query")), threshold=None)
AFFINITIES = {"tokencut": TOKENCUT, "patches": PATCHES, "regions": REGIONS}


def named_affinity(affinity: Affinity | str) -> Affinity:
    """An affinity given by value or by name."""
    if not isinstance(affinity, str):
        return affinity
    if affinity not in AFFINITIES:
        raise ValueError(f"an affinity is one of {', '.join(AFFINITIES)}, got {affinity!r}; choose one of these")
    return AFFINITIES[affinity]


def affinity_for(model: Any, pooled: bool = True) -> Affinity:
    """The setting that worked best for a model's family, by the name and tag of its timm weights; for pooled or for own tokens."""
    config = getattr(model, "pretrained_cfg", None) or {}
    name, tag = str(config.get("architecture", "")), str(config.get("tag", ""))
    if "dino" in name + tag or not name.startswith(("deit", "vit")):
        return TOKENCUT
    return REGIONS if pooled else PATCHES


def cut_vector(affinity: Values, size: Values) -> Values:
    """The relaxed normalised cut of N nodes, (N,): positive on one side, negative on the other, 0 everywhere if there is no cut.

    affinity: (N, N), symmetric, from 0 up. size: (N,), the weight of each node, such as its pixels. With W = diag(size) A
    diag(size) and D = diag(W1), x solves (D − W) x = μ D x for the second-smallest μ (the smallest belongs to the constant); the
    result is x minus its mean by size. Its first entry of the largest absolute value is positive. Where several x have the same μ,
    as in a graph of three or more pieces, x is the projection of a fixed vector onto them. One node has no cut, and neither has a
    graph in which all x are alike, such as one of equal affinities. O(N²) per iteration.
    """
    count = len(size)
    weighted = affinity * size[:, None] * size[None]
    degree = weighted.sum(axis=1)
    joined = degree > 0  # a node without any affinity, not even to itself, is on no side
    if joined.sum() < 2:
        return np.zeros(count)
    found = np.zeros(count)
    found[joined] = _second(weighted[np.ix_(joined, joined)], degree[joined])
    if not found.any():
        return found
    found[joined] -= np.average(found[joined], weights=size[joined])
    return found * _sign(found)


def _second(weighted: Values, degree: Values) -> Values:
    """The vector x of the second-smallest μ, (N,); zeros where all are equal."""
    root = np.sqrt(degree)
    trivial = root / np.linalg.norm(root)
    # The largest eigenvalues of D^-½WD^-½ are the smallest μ; the trivial one, 1, moves to −1, the lower bound of all.
    symmetric = weighted / root[:, None] / root[None] - 2 * np.outer(trivial, trivial)
    start = np.random.default_rng(SEED).standard_normal(len(root))
    start -= trivial * (trivial @ start)
    vector = _lanczos(symmetric, start) if len(root) > DENSE else None
    return (_dense(symmetric, trivial, start) if vector is None else vector) / root


def _lanczos(symmetric: Values, start: Values) -> Values | None:
    """The eigenvector of the largest eigenvalue; None if another eigenvalue is too close or the iterations do not converge."""
    from scipy.sparse.linalg import ArpackError, eigsh

    try:
        values, vectors = eigsh(symmetric, k=2, which="LA", v0=start)
    except ArpackError:
        return None
    largest: Values = vectors[:, values.argmax()]
    return largest if abs(values[1] - values[0]) > GAP else None


def _dense(symmetric: Values, trivial: Values, start: Values) -> Values:
    """The same from all eigenvectors: the projection of `start` onto those of the largest eigenvalue."""
    values, vectors = np.linalg.eigh(symmetric)
    equal = vectors[:, values > values[-1] - GAP]
    if equal.shape[1] >= len(start) - 1 and len(start) > 2:
        return np.zeros(len(start))
    chosen = equal @ (equal.T @ start)
    projected: Values = chosen - trivial * (trivial @ chosen)
    return projected


def _sign(vector: Values) -> float:
    """The sign of the entry of the largest absolute value, of the first of those that are equal up to rounding."""
    heights = np.abs(vector)
    return float(np.sign(vector[np.flatnonzero(heights >= (1 - GAP) * heights.max())[0]]))


def checked_rule(rule: str) -> str:
    """A rule of RULES, by its name."""
    if rule not in RULES:
        raise ValueError(f"a rule for the object's side is one of {', '.join(RULES)}, got {rule!r}; choose one of these")
    return rule


def object_side(graph: TokenGraph, vector: Values, rule: str, certainty: Certainty) -> NDArray[np.bool_]:
    """The tokens (N,) of the object; `vector` (N,) is positive on one side of a cut, as in `cut_vector`.

    border: the side with fewer pixels at the image border. centre: the one that is nearer to the centre on average. largest: that
    of the largest entry of the vector, TokenCut's own rule. attention: the one that the class token attends to more, per pixel.
    occlusion: the one that the model needs more, the paper's rule; `certainty` is the probability of the model's prediction if it
    sees only that side. Border and centre are priors about photographs, not evidence of the model.
    """
    first = vector > 0
    if not first.any() or first.all():
        return np.zeros_like(first)
    if rule == "largest":  # the vector's largest entry is positive
        return first
    if rule == "occlusion":
        return first if certainty(first[graph.labels]) >= certainty(~first[graph.labels]) else ~first
    if rule == "border":
        held = _at_border(graph)
        return first if held[first].sum() <= held[~first].sum() else ~first
    value = graph.attention if rule == "attention" else _centrality(graph)
    ours, theirs = (np.average(value[side], weights=graph.size[side]) for side in (first, ~first))
    return first if ours >= theirs else ~first


def _at_border(graph: TokenGraph) -> Values:
    """The pixels of each token at the image border, (N,)."""
    labels = graph.labels
    ring = np.concatenate((labels[0], labels[-1], labels[1:-1, 0], labels[1:-1, -1]))
    return np.bincount(ring[ring >= 0], minlength=len(graph.size)).astype(np.float64)


def _centrality(graph: TokenGraph) -> Values:
    """The mean of a Gaussian around the image centre over the pixels of each token, (N,)."""
    rows, columns = (((np.arange(side) + 0.5) / side - 0.5) / CENTRE_WIDTH for side in graph.labels.shape)
    prior = np.exp(-(rows[:, None] ** 2 + columns**2) / 2)
    inside = graph.labels >= 0
    labels = graph.labels[inside]
    pixels = np.maximum(np.bincount(labels, minlength=len(graph.size)), 1)
    means: Values = np.bincount(labels, prior[inside], len(graph.size)) / pixels
    return means
