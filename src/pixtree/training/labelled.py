"""Training with labels: cross entropy of a model of regions or of patches, by the same code."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pixtree.models.vit import PixtreeViT
from pixtree.training.loop import Objective
from pixtree.training.order import Sample
from pixtree.training.pictures import Item, Pictures, together
from pixtree.trees.partition import Partition


class Classification(Objective):
    """Cross entropy with smoothed labels; mixed pictures bring their labels smoothed."""

    def __init__(self, learner: nn.Module, smoothing: float = 0.0) -> None:
        super().__init__()
        self.learner, self.smoothing = learner, smoothing

    def forward(self, batch: Item) -> dict[str, Tensor]:
        """The loss, the share of pictures whose class is named first, tokens per picture, and pictures that were passed over."""
        logits, tokens = answers(self.learner, batch)
        mixed = batch.classes.ndim == 2
        loss = functional.cross_entropy(logits, batch.classes, label_smoothing=0.0 if mixed else self.smoothing)
        wanted = batch.classes.argmax(dim=1) if mixed else batch.classes
        right = (logits.detach().argmax(dim=1) == wanted).float().mean()
        return {"loss": loss, "top1": right, "tokens": tokens, "damaged": batch.damaged.float().mean()}


def answers(learner: Any, batch: Item) -> tuple[Tensor, Tensor]:
    """Logits (B, classes) and the mean number of tokens; regions that were cut already are not cut again."""
    if not isinstance(learner, PixtreeViT):
        return learner(batch.images), tokens_of(learner, batch.images.device)
    tokens = learner.tokens(batch.images, None if batch.labels is None else Partition(batch.labels))
    return learner.forward_tokens(tokens), tokens.valid.sum(dim=1).float().mean()


def tokens_of(learner: Any, device: torch.device) -> Tensor:
    """The number of patches of a timm model."""
    return torch.tensor(float(learner.patch_embed.num_patches), device=device)


def top1(learner: nn.Module, pictures: Pictures, batch: int = 32) -> float:
    """The share of held-out pictures whose class a model names first."""
    return float(right_answers(learner, pictures, batch).double().mean())


@torch.no_grad()
def right_answers(learner: nn.Module, pictures: Pictures, batch: int = 32) -> Tensor:
    """Whether a model names the class of each picture first, (N,) bool."""
    was, device = learner.training, next(learner.parameters()).device
    learner.eval()
    right = []
    for first in range(0, len(pictures), batch):
        items = [pictures[Sample(0, place)] for place in range(first, min(first + batch, len(pictures)))]
        given = together(items)
        found, _ = answers(learner, given._replace(images=given.images.to(device)))
        right.append(found.argmax(dim=1).cpu() == given.classes)
    learner.train(was)
    return torch.cat(right)
