"""Tokenizer: images to tokens, as one module."""

from typing import Any

import torch
from torch import Tensor, nn

from pixtree.kernels.tokens.sample import Injected
from pixtree.runtime.precision import full_precision
from pixtree.tokenizer.aggregation import SIMILARITIES, Similarity
from pixtree.tokenizer.counts import TokenBudget, budget_for
from pixtree.tokenizer.cutting import Cuts
from pixtree.tokenizer.distance import Distance
from pixtree.tokenizer.encoder import Encoder
from pixtree.tokenizer.gradients import GradientHistogram
from pixtree.tokenizer.normalisation import Normalisation
from pixtree.tokenizer.options import Options
from pixtree.tokenizer.positions import Positions
from pixtree.tokenizer.region_encoder import EncodedRegions, RegionEncoder, shape_of
from pixtree.tokenizer.sampling import Sampler
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly
from pixtree.trees.partition import Partition

PAPER = Options().changed(
    decision="features", similarity="gaussian", aggregation="raw", kernel="gaussian", compactness=0.0, mix=0.5
)
# The paper states neither γ nor φ; this γ gives its mean count of tokens at 224 px (benchmarks/paper_counts.py).
PAPER_BUDGET = Criterion("aicc", penalty=3.6, rule="pixel", nodes="levels")
TREE_WEIGHTS = ("raw", "normalised")  # aggregations whose values come from the rounds of the tree


def paper_changes(**changes: Any) -> dict[str, Any]:
    """The paper's options by flat names, as changes to `Options`, and with further changes.

    The tree has the κ of the aggregation unless both are given.

    >>> from pixtree.tokenizer.tokenizer import paper_changes
    >>> paper_changes(kernel="cosine")["similarity"]
    'cosine'
    """
    usual = Options().flat()
    paper = {name: value for name, value in PAPER.flat().items() if value != usual[name]}
    if "kernel" in changes and "similarity" not in changes:
        changes["similarity"] = changes["kernel"]
    elif "similarity" in changes and "kernel" not in changes:
        similarity = changes["similarity"]
        name = similarity if isinstance(similarity, str) else type(similarity).__name__.lower()
        changes["kernel"] = name if name in SIMILARITIES else PAPER.kernel
    return {**paper, **changes}


def check_aggregation(options: Options, source: str) -> None:
    """Refuse weights that need the rounds of the tree for regions that another `source` made."""
    if options.aggregation in TREE_WEIGHTS:
        raise ValueError(
            f"{options.aggregation} weights follow the rounds of the tree, got regions of {source}; "
            'let the tree cut, or choose aggregation="straight" or "mean"'
        )


class Tokenizer(nn.Module):
    """Images to tokens: encode, cut the tree, aggregate, inject, sample, project. Deterministic, and each image is on its own.

    budget: the number of tokens, `Exactly(n)` (no padding), `AtMost(n)`, `Criterion("aicc")` or `Level(t)`.
    options: an `Options`, or its values as keywords.

    >>> import torch, pixtree
    >>> images = torch.zeros(2, 3, 48, 64)
    >>> tokenizer = pixtree.Tokenizer(pixtree.Exactly(16), width=32, patch=8)
    >>> tokenizer(images).features.shape, tokenizer.partition(images).counts.tolist()
    (torch.Size([2, 16, 32]), [16, 16])
    """

    def __init__(
        self, budget: TokenBudget = Exactly(196), options: Options | None = None, *, backend: str = "auto", **changes: Any
    ) -> None:
        super().__init__()
        chosen = (options or Options()).changed(**changes)
        channels, sampling, placing = chosen.encoder.channels, chosen.sampling, chosen.placing
        self.budget, self.options, self.backend = budget, chosen, backend
        self.normalisation = Normalisation(chosen.mean, chosen.std, channels)
        self.regions = region_encoder(chosen, backend)
        self.sampler = Sampler(channels, sampling.patch, *sampling.boxes, sampling.mix, backend)
        length, width = channels * sampling.patch**2, chosen.width
        self.projection = None if width is None else nn.Linear(length, width)
        self.positions = None
        if width is not None and placing.positions > 0:
            self.positions = Positions(width, placing.positions, placing.position_kernel, placing.bandwidth, backend)
        self.gradients = GradientHistogram(width or length, chosen.gradients, backend=backend) if chosen.gradients else None
        self.prefix = nn.Parameter(torch.randn(chosen.prefix, width or length) * 0.02)

    @classmethod
    def paper(cls, budget: Budget = PAPER_BUDGET, **changes: Any) -> "Tokenizer":
        """The paper's own system: d = 8, Gaussian κ on f alone, AICC by the per-pixel rule, raw κ weights, learnable λ and β.

        kernel, similarity: κ of the aggregation and of the tree; one of them decides both. Positions are hard bins, with which a
        retrofit starts as its patch model; position_kernel="gaussian" gives the paper's kernel positions.

        >>> import torch, pixtree
        >>> image = torch.zeros(1, 3, 32, 32)
        >>> image[..., 16:] = 1
        >>> pixtree.Tokenizer.paper(width=32)(image).features.shape
        torch.Size([1, 2, 32])
        """
        return cls(budget, **paper_changes(**changes))

    @classmethod
    def pretrained(cls, budget: Budget = Exactly(196), **changes: Any) -> "Tokenizer":
        """A tokenizer whose encoder, W, w and κ come with the package; the rest is fresh. See docs/tokenizer.md.

        >>> import torch, pixtree
        >>> tokenizer = pixtree.Tokenizer.pretrained(pixtree.AtMost(20), width=32)
        >>> tokenizer(torch.zeros(1, 3, 48, 64)).full
        True
        """
        from pixtree.tokenizer.weights import shipped_weights

        tokenizer = cls(budget, **changes)
        shipped_weights().into(tokenizer.regions)
        return tokenizer

    def forward(self, images: Tensor, partition: Partition | Cuts | None = None, budget: Budget | None = None) -> Tokens:
        """Tokens of images (B, C, H, W), uint8 or float 0..1.

        A given partition, such as square patches, takes the tree's place; a given budget that of the tokenizer's own. Raw and
        normalised weights follow the rounds of the tree, so they refuse a partition. What `cut` gave is no such partition: its
        tokens have the same values and gradients as if they were cut here.
        """
        return self.embed(self.encode(images, partition, budget))

    def partition(self, images: Tensor, budget: Budget | None = None) -> Partition:
        """The partition alone: a tokenizer is a partitioner."""
        with torch.no_grad():
            return self.encode(images, budget=budget).partition

    def cut(self, images: Tensor, budget: Budget | None = None) -> Cuts:
        """The partition and, where gradients are asked for, how its regions came about; see `forward`."""
        return self.regions.cut_images(images, budget_for(budget or self.budget, shape_of(images)))

    def encode(self, images: Tensor, partition: Partition | Cuts | None = None, budget: Budget | None = None) -> EncodedRegions:
        """Regions with their features and colours, before they become tokens."""
        if isinstance(partition, Partition) or (partition is not None and partition.levels is None):
            check_aggregation(self.options, "a given partition")
        chosen = budget_for(budget or self.budget, shape_of(images)) if partition is None else None
        encoded: EncodedRegions = self.regions(images, chosen, partition)
        return encoded

    def samples(self, regions: EncodedRegions) -> Tensor:
        """F(S), (B, N, C, q, q), in units of the pixels normalised by mean and std."""
        pixels, normal = regions.picture, self.normalisation
        scale, shift = (one.to(pixels.dtype) for one in (normal.scale, normal.shift))
        image = Injected(pixels, regions.colours - regions.means, scale, shift)
        tokens: Tensor = self.sampler(image, regions.partition.labels)
        return tokens

    def embed(self, regions: EncodedRegions) -> Tokens:
        """Tokens of encoded regions, in the precision of the model; samples and histograms are made in that of the pixels."""
        labels, count = regions.partition.labels, regions.count
        features = self.samples(regions).flatten(2).to(self.prefix.dtype)
        if self.projection is not None:
            features = self.projection(features)
        if self.positions is not None:
            features = features + self.positions(labels, count)
        if self.gradients is not None:
            with full_precision(labels.device):
                features = features + self.gradients(regions.picture, labels, count)
        valid = torch.ones((len(labels), count), dtype=torch.bool, device=labels.device)
        if not regions.full:
            valid = torch.arange(count, device=labels.device) < regions.partition.counts[:, None]
            features = features.masked_fill(~valid[..., None], 0.0)
        prefix = self.prefix.to(features.dtype).expand(len(labels), -1, -1)
        return Tokens(features, valid, regions.partition, prefix, regions.full, self.backend)


def region_encoder(options: Options, backend: str = "auto") -> RegionEncoder:
    """The part of a tokenizer that reconstruction trains."""
    features, compared = options.encoder.features, options.compared_features
    if not 1 <= compared <= features:
        raise ValueError(f"the distance compares 1 to all {features} features, got compared={compared}; choose as many")
    encoder = Encoder(options.encoder, backend, leading=compared < features)
    distance, similarity = Distance(options.decision, options.tree.compactness, compared), Similarity(options.kernel)
    return RegionEncoder(encoder, distance, similarity, options.aggregation, options.tree, backend)
