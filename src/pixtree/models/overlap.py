"""Overlap: images are cut while the model works on others, so that a device does not wait for trees built on the host.

With a frozen encoder, or colour alone deciding, the workers of a data loader cut: `WithPartition` and `collate_partitions`. While
the encoder learns, `cut_ahead` cuts the next batch during a step, with weights that are then one step old.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from pixtree.models.vit import PixtreeViT
from pixtree.tokenizer.cutting import Cuts
from pixtree.trees.partition import Partition


class WithPartition:
    """A transform of a dataset that also cuts: a sample's image becomes (image (C, H, W), labels (H, W) int32).

    transform: the dataset's own, to the image that the model takes.
    model: cuts with its current weights; only the parts that cut are copied, to the CPU.
    """

    def __init__(self, transform: Callable[[Any], Tensor], model: PixtreeViT, tokens: int | None = None) -> None:
        self.transform, self.tokens, self.cutter = transform, tokens, cutter(model).cpu()

    def __call__(self, sample: Any) -> tuple[Tensor, Tensor]:
        """The transformed image and its label map."""
        image = self.transform(sample)
        return image, self.cutter.partition(image[None], self.tokens).labels[0]


def collate_partitions(samples: Sequence[tuple[tuple[Tensor, Tensor], Any]]) -> tuple[Tensor, Partition, Any]:
    """Samples ((image, labels), target) of such a dataset as a batch (images, partition, targets), for `collate_fn`."""
    images, labels = default_collate([pair for pair, _ in samples])
    partition = Partition(labels)
    return images, Partition.known(labels, partition.rows), default_collate([target for _, target in samples])


def cut_ahead(batches: Iterable[Any], model: PixtreeViT) -> Iterator[tuple[Any, ...]]:
    """Batches (images, …) as (images, cuts, …), for `model(images, cuts)`; each is cut in a thread while the one before trains.

    A batch is cut with the weights from before the step on the batch before it: one step stale, except for the first. Gradients
    reach all weights as usual. The weights that cut are copied first, so that results do not depend on how long the thread takes.
    Images must be on the device of the model.
    """
    source = iter(batches)
    with ThreadPoolExecutor(1, "pixtree-ahead") as pool:
        ahead = _submitted(pool, source, model)
        while ahead is not None:
            (images, *more), cuts = ahead
            ahead = _submitted(pool, source, model)
            yield images, cuts.result(), *more


def _submitted(pool: ThreadPoolExecutor, source: Iterator[Any], model: PixtreeViT) -> tuple[Any, "Future[Cuts]"] | None:
    """The next batch and its cuts to come, with the weights of now; None after the last."""
    batch = next(source, None)
    if batch is None:
        return None
    learns, frozen = torch.is_grad_enabled(), cutter(model)  # both belong to this thread and this moment

    def cut() -> Cuts:
        with torch.set_grad_enabled(learns):
            return frozen.cut(batch[0])

    return batch, pool.submit(cut)


def cutter(model: PixtreeViT) -> PixtreeViT:
    """A copy of the parts of a model that cut, a few kilobytes: without blocks, projection, positions and sampling."""
    tokenizer = model.tokenizer
    others = (model.backbone, tokenizer.projection, tokenizer.positions, tokenizer.gradients, tokenizer.sampler)
    memory: dict[int, Any] = {id(part): None for part in others}  # deepcopy takes these as copied already, to None
    return deepcopy(model, memory)
