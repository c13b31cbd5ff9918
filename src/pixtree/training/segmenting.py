"""Segmentation: targets from the overlap of regions and labels, BCE and focal loss per token, and batches of labelled images."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from pixtree.evaluation.label_maps import IGNORED, LabelledImage
from pixtree.models.segmentation import Segmenter, TokenLogits
from pixtree.training.loop import Objective
from pixtree.training.order import Order, Sample, Share, parts, seed_of


@dataclass(frozen=True)
class Losses:
    """Weights of the two losses, and γ of the focal one. [`tab:config_segmentation_finetune`]"""

    entropy: float = 1.0
    focal: float = 1.0
    gamma: float = 2.0


class Labelled(NamedTuple):
    """A batch: normalised images (B, 3, H, W), classes (B, H, W) with IGNORED, and regions (B, H, W) if they are known already."""

    images: Tensor
    truth: Tensor
    labels: Tensor | None = None


def class_shares(labels: Tensor, truth: Tensor, classes: int, count: int) -> tuple[Tensor, Tensor]:
    """Targets of tokens: the share of each class among the counted pixels of each region, and the share of counted pixels.

    labels, truth: (B, H, W). Gives (B, count, classes) and (B, count), both float32; zeros for regions without counted pixels.
    """
    batch = len(labels)
    region = labels.to(torch.int64).flatten(1) + torch.arange(batch, device=labels.device)[:, None] * count
    wanted, inside = truth.flatten(1).to(torch.int64), labels.flatten(1) >= 0
    counted = inside & (wanted != IGNORED)
    votes = torch.bincount((region * classes + wanted)[counted], minlength=batch * count * classes)
    pixels = torch.bincount(region[inside], minlength=batch * count).view(batch, count).float()
    shares = votes.view(batch, count, classes).float()
    seen = shares.sum(dim=2)
    return shares / seen.clamp_min(1)[..., None], seen / pixels.clamp_min(1)


def token_losses(logits: Tensor, target: Tensor, weight: Tensor, losses: Losses = Losses()) -> tuple[Tensor, Tensor]:
    """Binary cross entropy and focal loss of tokens, each summed over classes and averaged by weight.

    logits, target: (B, N, K), target in 0..1. weight: (B, N). The focal factor is |target − p|^γ, which is the usual one for
    targets of 0 and 1, and vanishes where p is the share that it should be.
    """
    entropy = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    focal = (target - logits.sigmoid()).abs().pow(losses.gamma) * entropy
    total = weight.sum().clamp_min(1e-12)
    both = [(loss.sum(dim=2) * weight).sum() / total for loss in (entropy, focal)]
    return both[0], both[1]


class Segmentation(Objective):
    """The losses of a segmenter on labelled images; every token counts by its share of labelled pixels."""

    def __init__(self, segmenter: Segmenter, losses: Losses = Losses()) -> None:
        super().__init__()
        self.learner, self.losses = segmenter, losses

    def forward(self, batch: Labelled) -> dict[str, Tensor]:
        """The weighted sum, and its parts."""
        segmenter: Segmenter = self.learner  # type: ignore[assignment]
        return self.of(segmenter(batch.images, batch.labels), batch.truth)

    def of(self, found: TokenLogits, truth: Tensor) -> dict[str, Tensor]:
        """The same from the tokens' logits on."""
        target, seen = class_shares(found.labels, truth, found.logits.shape[2], found.logits.shape[1])
        entropy, focal = token_losses(found.logits, target, seen * found.valid, self.losses)
        loss = self.losses.entropy * entropy + self.losses.focal * focal
        return {"loss": loss, "entropy": entropy.detach(), "focal": focal.detach()}


class LabelledBatches:
    """Random crops and flips of labelled images, all of one size; what is random follows from seed, epoch and place.

    scale: the share of an image's area that a crop has. ratio: its width over height, relative to the size. changes: of a crop
    (3, H, W) in 0..1 and its classes (H, W), by a number that all that is random in them follows from.
    """

    def __init__(
        self,
        images: Sequence[LabelledImage],
        size: tuple[int, int],
        mean: Sequence[float],
        std: Sequence[float],
        *,
        batch: int = 8,
        part: int | None = None,
        scale: tuple[float, float] = (0.5, 1.0),
        ratio: tuple[float, float] = (0.8, 1.2),
        changes: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]] | None = None,
        seed: int = 0,
    ) -> None:
        self.changes = changes
        self.images, self.size, self.part, self.seed = images, size, part, seed
        self.mean, self.std = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
        self.scale, self.ratio = scale, ratio
        self.order = Order(len(images), batch, seed)

    def starting(self, step: int, share: Share) -> Iterator[list[Labelled]]:
        """The batches of one process from a step on."""
        while True:
            yield [self._together(some) for some in parts(self.order.samples(step, share), self.part)]
            step += 1

    def _together(self, samples: list[Sample]) -> Labelled:
        found = [self._crop(sample) for sample in samples]
        return Labelled(*(torch.stack(values) for values in zip(*found, strict=True)))

    def _crop(self, sample: Sample) -> tuple[Tensor, Tensor]:
        """One image (3, H, W), normalised, and its classes (H, W)."""
        chosen = self.images[sample.place]
        image, truth = torch.from_numpy(chosen.pixels()).permute(2, 0, 1), torch.from_numpy(chosen.labels())
        key = seed_of(self.seed, sample.epoch, sample.place)
        generator = torch.Generator().manual_seed(key)
        area, shape, down, across, flip = torch.rand(5, generator=generator).tolist()
        height, width = self._sides(image.shape[1:], area, shape)
        top, left = round(down * (image.shape[1] - height)), round(across * (image.shape[2] - width))
        piece = image[None, :, top : top + height, left : left + width].float()
        piece = functional.interpolate(piece, self.size, mode="bicubic", antialias=True)[0].clamp(0, 255) / 255
        labels = truth[None, None, top : top + height, left : left + width].float()
        labels = functional.interpolate(labels, self.size, mode="nearest-exact")[0, 0].to(torch.int64)
        if self.changes is not None:
            piece, labels = self.changes(piece, labels, key)
        normalised = (piece - self.mean) / self.std
        return (normalised.flip(2), labels.flip(1)) if flip < 0.5 else (normalised, labels)

    def _sides(self, shape: Sequence[int], area: float, stretch: float) -> tuple[int, int]:
        """Height and width of a crop, from two random numbers in 0..1; never larger than the image."""
        share = self.scale[0] + area * (self.scale[1] - self.scale[0])
        ratio = self.ratio[0] * (self.ratio[1] / self.ratio[0]) ** stretch * self.size[1] / self.size[0]
        height = (share * shape[0] * shape[1] / ratio) ** 0.5
        return max(1, min(round(height), shape[0])), max(1, min(round(height * ratio), shape[1]))
