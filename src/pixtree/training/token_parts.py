"""Parts of a step by their tokens: where pictures differ in their counts, those of like counts are trained together."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from pixtree.models.vit import PixtreeViT
from pixtree.training.loop import Batches
from pixtree.training.order import Share
from pixtree.training.pictures import Item


class ByTokens:
    """The same batches in parts of at most `most` tokens, padding included; a picture with more is a part of its own.

    The samples of a step stay what they are, so that the order of a run, its processes and its gradients do not depend on how
    they are divided. counts: the tokens (B,) of the pictures of a batch.
    """

    def __init__(self, batches: Batches, most: int, counts: Callable[[Item], Tensor]) -> None:
        self.batches, self.most, self.counts = batches, most, counts

    def starting(self, step: int, share: Share) -> Iterator[list[Item]]:
        """The parts of one process from a step on."""
        for given in self.batches.starting(step, share):
            yield [part for batch in given for part in self._parts(batch)]

    def _parts(self, batch: Item) -> Iterator[Item]:
        counts = self.counts(batch).cpu()
        order = torch.sort(counts, descending=True, stable=True).indices
        first = 0
        while first < len(order):
            size = max(1, self.most // int(counts[order[first]]))
            chosen = order[first : first + size]
            yield Item._make(None if values is None else values[chosen] for values in batch)
            first += size


def counts_of(learner: Any) -> Callable[[Item], Tensor]:
    """How many tokens a model will have for each picture of a batch, (B,).

    Regions that were cut already are counted; otherwise the batch is cut for that alone, and once more with gradients.
    """

    def counts(batch: Item) -> Tensor:
        if not isinstance(learner, PixtreeViT):
            return torch.full((len(batch.images),), learner.patch_embed.num_patches)
        if batch.labels is not None:
            return batch.labels.flatten(1).amax(dim=1) + 1
        return learner.partition(batch.images.to(learner.tokenizer.prefix.device)).counts

    return counts
