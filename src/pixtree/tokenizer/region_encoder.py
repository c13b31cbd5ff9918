"""RegionEncoder: from images to regions with learned features and colours; the part that reconstruction trains and that ships."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pixtree.kernels import kernels_for
from pixtree.runtime.precision import InFullPrecision, full_precision
from pixtree.tokenizer.aggregation import MODES, Similarity, region_features
from pixtree.tokenizer.cutting import Cuts, Distance, cut, cut_rule, cuts_of_partition
from pixtree.tokenizer.encoder import Encoder
from pixtree.trees.cuts import Budget
from pixtree.trees.options import TreeOptions
from pixtree.trees.partition import Partition


@dataclass(frozen=True, eq=False)
class EncodedRegions:
    """The regions of a batch; P = H·W, N tokens per image, zeros where an image has fewer regions."""

    partition: Partition
    full: bool  # whether every image has N regions
    images: Tensor  # x (B, C, H, W), float 0..1
    features: Tensor  # f₀ (B, d, P)
    pooled: Tensor  # f* (B, N, d)
    means: Tensor  # x̄* (B, N, C)
    colours: Tensor  # W f* (B, N, C)
    fixed: Tensor | None  # the other planes that decide the partition, (B, K, P); None without gradients

    def __repr__(self) -> str:
        return f"EncodedRegions({self.partition!r}, {self.pooled.shape[2]} features)"

    @property
    def count(self) -> int:
        """N, tokens per image."""
        return int(self.pooled.shape[1])

    @property
    def pixels(self) -> Tensor:
        """x as planes (B, C, P)."""
        return self.images.flatten(2)

    @property
    def labels(self) -> Tensor:
        """(B, P) int32."""
        return self.partition.labels.flatten(1)


def shape_of(images: Tensor) -> tuple[int, int]:
    """Height and width of images (B, C, H, W), or an error if they are not a batch."""
    if not isinstance(images, Tensor):
        raise TypeError(
            f"a tokenizer takes a tensor (B, C, H, W), uint8 or float in 0..1, got {type(images).__name__}; "
            "pass pixtree.images.checked(image)[None]"
        )
    if images.ndim != 4:
        raise ValueError(
            f"expected a batch of images (B, C, H, W), got shape {tuple(images.shape)}; add a dimension by image[None]"
        )
    return int(images.shape[2]), int(images.shape[3])


def pixel_values(images: Tensor, backend: str = "auto") -> Tensor:
    """Images (B, C, H, W), uint8 or float 0..1, as float32 (float64 stays); floats that stand for a byte become it exactly."""
    shape_of(images)
    if images.dtype == torch.uint8:
        return images.to(torch.float32) / 255.0
    if not images.is_floating_point():
        raise ValueError(f"expected images of uint8 or float in 0..1, got {images.dtype}; cast them")
    values = images if images.dtype == torch.float64 else images.to(torch.float32)
    return kernels_for(backend, values.device).whole_bytes(values)


class RegionEncoder(InFullPrecision):
    """Encoder, distance, κ and W; see their files. tree, picks: how the tree grows on the distance's planes, see `Options`."""

    def __init__(
        self,
        encoder: Encoder,
        distance: Distance,
        similarity: Similarity,
        aggregation: str = "straight",
        tree: TreeOptions = TreeOptions(),
        picks: str = "means",
        backend: str = "auto",
    ) -> None:
        super().__init__()
        if aggregation not in MODES:
            raise ValueError(f"an aggregation is one of {', '.join(MODES)}, got {aggregation!r}; choose one of these")
        # `decision` is the key of these weights in files, so the distance keeps this attribute.
        self.encoder, self.decision, self.similarity = encoder, distance, similarity
        self.aggregation, self.rule, self.backend = aggregation, cut_rule(tree, picks, similarity.kernel), backend
        lift = encoder.residual.weight
        self.colour = nn.Linear(lift.shape[0], lift.shape[1])
        with torch.no_grad():
            # The encoder starts with orthonormal columns, whose transpose is their pseudo-inverse.
            self.colour.weight.copy_(torch.linalg.pinv(lift.flatten(1)))
            nn.init.zeros_(self.colour.bias)

    def encode(self, pixels: Tensor) -> Tensor:
        """Features (B, d, P) of pixels (B, C, H, W) in their precision."""
        features: Tensor = self.encoder(pixels).to(pixels.dtype)
        return features.flatten(2)

    def cut(self, images: Tensor, features: Tensor, budget: Budget) -> Cuts:
        """The partition of images (B, C, H, W) with features (B, d, P), and, where gradients need it, the levels of the trees."""
        levels = self.aggregation in ("raw", "normalised") or torch.is_grad_enabled()
        precision = self.similarity.precision
        return cut(images, features, self.decision, budget, self.rule, precision=precision, levels=levels, backend=self.backend)

    def cut_images(self, images: Tensor, budget: Budget) -> Cuts:
        """The cut of images (B, C, H, W), uint8 or float 0..1, by itself."""
        with torch.no_grad(), full_precision(images.device):
            features = self.encode(self.checked(images))
        return self.cut(images, features, budget)

    def forward(self, images: Tensor, budget: Budget | None, partition: Partition | Cuts | None = None) -> EncodedRegions:
        """Regions of images (B, C, H, W), uint8 or float 0..1, cut from the tree, or those of a given partition or cut."""
        pixels = self.checked(images)
        with full_precision(pixels.device):
            features = self.encode(pixels)
            if partition is None:
                assert budget is not None
                partition = self.cut(images, features, budget)
            cuts = partition if isinstance(partition, Cuts) else cuts_of_partition(partition)
            return self.pooled(pixels, features, cuts)

    def checked(self, images: Tensor) -> Tensor:
        """The values of images, see `pixel_values`, if they have the encoder's channels."""
        pixels, channels = pixel_values(images, self.backend), self.encoder.residual.in_channels
        if pixels.shape[1] != channels:
            raise ValueError(
                f"this tokenizer takes images of {channels} channels, got {pixels.shape[1]}; convert them or pass channels="
            )
        return pixels

    def pooled(self, images: Tensor, features: Tensor, cuts: Cuts) -> EncodedRegions:
        """Features, means and colours of regions, from pixels (B, C, H, W) and features (B, d, P)."""
        kernels = kernels_for(self.backend, features.device)
        pooled = region_features(features, cuts, self.similarity, self.decision, self.aggregation, kernels)
        colours = nn.functional.linear(pooled, self.colour.weight.to(pooled.dtype), self.colour.bias.to(pooled.dtype))
        means = kernels.region_means(images.flatten(2), cuts.partition.labels.flatten(1), cuts.count)
        return EncodedRegions(cuts.partition, cuts.full, images, features, pooled, means, colours, cuts.fixed)
