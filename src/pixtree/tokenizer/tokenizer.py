"""Tokenizer: images to tokens, as one module."""

from typing import Any

import torch
from torch import Tensor, nn

from pixtree.tokenizer.aggregation import Similarity
from pixtree.tokenizer.distance import Distance
from pixtree.tokenizer.encoder import Encoder
from pixtree.tokenizer.gradients import GradientHistogram
from pixtree.tokenizer.normalisation import Normalisation
from pixtree.tokenizer.options import Options
from pixtree.tokenizer.positions import Positions
from pixtree.tokenizer.region_encoder import EncodedRegions, RegionEncoder
from pixtree.tokenizer.sampling import Sampler
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly
from pixtree.trees.partition import Partition

PAPER = Options().changed(
    decision="features", similarity="gaussian", aggregation="raw", kernel="gaussian", compactness=0.0, mix=0.5
)
PAPER_BUDGET = Criterion("aicc", rule="pixel", nodes="levels")


class Tokenizer(nn.Module):
    """Images to tokens: encode, cut the tree, aggregate, inject, sample, project; deterministic, and the image alone decides.

    budget: how many tokens, `Exactly(n)` (no padding), `AtMost(n)`, `Criterion("aicc")` or `Level(t)`.
    options: an `Options`, or its values as keywords.
    """

    def __init__(
        self, budget: Budget = Exactly(196), options: Options | None = None, *, backend: str = "auto", **changes: Any
    ) -> None:
        super().__init__()
        chosen = (options or Options()).changed(**changes)
        channels, sampling, placing = chosen.encoder.channels, chosen.sampling, chosen.placing
        self.budget, self.options, self.backend = budget, chosen, backend
        self.normalisation = Normalisation(chosen.mean, chosen.std, channels)
        self.regions = region_encoder(chosen, backend)
        boxes = (sampling.smallest_box, sampling.largest_box)
        self.sampler = Sampler(channels, sampling.patch, *boxes, sampling.mix, backend)
        length, width = channels * sampling.patch**2, chosen.width
        self.projection = None if width is None else nn.Linear(length, width)
        self.positions = None
        if width is not None and placing.positions > 0:
            self.positions = Positions(width, placing.positions, placing.position_kernel, placing.bandwidth, backend)
        self.gradients = GradientHistogram(width or length, chosen.gradients, backend=backend) if chosen.gradients else None
        self.prefix = nn.Parameter(torch.randn(chosen.prefix, width or length) * 0.02)

    @classmethod
    def paper(cls, budget: Budget = PAPER_BUDGET, **changes: Any) -> "Tokenizer":
        """The paper's own system: d = 8, Gaussian κ on f alone, AICC by the per-pixel rule, raw κ weights, learnable λ and β."""
        return cls(budget, PAPER, **changes)

    @classmethod
    def pretrained(cls, budget: Budget = Exactly(196), **changes: Any) -> "Tokenizer":
        """A tokenizer whose encoder, W, w and κ come with the package; the rest is fresh. See docs/tokenizer.md."""
        from pixtree.tokenizer.weights import shipped_weights

        tokenizer = cls(budget, **changes)
        shipped_weights().into(tokenizer.regions)
        return tokenizer

    def forward(self, images: Tensor, partition: Partition | None = None, budget: Budget | None = None) -> Tokens:
        """Tokens of images (B, C, H, W), uint8 or float 0..1.

        A given partition, such as square patches, takes the tree's place; a given budget that of the tokenizer's own.
        """
        return self.embed(self.encode(images, partition, budget))

    def partition(self, images: Tensor, budget: Budget | None = None) -> Partition:
        """The partition alone: a tokenizer is a partitioner."""
        with torch.no_grad():
            return self.encode(images, budget=budget).partition

    def encode(self, images: Tensor, partition: Partition | None = None, budget: Budget | None = None) -> EncodedRegions:
        """Regions with their features and colours, before they become tokens."""
        encoded: EncodedRegions = self.regions(images, budget or self.budget, partition)
        return encoded

    def samples(self, regions: EncodedRegions) -> Tensor:
        """F(S), (B, N, C, q, q), in units of the pixels normalised by mean and std."""
        pixels, normal = regions.picture, self.normalisation
        scale, shift = (one.to(pixels.dtype) for one in (normal.scale, normal.shift))
        tokens: Tensor = self.sampler(pixels, regions.colours - regions.means, scale, shift, regions.partition.labels)
        return tokens

    def embed(self, regions: EncodedRegions) -> Tokens:
        """Tokens of encoded regions."""
        labels, count = regions.partition.labels, regions.count
        with torch.autocast(labels.device.type, enabled=False):
            features = self.samples(regions).flatten(2)
        if self.projection is not None:
            features = self.projection(features)
        if self.positions is not None:
            features = features + self.positions(labels, count)
        if self.gradients is not None:
            with torch.autocast(labels.device.type, enabled=False):
                features = features + self.gradients(regions.picture, labels, count)
        valid = torch.ones((len(labels), count), dtype=torch.bool, device=labels.device)
        if not regions.full:
            valid = torch.arange(count, device=labels.device) < regions.partition.counts[:, None]
            features = features.masked_fill(~valid[..., None], 0.0)
        prefix = self.prefix.to(features.dtype).expand(len(labels), -1, -1)
        return Tokens(features, valid, regions.partition, prefix, regions.full, self.backend)


def region_encoder(options: Options, backend: str = "auto") -> RegionEncoder:
    """The part of a tokenizer that reconstruction trains."""
    distance, similarity = Distance(options.decision, options.tree.compactness), Similarity(options.kernel)
    return RegionEncoder(Encoder(options.encoder, backend), distance, similarity, options.aggregation, options.tree, backend)
