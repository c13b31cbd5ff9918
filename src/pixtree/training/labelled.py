"""Training with labels: cross entropy of models of regions or of patches, by the same code."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from pixtree.models.vit import PixtreeViT
from pixtree.runtime.processes import gathered, interleaved, joined
from pixtree.training.batches import Images, Item, Sample, reading_workers, together
from pixtree.training.loop import Objective
from pixtree.trees.partition import Partition


class Classification(Objective):
    """Cross entropy with smoothed labels; mixed images bring their labels smoothed."""

    def __init__(self, learner: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__()
        self.learner, self.smoothing = learner, smoothing

    def forward(self, batch: Item) -> dict[str, Tensor]:
        """The loss, top-1 of the batch, tokens per image, and the share of images that were skipped."""
        logits, tokens = logits_of(self.learner, batch)
        mixed = batch.classes.ndim == 2
        loss = functional.cross_entropy(logits, batch.classes, label_smoothing=0.0 if mixed else self.smoothing)
        wanted = batch.classes.argmax(dim=1) if mixed else batch.classes
        right = (logits.detach().argmax(dim=1) == wanted).float().mean()
        return {"loss": loss, "top1": right, "tokens": tokens, "damaged": batch.damaged.float().mean()}


def logits_of(learner: Any, batch: Item) -> tuple[Tensor, Tensor]:
    """Logits (B, classes) and the mean number of tokens; regions that were cut already are not cut again."""
    if not isinstance(learner, PixtreeViT):
        return learner(batch.images), torch.tensor(float(learner.patch_embed.num_patches), device=batch.images.device)
    tokens = learner.tokens(batch.images, None if batch.labels is None else Partition(batch.labels))
    return learner.forward_tokens(tokens), tokens.valid.sum(dim=1).float().mean()


def counts_of(learner: Any) -> Callable[[Item], Tensor]:
    """A function that counts the tokens of each image of a batch, (B,), for `ByTokens`.

    Regions that were cut already are counted; otherwise the batch is cut for that alone, and once more with gradients.
    """

    def counts(batch: Item) -> Tensor:
        if not isinstance(learner, PixtreeViT):
            return torch.full((len(batch.images),), learner.patch_embed.num_patches)
        if batch.labels is not None:
            return batch.labels.flatten(1).amax(dim=1) + 1
        return learner.partition(batch.images.to(learner.tokenizer.prefix.device)).counts

    return counts


def held_out(learner: nn.Module, images: Images, batch: int = 32, workers: int = 0) -> dict[str, float]:
    """Top-1 accuracy and cross entropy on held-out images, which processes share."""
    right, losses = measured(learner, images, batch, workers)
    return {"top1": float(right.double().mean()), "loss": float(losses.mean())}


def correct(learner: nn.Module, images: Images, batch: int = 32) -> Tensor:
    """Whether the top class of each image is its label, (N,) bool."""
    return measured(learner, images, batch)[0]


@torch.no_grad()
def measured(learner: nn.Module, images: Images, batch: int = 32, workers: int = 0) -> tuple[Tensor, Tensor]:
    """Of each image, whether its top class is its label, (N,) bool, and its cross entropy, (N,) float64."""
    was, device = learner.training, next(learner.parameters()).device
    learner.eval()
    places = [Sample(0, place) for place in joined().places(len(images))]
    own: list[tuple[bool, float]] = []
    loader = DataLoader(images, batch, sampler=places, num_workers=workers, collate_fn=together)
    with reading_workers():
        for given in loader:
            logits = logits_of(learner, given._replace(images=given.images.to(device)))[0].cpu()
            losses = functional.cross_entropy(logits.double(), given.classes, reduction="none")
            own += zip((logits.argmax(dim=1) == given.classes).tolist(), losses.tolist(), strict=True)
    learner.train(was)
    found = interleaved(gathered(own))
    return torch.tensor([hit for hit, _ in found]), torch.tensor([loss for _, loss in found], dtype=torch.float64)
