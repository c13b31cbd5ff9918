"""Training with labels: cross entropy of models of regions or of patches, by the same code."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.models.vit import PixtreeViT
from pixtree.training.batches import Images, Item, Sample, together
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


def top1(learner: nn.Module, images: Images, batch: int = 32) -> float:
    """Top-1 accuracy on held-out images."""
    return float(correct(learner, images, batch).double().mean())


@torch.no_grad()
def correct(learner: nn.Module, images: Images, batch: int = 32) -> Tensor:
    """Whether the top class of each image is its label, (N,) bool."""
    was, device = learner.training, next(learner.parameters()).device
    learner.eval()
    right = []
    for first in range(0, len(images), batch):
        given = together([images[Sample(0, place)] for place in range(first, min(first + batch, len(images)))])
        logits, _ = logits_of(learner, given._replace(images=given.images.to(device)))
        right.append(logits.argmax(dim=1).cpu() == given.classes)
    learner.train(was)
    return torch.cat(right)
