"""RegionEncoder: from images to regions with learned features and colours; what reconstruction trains and what ships."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pixtree.kernels.segments import region_means
from pixtree.kernels.types import ExactCut
from pixtree.runtime.threads import each
from pixtree.tokenizer.aggregation import MODES, Similarity, region_features
from pixtree.tokenizer.ancestry import Ancestry, Levels, ancestry_of, cut_tree
from pixtree.tokenizer.decision import UNIT, Decision
from pixtree.tokenizer.encoder import Encoder
from pixtree.trees.build import exact_cut_of_features, hierarchy_of_features
from pixtree.trees.cuts import Budget, Exactly
from pixtree.trees.partition import Partition
from pixtree.trees.similarity import merge_rule


@dataclass(frozen=True, eq=False)
class EncodedRegions:
    """The regions of a batch; P = H·W, N rows per image, zeros where an image has fewer regions."""

    partition: Partition
    pixels: Tensor  # x (B, C, P), float 0..1
    features: Tensor  # f₀ (B, d, P)
    pooled: Tensor  # f* (B, N, d)
    means: Tensor  # x̄* (B, N, C)
    colours: Tensor  # W f* (B, N, C)
    fixed: Tensor | None  # what else decides the partition, (B, K, P); None without gradients

    @property
    def count(self) -> int:
        """N, rows per image."""
        return int(self.pooled.shape[1])

    @property
    def labels(self) -> Tensor:
        """(B, P) int32."""
        return self.partition.labels.flatten(1)


@dataclass(frozen=True, eq=False)
class Cuts:
    """The partition of a batch, its N, and for gradients: the fixed planes (B, K, P) that decided it, and its ancestry."""

    partition: Partition
    count: int
    fixed: Tensor | None
    ancestry: Ancestry | Levels | None


def pixel_values(images: Tensor) -> Tensor:
    """Images (B, C, H, W), uint8 or float 0..1, as float32 (float64 stays)."""
    if images.ndim != 4:
        raise ValueError(
            f"expected a batch of images (B, C, H, W), got shape {tuple(images.shape)}; add a dimension by image[None]"
        )
    if images.dtype == torch.uint8:
        return images.to(torch.float32).div_(255.0)
    if not images.is_floating_point():
        raise ValueError(f"expected images of uint8 or float in 0..1, got {images.dtype}; cast them")
    return images if images.dtype == torch.float64 else images.to(torch.float32)


class RegionEncoder(nn.Module):
    """Encoder, what decides, κ and W; see their files. `tree` are options of `hierarchy_of_features`."""

    def __init__(
        self,
        encoder: Encoder,
        decision: Decision,
        similarity: Similarity,
        aggregation: str = "straight",
        tree: dict[str, object] | None = None,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if aggregation not in MODES:
            raise ValueError(f"an aggregation is one of {', '.join(MODES)}, got {aggregation!r}; choose one of these")
        self.encoder, self.decision, self.similarity = encoder, decision, similarity
        self.aggregation, self.tree, self.backend = aggregation, dict(tree or {}), backend
        lift = encoder.residual.weight
        self.colour = nn.Linear(lift.shape[0], lift.shape[1])
        with torch.no_grad():
            # The encoder starts with orthonormal columns, whose transpose is their pseudo-inverse.
            self.colour.weight.copy_(torch.linalg.pinv(lift.flatten(1)))
            nn.init.zeros_(self.colour.bias)

    def encode(self, pixels: Tensor) -> Tensor:
        """Features (B, d, P) of pixels (B, C, H, W) in their precision."""
        return self.encoder(pixels).to(pixels.dtype).flatten(2)  # type: ignore[no-any-return]

    @torch.no_grad()
    def cut(self, images: Tensor, features: Tensor, budget: Budget, *, ancestry: bool) -> Cuts:
        """The partition of images (B, C, H, W) with features (B, d, P), and how its regions came about if that is asked for."""
        scale, learned = self.decision.scale(), features.to(torch.float32)
        shape = (int(images.shape[2]), int(images.shape[3]))
        by_levels, count = ancestry and self._uses_levels(learned, budget), self.decision.fixed_count(images)
        fixed = learned.new_empty((len(images), count, learned.shape[2])) if ancestry else None

        def of_image(number: int) -> tuple[Tensor, Any]:
            planes = self.decision.planes(images[number], learned[number].detach(), scale, self.backend)
            if fixed is not None and planes.device.type == "cpu":  # numpy, which starts no threads of its own in ours
                np.divide(planes[:count].numpy(), np.float32(UNIT), out=fixed[number].numpy())
            elif fixed is not None:
                torch.div(planes[:count], UNIT, out=fixed[number])
            if isinstance(budget, Exactly) and by_levels == ancestry:
                cut = self._exact_cut(planes, shape, budget.count, by_levels)
                return cut.labels.view(shape), cut.levels
            options: dict[str, Any] = {"picks": ancestry and not by_levels, "backend": self.backend, **self.tree}
            tree = hierarchy_of_features(planes, shape, **options)
            found = cut_tree(tree, budget)
            if by_levels:  # they are the same for every cut
                return found.labels, self._exact_cut(planes, shape, 1, True).levels
            return found.labels, ancestry_of(tree, found) if ancestry else None

        labels, traced = zip(*each(of_image, range(len(features))), strict=True)
        partition = Partition(torch.stack(labels))
        regions = most_regions(partition, budget)
        if not ancestry:
            return Cuts(partition, regions, None, None)
        return Cuts(partition, regions, fixed, Levels(list(traced)) if by_levels else Ancestry.stack(traced, regions))

    def _exact_cut(self, planes: Tensor, shape: tuple[int, int], count: int, levels: bool) -> ExactCut:
        options: dict[str, Any] = {"levels": levels, "backend": self.backend, **self.tree}
        return exact_cut_of_features(planes, shape, count, **options)

    def _uses_levels(self, features: Tensor, budget: Budget) -> bool:
        """Whether gradients take the fused way over levels, which knows the default aggregation of whole regions on a CPU."""
        default = self.aggregation == "straight" and self.similarity.kernel == "gaussian" and not _tears(budget)
        compiled = features.device.type == "cpu" and self.backend != "torch" and features.shape[2] > 1
        rule: dict[str, Any] = {"similarity": "likelihood", "energy": "likelihood", "floor": 10.0, **self.tree}
        return default and compiled and merge_rule(**rule).prunable

    def forward(self, images: Tensor, budget: Budget, partition: Partition | None = None) -> EncodedRegions:
        """Regions of images (B, C, H, W), uint8 or float 0..1, by the tree's cut or as a given partition has them."""
        pixels, channels = pixel_values(images), self.encoder.residual.in_channels
        if pixels.shape[1] != channels:
            raise ValueError(
                f"this tokenizer takes images of {channels} channels, got {pixels.shape[1]}; convert them or give channels= to it"
            )
        features = self.encode(pixels)
        with torch.autocast(pixels.device.type, enabled=False):
            if partition is None:
                traced = torch.is_grad_enabled() or self.aggregation not in ("mean", "straight") or _tears(budget)
                cuts = self.cut(images, features, budget, ancestry=traced)
            else:
                cuts = Cuts(partition, int(partition.counts.max()), None, None)
            return self.pooled(pixels.flatten(2), features, cuts)

    def pooled(self, pixels: Tensor, features: Tensor, cuts: Cuts) -> EncodedRegions:
        """Features, means and colours of regions, from planes (B, C, P) and (B, d, P)."""
        labels, weight = cuts.partition.labels.flatten(1), self.decision.weight
        rows = region_features(features, cuts.fixed, labels, cuts.count, cuts.ancestry, self.similarity, weight, self.aggregation)
        colours = nn.functional.linear(rows, self.colour.weight.to(rows.dtype), self.colour.bias.to(rows.dtype))
        means = region_means(pixels, labels, cuts.count)
        return EncodedRegions(cuts.partition, pixels, features, rows, means, colours, cuts.fixed)


def _tears(budget: Budget) -> bool:
    return getattr(budget, "rule", "optimal") == "pixel"


def most_regions(partition: Partition, budget: Budget) -> int:
    """N, the rows that a batch needs; known without asking the device where the budget is an exact count."""
    pixels = int(partition.labels.shape[1] * partition.labels.shape[2])
    if isinstance(budget, Exactly) and partition.labels.device.type != "cpu":
        return min(budget.count, pixels)
    return int(partition.counts.max())
