"""Tokenizer: images to tokens as one module, and the options it is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.kernels.tokens.sample import Injected
from pixtree.kernels.tree import Cost
from pixtree.runtime.precision import InFullPrecision, full_precision
from pixtree.tokenizer.aggregation import SIMILARITIES, Similarity
from pixtree.tokenizer.cutting import Cuts, Distance, TokenBudget, budget_for
from pixtree.tokenizer.encoder import Encoder, EncoderOptions
from pixtree.tokenizer.gradients import GradientHistogram
from pixtree.tokenizer.positions import PositionOptions, Positions
from pixtree.tokenizer.region_encoder import EncodedRegions, RegionEncoder, shape_of
from pixtree.tokenizer.sampling import Sampler, SamplingOptions
from pixtree.tokenizer.tokens import Tokens
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition

NEXT_TO_COLOURS = 3  # features: with Lab and two coordinates they make eight channels, the width of a vector register


@dataclass(frozen=True)
class Options:
    """Everything that a tokenizer is made of.

    width: D, the length of a token; None leaves tokens as their C·q·q samples, without projection and positions.
    decision: the source of the distance between pixels, "lab" (colour, positions and w·f) or "features" (f alone).
    compared: how many of the d features the distance compares, from the first on; None: 3 next to colours, all without them.
    aggregation, kernel: how regions weigh their members, see `aggregate`.
    picks: what a tree that grows by κ compares, "means" of regions or, as in `alg:merge`, "weighted" aggregates.
    gradients: bins of gradient histograms, 0 for none. prefix: class and register tokens.
    mean, std: normalisation of the samples, per channel.
    """

    encoder: EncoderOptions = field(default=EncoderOptions())
    tree: TreeOptions = field(default=TreeOptions(similarity="likelihood", compactness=0.1))
    sampling: SamplingOptions = field(default=SamplingOptions())
    placing: PositionOptions = field(default=PositionOptions())
    width: int | None = 384
    decision: str = "lab"
    compared: int | None = None
    aggregation: str = "straight"
    kernel: str = "gaussian"
    picks: str = "means"
    gradients: int = 0
    prefix: int = 1
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)

    @property
    def compared_features(self) -> int:
        """`compared` as a number."""
        usual = min(NEXT_TO_COLOURS, self.encoder.features) if self.decision == "lab" else self.encoder.features
        return usual if self.compared is None else self.compared

    def changed(self, **values: Any) -> "Options":
        """The same with other values, by flat names: `options.changed(compactness=0.0, hidden=16)`."""
        unknown = sorted(set(values) - set(self.flat()))
        if unknown:
            known = ", ".join(self.flat())
            raise TypeError(f"a tokenizer has no option {', '.join(unknown)}; it has {known}")
        groups: dict[str, Any] = {}
        for name, group in _groups(self).items():
            own = {key: value for key, value in values.items() if key in _names(group)}
            groups[name] = replace(group, **own) if own else group
        return replace(self, **groups, **{key: value for key, value in values.items() if key in _names(self)})

    def flat(self) -> dict[str, Any]:
        """All values by their flat names, as `config.json` keeps them."""
        found: dict[str, Any] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            found |= {name: getattr(value, name) for name in _names(value)} if is_dataclass(value) else {one.name: value}
        return found


def options_from(values: Mapping[str, Any]) -> Options:
    """Options from flat values, such as those of a `config.json`; missing ones have their defaults.

    Files of version 0.1 lack the number of compared features: there, all were compared.
    """
    known = {"compared": values.get("features", Options().encoder.features), **values}
    return Options().changed(**{key: tuple(value) if isinstance(value, list) else value for key, value in known.items()})


def _groups(options: Options) -> dict[str, Any]:
    return {one.name: getattr(options, one.name) for one in fields(options) if is_dataclass(getattr(options, one.name))}


def _names(value: Any) -> list[str]:
    """Names of the plain fields of a dataclass."""
    return [one.name for one in fields(value) if not is_dataclass(getattr(value, one.name))]


# Boxes are those of the regions, whatever their size, and positions are kernelised; λ and β start as in the authors' release.
PAPER = Options().changed(
    decision="features",
    similarity="gaussian",
    aggregation="raw",
    kernel="gaussian",
    picks="weighted",
    compactness=0.0,
    smallest_box=1,
    largest_box=0,
    mix=0.01,
    background=0.1,
    position_kernel="gaussian",
)
# The paper states neither γ nor φ; this γ gives its mean count of tokens at 224 px (benchmarks/paper_counts.py).
PAPER_BUDGET = Criterion("aicc", penalty=3.6, rule="pixel", nodes="levels")
TREE_WEIGHTS = ("raw", "normalised")  # aggregations whose values come from the rounds of the tree


def paper_changes(**changes: Any) -> dict[str, Any]:
    """The paper's options by flat names, as changes to `Options`, and with further changes.

    The tree has the κ of the aggregation unless both are given, and compares means unless regions are aggregated raw by its κ.

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
    found = PAPER.changed(**changes)
    if "picks" not in changes and (found.aggregation != "raw" or Cost(found.tree.rule.cost).name.lower() != found.kernel):
        changes["picks"] = "means"
    return {**paper, **changes}


def check_aggregation(options: Options, source: str) -> None:
    """Refuse weights that need the rounds of the tree for regions from another `source`."""
    if options.aggregation in TREE_WEIGHTS:
        raise ValueError(
            f"{options.aggregation} weights follow the rounds of the tree, got regions of {source}; "
            'let the tree cut, or choose aggregation="straight" or "mean"'
        )


class Normalisation(InFullPrecision):
    """(x − mean) / std per channel, as scale · x + shift."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...], channels: int) -> None:
        super().__init__()
        if len(mean) != channels or len(std) != channels:
            raise ValueError(f"mean and std need one value per channel ({channels}), got {mean} and {std}; give as many")
        scale = 1.0 / torch.tensor(std)
        for name, values in (("mean", torch.tensor(mean)), ("std", torch.tensor(std)), ("scale", scale)):
            self.register_buffer(name, values, persistent=False)
        self.register_buffer("shift", -torch.tensor(mean) * scale, persistent=False)

    mean: Tensor  # (C,) each
    std: Tensor
    scale: Tensor
    shift: Tensor

    def undone(self, images: Tensor, backend: str = "auto") -> Tensor:
        """Pixels 0..1 of normalised images (B, C, H, W)."""
        return kernels_for(backend, images.device).denormalised(images, self.mean, self.std)


class Tokenizer(nn.Module):
    """Images to tokens: encode, cut the tree, aggregate, inject, sample, project. Deterministic; each image independently.

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
        self.sampler = Sampler(channels, sampling.patch, *sampling.boxes, sampling.mix, backend, sampling.background)
        length, width = channels * sampling.patch**2, chosen.width
        self.projection = None if width is None else nn.Linear(length, width)
        self.positions = None
        if width is not None and placing.positions > 0:
            self.positions = Positions(width, placing.positions, placing.position_kernel, placing.bandwidth, backend)
        self.gradients = GradientHistogram(width or length, chosen.gradients, backend=backend) if chosen.gradients else None
        self.prefix = nn.Parameter(torch.randn(chosen.prefix, width or length) * 0.02)

    @classmethod
    def paper(cls, budget: Budget = PAPER_BUDGET, **changes: Any) -> "Tokenizer":
        """The paper's own system: d = 8, Gaussian κ on f alone, levels by `alg:merge`, AICC by the per-pixel rule, raw κ weights,
        learnable λ and β, bounding boxes as they are, and kernel positions.

        The recipes `retrofit` and `pretrain` and the models `pixtree_paper_vit_*` have the same preset, and so does
        `retrofit(model, tokenizer=Tokenizer.paper())`. kernel, similarity: κ of the aggregation and of the tree; one of them
        decides both.

        >>> import torch, pixtree
        >>> image = torch.zeros(1, 3, 32, 32)
        >>> image[..., 16:] = 1
        >>> pixtree.Tokenizer.paper(width=32)(image).features.shape
        torch.Size([1, 2, 32])
        """
        backend = changes.pop("backend", "auto")  # no option of the preset
        return cls(budget, backend=backend, **paper_changes(**changes))

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
        normalised weights follow the rounds of the tree, so they refuse a partition. The result of `cut` is accepted: its
        tokens have the same values and gradients as if they were cut here.
        """
        return self.embed(self.encode(images, partition, budget))

    def partition(self, images: Tensor, budget: Budget | None = None) -> Partition:
        """The partition alone: a tokenizer is a partitioner."""
        with torch.no_grad():
            return self.encode(images, budget=budget).partition

    def cut(self, images: Tensor, budget: Budget | None = None) -> Cuts:
        """The partition and, where gradients need it, the levels of the trees; see `forward`."""
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
        pixels, normal = regions.images, self.normalisation
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
                features = features + self.gradients(regions.images, labels, count)
        valid = torch.ones((labels.shape[0], count), dtype=torch.bool, device=labels.device)
        if not regions.full:
            valid = torch.arange(count, device=labels.device) < regions.partition.counts[:, None]
            features = features.masked_fill(~valid[..., None], 0.0)
        prefix = self.prefix.to(features.dtype).expand(labels.shape[0], -1, -1)
        return Tokens(features, valid, regions.partition, prefix, regions.full, self.backend)


def region_encoder(options: Options, backend: str = "auto") -> RegionEncoder:
    """The part of a tokenizer that reconstruction trains."""
    features, compared = options.encoder.features, options.compared_features
    if not 1 <= compared <= features:
        raise ValueError(f"the distance compares 1 to all {features} features, got compared={compared}; choose as many")
    encoder = Encoder(options.encoder, backend, leading=compared < features)
    distance, similarity = Distance(options.decision, options.tree.compactness, compared), Similarity(options.kernel)
    return RegionEncoder(encoder, distance, similarity, options.aggregation, options.tree, options.picks, backend)
