"""Classification: model outputs for a set of images, and how well classes can be read from logits and features.

Top-1 and top-5 accuracy with the distance from a reference model, k nearest neighbours, and a linear probe: logistic regression on
features, with its regularisation chosen on a part of the training images.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset

from pixtree.evaluation.classified_images import ClassifiedImage, ClassifiedImages
from pixtree.models.coarsening import CoarseViT
from pixtree.models.timm_import import timm
from pixtree.models.vit import PixtreeViT
from pixtree.runtime.processes import gathered, joined, own_device

BATCH = 50
COUNTS = (10, 20, 50, 100, 150, 200)  # of the paper, which reports the best
TEMPERATURE = 0.07  # DINO's, by whose protocol neighbours vote
PRODUCTS = 1 << 26  # cosines at a time, 256 MB
DECAYS = (1e-4, 1e-3, 1e-2, 1e-1)
STEPS = 200  # of L-BFGS, at most
HELD_OUT = 5  # every fifth training image chooses the regularisation
ACCURACY_COLUMNS = [
    ["variant", "Variant", ""],
    ["tokens", "Tokens", ".5g"],
    ["left", "left at the end", ".5g"],
    ["gflops", "GFLOPs", ".2f"],
    ["top1", "Top-1 ↑", ".4f"],
    ["error", "± standard error", ".4f"],
    ["top5", "Top-5 ↑", ".4f"],
    ["kept", "Share of the first's top-1 ↑", ".4f"],
    ["agreement", "Same answer as the first ↑", ".4f"],
    ["divergence", "KL from the first, nats ↓", ".4f"],
]
Output = Callable[[Any, Tensor], Tensor]  # a model and its images (B, C, H, W) -> (B, numbers)


class Reading(NamedTuple):
    """How images are read: batch size, worker processes, and the device that models run on."""

    batch: int = BATCH
    workers: int = 0
    device: str = "cpu"


class _Prepared(Dataset[Tensor]):
    """Images as a model takes them."""

    def __init__(self, images: Sequence[ClassifiedImage], transform: Callable[[Image.Image], Tensor]) -> None:
        self.images, self.transform = images, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: int) -> Tensor:
        path = self.images[place].path
        try:
            image = Image.open(path).convert("RGB")
        except (OSError, ValueError, SyntaxError) as error:
            raise ValueError(f"expected an image, could not read {path.name!r} ({error}); remove or replace it") from None
        return self.transform(image)


def image_side(model: Any) -> int:
    """The side in pixels that a model's images have."""
    if isinstance(model, PixtreeViT | CoarseViT):
        return int(model.image_size[0])
    return int(model.patch_embed.img_size[0])


def transform_for(model: Any, side: int | None = None) -> Callable[[Image.Image], Tensor]:
    """timm's own preprocessing of a model at evaluation, at its own size or another: resize, centre crop, normalise."""
    size = (3, side or image_side(model), side or image_side(model))
    config = timm.data.resolve_data_config({"input_size": size}, pretrained_cfg=model.pretrained_cfg)
    transform: Callable[[Image.Image], Tensor] = timm.data.create_transform(**config, is_training=False)
    return transform


@torch.no_grad()
def logits(model: Any, images: Tensor) -> Tensor:
    """Logits (B, classes)."""
    found: Tensor = model(images)
    return found


@torch.no_grad()
def logits_and_count(model: Any, images: Tensor) -> Tensor:
    """Logits (B, classes) and, in the last column, the number of tokens of every image, 0 for patch models."""
    if not isinstance(model, PixtreeViT):
        found: Tensor = model(images)
        return torch.cat((found, torch.zeros_like(found[:, :1])), dim=1)
    tokens = model.tokens(images)
    return torch.cat((model.forward_tokens(tokens), tokens.valid.sum(dim=1, keepdim=True)), dim=1)


@torch.no_grad()
def features(model: Any, images: Tensor) -> Tensor:
    """The input of the classifier, (B, D)."""
    found: Tensor
    if isinstance(model, PixtreeViT):
        tokens = model.tokens(images)
        found = model.forward_head(model.backbone.features(model.sequence(tokens)), pre_logits=True, seen=tokens.sequence_mask())
    else:
        found = model.forward_head(model.forward_features(images), pre_logits=True)
    return found


def outputs_of(
    models: Sequence[Any],
    data: ClassifiedImages,
    output: Output = logits,
    *,
    reading: Reading = Reading(),
    side: int | None = None,
    report: Callable[[int], None] = lambda count: None,
) -> list[Tensor]:
    """Outputs of every model for all images, (N, numbers) float32; the images are prepared once, for the first model.

    Processes that a launcher started share the images, and all of them get all outputs.
    report: called with the number of images in each batch, once all models have seen it.
    """
    share, device = joined(), own_device(reading.device)
    found: list[list[Tensor]] = [[] for _ in models]
    ready = [model.eval().to(device) for model in models]
    own = [data.images[place] for place in share.places(len(data))]
    for images in _batches(own, transform_for(models[0], side), reading):
        given = images.to(device, non_blocking=True)
        for model, parts in zip(ready, found, strict=True):
            parts.append(output(model, given).to("cpu", torch.float32))
        report(len(images))
    return [_together([torch.cat(part) for part in gathered(parts) if part], len(data)) for parts in found]


def _batches(images: Sequence[ClassifiedImage], transform: Callable[[Image.Image], Tensor], reading: Reading) -> Iterable[Tensor]:
    return DataLoader(_Prepared(images, transform), batch_size=reading.batch, num_workers=reading.workers)


def _together(parts: Sequence[Tensor], count: int) -> Tensor:
    """The outputs of `Share.places` by rank, in the order of the images."""
    found = parts[0].new_empty(count, parts[0].shape[1])
    for rank, part in enumerate(parts):
        found[rank :: len(parts)] = part
    return found


def check_classes(model: Any, data: ClassifiedImages) -> None:
    """Refuse data whose classes a classifier does not have."""
    own = int(model.num_classes)
    if data.classes > own:
        raise ValueError(
            f"expected images of the {own} classes of the model, got class {data.classes - 1} in {data.name}; give a model with "
            "at least as many, or measure its features by knn or probe"
        )


def check_same_classes(models: Sequence[Any]) -> None:
    """Refuse models whose logits cannot be compared."""
    numbers = [int(model.num_classes) for model in models]
    if len(set(numbers)) > 1:
        raise ValueError(
            f"expected models of the same classes, got {' and '.join(map(str, dict.fromkeys(numbers)))} classes; "
            "evaluate each model on its own"
        )


def class_table(data: ClassifiedImages, classes: int) -> Tensor:
    """Which classes count as right for every image, (N, classes) bool."""
    table = torch.zeros(len(data), classes, dtype=torch.bool)
    for row, image in zip(table, data.images, strict=True):
        row[list(image.classes)] = True
    return table


def hits(logits: Tensor, right: Tensor, top: int) -> Tensor:
    """Whether one of the `top` classes of logits (N, classes) is right, (N,) float64."""
    best = logits.topk(min(top, logits.shape[1]), dim=1).indices
    return right.gather(1, best).any(dim=1).to(torch.float64)


def measures(found: Tensor, first: Tensor, right: Tensor) -> dict[str, float]:
    """Accuracy of logits (N, classes), and how close they are to those of the first model."""
    top1, reference = hits(found, right, 1), hits(first, right, 1).mean().item()
    divergence = functional.kl_div(
        found.double().log_softmax(1), first.double().log_softmax(1), reduction="batchmean", log_target=True
    )
    return {
        "top1": top1.mean().item(),
        "error": (top1.std() / math.sqrt(len(top1))).item() if len(top1) > 1 else math.nan,
        "top5": hits(found, right, 5).mean().item(),
        "kept": top1.mean().item() / reference if reference else math.nan,
        "agreement": (found.argmax(1) == first.argmax(1)).double().mean().item(),
        "divergence": divergence.item(),
    }


def accuracy_rows(logits_of: Sequence[Tensor], data: ClassifiedImages) -> list[dict[str, float]]:
    """The measures of every model's logits (N, classes); the first model is the reference."""
    right = class_table(data, logits_of[0].shape[1])
    return [measures(found, logits_of[0], right) for found in logits_of]


def share_right(found: Tensor, right: Tensor) -> float:
    """The share of classes (M,) that the table `right` (M, classes) allows."""
    known = found < right.shape[1]
    hit = right.gather(1, found.clamp(max=right.shape[1] - 1)[:, None])[:, 0] & known
    return float(hit.double().mean())


def neighbour_accuracy(
    learned: Tensor, classes: Tensor, tested: Tensor, right: Tensor, counts: Sequence[int] = COUNTS
) -> dict[int, float]:
    """Per k the share of tested features (M, D) whose k nearest learned ones (N, D) by cosine vote for a class that is right.

    classes (N,); right (M, classes) bool, as in `class_table`.
    """
    voted = neighbour_classes(learned, classes, tested, counts)
    return {count: share_right(found, right) for count, found in voted.items()}


def neighbour_classes(learned: Tensor, classes: Tensor, tested: Tensor, counts: Sequence[int] = COUNTS) -> dict[int, Tensor]:
    """Per k the classes (M,) that the k nearest learned features (N, D) of tested ones (M, D) by cosine vote for.

    A neighbour at cosine c votes with exp(c / 0.07). classes (N,). A k above N takes all N.
    """
    if len(learned) < 1:
        raise ValueError("neighbours need training images, got none; give a train part")
    number, known = 1 + int(classes.max()), functional.normalize(learned, dim=1)
    found: dict[int, list[Tensor]] = {count: [] for count in counts}
    for rows in torch.split(tested, max(1, PRODUCTS // len(learned))):  # a bank may have a million images
        near = (functional.normalize(rows, dim=1) @ known.T).topk(min(max(counts), len(known)), dim=1)
        votes, voted = (near.values / TEMPERATURE).exp(), classes[near.indices]
        for count in counts:
            sums = torch.zeros(len(rows), number).scatter_add_(1, voted[:, :count], votes[:, :count])
            found[count].append(sums.argmax(1))
    return {count: torch.cat(parts) for count, parts in found.items()}


def best_count(found: dict[int, float]) -> int:
    """The k of the highest accuracy, the smallest of equals."""
    return max(found, key=lambda count: (found[count], -count))


class Probe(nn.Module):
    """Standardised features (N, D) -> logits (N, classes)."""

    def __init__(self, features: Tensor, classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", features.mean(dim=0))
        self.register_buffer("scale", 1.0 / features.std(dim=0).clamp_min(1e-6))
        self.linear = nn.Linear(features.shape[1], classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    mean: Tensor
    scale: Tensor

    def forward(self, features: Tensor) -> Tensor:
        """Logits (N, classes)."""
        logits: Tensor = self.linear((features - self.mean) * self.scale)
        return logits


def fitted(features: Tensor, classes: Tensor, number: int, decay: float, steps: int = STEPS) -> Probe:
    """The minimum of mean cross entropy + decay · ‖weights‖², which is convex, so the start does not matter."""
    probe = Probe(features, number)
    optimiser = torch.optim.LBFGS(probe.parameters(), max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        value = functional.cross_entropy(probe(features), classes) + decay * probe.linear.weight.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    return probe


def accuracy(probe: Probe, features: Tensor, classes: Tensor) -> float:
    """The share of features whose class is found."""
    with torch.no_grad():
        return float((probe(features).argmax(1) == classes).double().mean())


def probe_accuracy(
    learned: Tensor, classes: Tensor, tested: Tensor, right: Tensor, decays: Sequence[float] = DECAYS
) -> tuple[float, float]:
    """Accuracy on tested features (M, D) of the probe of learned ones (N, D), and the decay that was chosen for it.

    classes (N,); right (M, classes) bool, as in `class_table`.
    """
    found, decay = probe_classes(learned, classes, tested, decays)
    return share_right(found, right), decay


def probe_classes(learned: Tensor, classes: Tensor, tested: Tensor, decays: Sequence[float] = DECAYS) -> tuple[Tensor, float]:
    """The classes (M,) that the probe of learned features (N, D) gives tested ones (M, D), and the decay chosen for it."""
    known, dense = torch.unique(classes, return_inverse=True)
    if len(known) < 2:
        raise ValueError(f"a probe needs at least two classes to tell apart, got {len(known)}; give other images")
    chosen = decays[0] if len(decays) == 1 else _chosen(learned, dense, len(known), decays)
    with torch.no_grad():
        return known[fitted(learned, dense, len(known), chosen)(tested).argmax(1)], chosen


def _chosen(features: Tensor, classes: Tensor, number: int, decays: Sequence[float]) -> float:
    """The decay with the highest accuracy on every fifth image, the strongest of equals."""
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(0))  # files of one class stand together
    held, kept = order[::HELD_OUT], torch.cat([order[first::HELD_OUT] for first in range(1, HELD_OUT)])
    found = {
        decay: accuracy(fitted(features[kept], classes[kept], number, decay), features[held], classes[held]) for decay in decays
    }
    return max(found, key=lambda decay: (found[decay], decay))
