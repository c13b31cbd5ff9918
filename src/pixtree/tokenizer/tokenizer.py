"""Tokenizer: images to tokens, as one module."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.tokenizer.aggregation import Similarity
from pixtree.tokenizer.decision import Decision
from pixtree.tokenizer.encoder import Encoder
from pixtree.tokenizer.gradients import GradientHistogram
from pixtree.tokenizer.injection import inject_means
from pixtree.tokenizer.positions import Positions
from pixtree.tokenizer.regions import EncodedRegions, RegionEncoder
from pixtree.tokenizer.sampling import Sampler
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly
from pixtree.trees.partition import Partition


@dataclass(frozen=True)
class Options:
    """Everything that a tokenizer is made of, as plain values.

    width: D, the length of a token; None leaves tokens as their C·q·q samples, without projection and positions.
    decision: what decides the partition, "lab" (colour, positions and w·f) or "features" (f alone); compactness is its s.
    similarity, energy, floor: of the tree, see `hierarchy_of_features`. aggregation, kernel: see `aggregate`.
    patch, smallest_box, largest_box, mix: q, sides of sampled boxes in pixels, and where λ starts.
    positions, position_kernel, bandwidth: bins p per side (0 for none) and how pixels count for them.
    gradients: bins of gradient histograms, 0 for none. prefix: class and register tokens.
    mean, std: what the samples are normalised by, per channel.
    """

    width: int | None = 384
    channels: int = 3
    features: int = 8
    hidden: int = 32
    kernel_size: int = 2
    linear: bool = False
    activation: bool = False
    corners: bool = False
    decision: str = "lab"
    compactness: float = 0.1
    similarity: str = "likelihood"
    energy: str = "likelihood"
    floor: float = 10.0
    aggregation: str = "straight"
    kernel: str = "gaussian"
    patch: int = 16
    smallest_box: int = 16
    largest_box: int | None = None
    mix: float = 0.9
    positions: int = 16
    position_kernel: str = "hard"
    bandwidth: float = 0.3
    gradients: int = 0
    prefix: int = 1
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)


PAPER = Options(decision="features", similarity="gaussian", aggregation="raw", kernel="gaussian", compactness=0.0, mix=0.5)
PAPER_BUDGET = Criterion("aicc", rule="pixel", nodes="levels")


class Tokenizer(nn.Module):
    """Images to tokens: encode, cut the tree, aggregate, inject, sample, project; deterministic, and the image alone decides.

    budget: how many tokens, `Exactly(n)` (no padding), `AtMost(n)`, `Criterion("aicc")` or `Level(t)`.
    options: an `Options`, or its fields as keywords.
    """

    def __init__(
        self, budget: Budget = Exactly(196), options: Options | None = None, *, backend: str = "auto", **changes: Any
    ) -> None:
        super().__init__()
        chosen = replace(options or Options(), **changes)
        self.budget, self.options = budget, chosen
        self.regions = region_encoder(chosen, backend)
        self.sampler = Sampler(chosen.channels, chosen.patch, chosen.smallest_box, chosen.largest_box, chosen.mix)
        length, width = chosen.channels * chosen.patch**2, chosen.width
        self.projection = None if width is None else nn.Linear(length, width)
        has_positions = width is not None and chosen.positions > 0
        self.positions = (
            Positions(width, chosen.positions, chosen.position_kernel, chosen.bandwidth) if has_positions and width else None
        )
        self.gradients = GradientHistogram(width or length, chosen.gradients) if chosen.gradients else None
        self.prefix = nn.Parameter(torch.randn(chosen.prefix, width or length) * 0.02)
        if len(chosen.mean) != chosen.channels or len(chosen.std) != chosen.channels:
            raise ValueError(
                f"mean and std need one value per channel ({chosen.channels}), got {chosen.mean} and {chosen.std}; give as many"
            )
        scale = 1.0 / torch.tensor(chosen.std).view(-1, 1)
        self.register_buffer("scale", scale, persistent=False)
        self.register_buffer("shift", -torch.tensor(chosen.mean).view(-1, 1) * scale, persistent=False)

    scale: Tensor
    shift: Tensor

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

    def forward(self, images: Tensor, partition: Partition | None = None) -> Tokens:
        """Tokens of images (B, C, H, W), uint8 or float 0..1; a given partition, such as square patches, takes the tree's place."""
        regions = self.regions(images, self.budget, partition)
        return self.embed(regions, (int(images.shape[2]), int(images.shape[3])))

    def partition(self, images: Tensor) -> Partition:
        """The partition alone: a tokenizer is a partitioner."""
        with torch.no_grad():
            return self.encode(images).partition

    def encode(self, images: Tensor, partition: Partition | None = None) -> EncodedRegions:
        """Regions with their features and colours, before they become tokens."""
        encoded: EncodedRegions = self.regions(images, self.budget, partition)
        return encoded

    def samples(self, regions: EncodedRegions, shape: tuple[int, int]) -> Tensor:
        """F(S), (B, N, C, q, q), in units of the pixels normalised by mean and std."""
        pixels, labels = regions.pixels, regions.partition.labels
        batch, channels = pixels.shape[:2]
        scale, shift = self.scale.to(pixels.dtype), self.shift.to(pixels.dtype)
        if pixels.device.type == "cpu" and not pixels.requires_grad:
            change = regions.colours - regions.means
            return self.sampler.injected(pixels.view(batch, channels, *shape), change, scale[:, 0], shift[:, 0], labels)
        injected = inject_means(pixels, regions.colours, regions.means, regions.labels)
        normal = torch.addcmul(shift, injected, scale)
        tokens: Tensor = self.sampler(normal.view(batch, channels, *shape), labels, regions.count)
        return tokens

    def embed(self, regions: EncodedRegions, shape: tuple[int, int]) -> Tokens:
        """Tokens of encoded regions."""
        labels, count = regions.partition.labels, regions.count
        with torch.autocast(labels.device.type, enabled=False):
            features = self.samples(regions, shape).flatten(2)
        if self.projection is not None:
            features = self.projection(features)
        if self.positions is not None:
            features = features + self.positions(labels, count)
        if self.gradients is not None:
            pixels = regions.pixels.view(*regions.pixels.shape[:2], *shape)
            with torch.autocast(labels.device.type, enabled=False):
                features = features + self.gradients(pixels, labels, count)
        valid = torch.arange(count, device=labels.device) < regions.partition.counts[:, None]
        if labels.device.type != "cpu" or not bool(valid.all()):  # asking another device would wait for it
            features = features.masked_fill(~valid[..., None], 0.0)
        return Tokens(features, valid, regions.partition, self.prefix.to(features.dtype).expand(len(labels), -1, -1))


def region_encoder(options: Options, backend: str = "auto") -> RegionEncoder:
    """The part of a tokenizer that reconstruction trains."""
    encoder = Encoder(
        options.channels,
        options.features,
        options.hidden,
        kernel_size=options.kernel_size,
        linear=options.linear,
        activation=options.activation,
        corners=options.corners,
    )
    tree: dict[str, object] = {"similarity": options.similarity, "energy": options.energy, "floor": options.floor}
    decision, similarity = Decision(options.decision, options.compactness), Similarity(options.kernel)
    return RegionEncoder(encoder, decision, similarity, options.aggregation, tree, backend)
