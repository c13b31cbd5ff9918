"""Semantic segmentation: targets from the overlap of regions and labels, losses per token, batches, files and mean IoU."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from pixtree.evaluation.label_maps import IGNORED, LabelledImage, LabelledSet
from pixtree.evaluation.segmentation_measures import segmented
from pixtree.files import write_tensors
from pixtree.models.checkpoint import CONFIG
from pixtree.models.segmentation import Segmenter, TokenLogits
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.training.batches import Sample, SampleBatches, SampleOrder, first_readable, seed_of
from pixtree.training.learners import keep
from pixtree.training.loop import Objective
from pixtree.training.recipe import MaskLosses, Model

HEAD = "head.safetensors"


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


def token_losses(logits: Tensor, target: Tensor, weight: Tensor, losses: MaskLosses = MaskLosses()) -> tuple[Tensor, Tensor]:
    """Binary cross entropy and focal loss of tokens, each summed over classes and averaged by weight.

    logits, target: (B, N, K), target in 0..1. weight: (B, N). The focal factor is |target − p|^γ, which is the usual one for
    targets of 0 and 1, and vanishes where p is the share that it should be.
    """
    entropy = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    focal = (target - logits.sigmoid()).abs().pow(losses.gamma) * entropy
    total = weight.sum().clamp_min(1e-12)
    both = [(loss.sum(dim=2) * weight).sum() / total for loss in (entropy, focal)]
    return both[0], both[1]


def image_loss(logits: Tensor, target: Tensor, seen: Tensor) -> Tensor:
    """Binary cross entropy of the class token (B, K) for the classes that an image shows, summed over them; mean over images.

    target, seen: of the image's tokens, as `class_shares` gives them; images without a counted pixel do not count.
    """
    shown = (target > 0).any(dim=1).to(logits.dtype)
    counted = (seen > 0).any(dim=1).to(logits.dtype)
    entropy = functional.binary_cross_entropy_with_logits(logits, shown, reduction="none").sum(dim=1)
    return (entropy * counted).sum() / counted.sum().clamp_min(1.0)


class Segmentation(Objective):
    """The losses of a segmenter on labelled images; every token counts by its share of labelled pixels."""

    def __init__(self, segmenter: Segmenter, losses: MaskLosses = MaskLosses()) -> None:
        super().__init__()
        if losses.image > 0 and segmenter.model.num_prefix_tokens < 1:
            raise ValueError("the loss of whole images needs a class token, this model has none; set loss.image to 0")
        self.learner, self.losses = segmenter, losses

    def forward(self, batch: Labelled) -> dict[str, Tensor]:
        """The weighted sum of the losses, each of them, and tokens per image."""
        segmenter: Segmenter = self.learner  # type: ignore[assignment]
        found = segmenter(batch.images, batch.labels)
        return {**self.of(found, batch.truth), "tokens": found.valid.sum(dim=1).float().mean()}

    def of(self, found: TokenLogits, truth: Tensor) -> dict[str, Tensor]:
        """The same from the tokens' logits on."""
        target, seen = class_shares(found.labels, truth, found.logits.shape[2], found.logits.shape[1])
        entropy, focal = token_losses(found.logits, target, seen * found.valid, self.losses)
        loss = self.losses.bce * entropy + self.losses.focal * focal
        parts = {"entropy": entropy.detach(), "focal": focal.detach()}
        if self.losses.image > 0 and found.image is not None:
            whole = image_loss(found.image, target, seen * found.valid)
            loss, parts = loss + self.losses.image * whole, {**parts, "image": whole.detach()}
        return {"loss": loss, **parts}


class LabelledBatches(SampleBatches):
    """Random crops and flips of labelled images, all of one size; the random numbers follow from seed, epoch and place.

    scale: the share of an image's area that a crop has. ratio: its width over height, relative to the size. changes: a function of
    a crop (3, H, W) in 0..1, its classes (H, W) and a seed. workers: processes that read.
    """

    def __init__(
        self,
        images: Sequence[LabelledImage],
        size: tuple[int, int],
        mean: Sequence[float],
        std: Sequence[float],
        *,
        batch: int = 8,
        micro_batch: int | None = None,
        scale: tuple[float, float] = (0.5, 1.0),
        ratio: tuple[float, float] = (0.8, 1.2),
        changes: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]] | None = None,
        seed: int = 0,
        workers: int = 0,
    ) -> None:
        crops = LabelledCrops(images, size, mean, std, scale, ratio, changes, seed)
        order = SampleOrder(len(images), batch, seed)
        super().__init__(crops, order, micro_batch=micro_batch, workers=workers, collate=labelled_batch)


def labelled_batch(found: list[tuple[Tensor, Tensor]]) -> Labelled:
    """Images and their classes as a batch."""
    return Labelled(*(torch.stack(values) for values in zip(*found, strict=True)))


class LabelledCrops(Dataset[tuple[Tensor, Tensor]]):
    """A crop of a labelled image by sample: one image (3, H, W), normalised, and its classes (H, W). See `LabelledBatches`."""

    def __init__(
        self,
        images: Sequence[LabelledImage],
        size: tuple[int, int],
        mean: Sequence[float],
        std: Sequence[float],
        scale: tuple[float, float],
        ratio: tuple[float, float],
        changes: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]] | None,
        seed: int,
    ) -> None:
        self.images, self.size, self.changes, self.seed = images, size, changes, seed
        self.mean, self.std = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
        self.scale, self.ratio = scale, ratio

    def __len__(self) -> int:
        return len(self.images)

    def _read(self, place: int) -> tuple[Tensor, Tensor]:
        chosen = self.images[place]
        return torch.from_numpy(chosen.pixels()).permute(2, 0, 1), torch.from_numpy(chosen.labels())

    def __getitem__(self, sample: Sample) -> tuple[Tensor, Tensor]:
        found, place, _ = first_readable(sample.place, len(self), self._read, lambda place: self.images[place].image.name)
        image, truth = found
        key = seed_of(self.seed, sample.epoch, place)
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


class LayeredSegmenter(Segmenter):
    """A segmenter that knows its layers: those of its model, and the head after them."""

    def no_weight_decay(self) -> set[str]:
        """Parameters without weight decay."""
        return {f"model.{name}" for name in self.model.no_weight_decay()}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Layers for layer-wise decay."""
        found = self.model.group_matcher(coarse)
        blocks = found["blocks"]
        pairs = [(blocks, None)] if isinstance(blocks, str) else blocks
        return {"stem": _inside(found["stem"]), "blocks": [(_inside(pattern), place) for pattern, place in pairs]}


def _inside(pattern: str) -> str:
    """A pattern of a model's names, for the same names inside a segmenter."""
    return rf"^model\.(?:{pattern.replace('^', '')})"  # they are matched from the start on, with ^ or without


def keep_segmenter(segmenter: Segmenter, model: Model, folder: Path) -> None:
    """Write the model as other recipes do, and the head next to it."""
    keep(segmenter.model, model, folder)
    write_tensors(folder / HEAD, {name: value.detach().cpu().contiguous() for name, value in segmenter.head.state_dict().items()})


def load_segmenter(folder: str | Path) -> Segmenter:
    """Read the segmenter that a recipe left in its folder."""
    from safetensors.torch import load_file

    root = Path(folder)
    if not (root / HEAD).is_file():
        raise FileNotFoundError(f"expected the folder of a segmentation with its {HEAD}, found none at {str(folder)!r}; check it")
    own = json.loads((root / CONFIG).read_text(encoding="utf-8")).get("library") == "pixtree"
    model = PixtreeViT.from_pretrained(root) if own else timm.create_model(f"local-dir:{root}", pretrained=True)
    tensors = load_file(root / HEAD)
    classes, hidden = tensors["2.weight"].shape
    segmenter = LayeredSegmenter(model, classes, ratio=hidden // int(model.num_features))
    segmenter.head.load_state_dict(tensors)
    return segmenter.eval()


def mean_iou(segmenter: Segmenter, held: LabelledSet, size: int) -> float:
    """mIoU at the size of the annotations, see `segmented`."""
    return segmented(segmenter, held.images, size, boundaries=False).confusion.mean_iou
