"""The oracle of a partition: the best that a model can do which gives every region one class; it needs no training.

Every region takes the class that most of its pixels have, so the mIoU bounds that of all models without a decoder.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pixtree.evaluation.labelled_folders import IGNORED, LabelledImage
from pixtree.evaluation.segmentation import Confusion, boundary_f
from pixtree.evaluation.superpixel_comparison import method, warm_up

if TYPE_CHECKING:
    from pixtree.models.coarsening.coarse_vit import CoarseViT
    from pixtree.models.patch_grids import Grid

Labels = NDArray[np.integer]


def majority(regions: Labels, truth: Labels, classes: int) -> NDArray[np.int64]:
    """The class (H, W) that most counted pixels of each region (H, W) have, the first of equals; 0 where none counts."""
    counted = truth != IGNORED
    pairs = regions[counted].astype(np.int64) * classes + truth[counted]
    votes = np.bincount(pairs, minlength=(int(regions.max()) + 1) * classes).reshape(-1, classes)
    found: NDArray[np.int64] = votes.argmax(axis=1)[regions]
    return found


class Tally:
    """Measures summed over images."""

    def __init__(self, classes: int) -> None:
        self.classes, self.confusion = classes, Confusion(np.zeros((classes, classes), np.int64))
        self.boundaries: list[float] = []
        self.regions: list[int] = []

    def add(self, regions: Labels, truth: Labels, *, boundaries: bool = True) -> None:
        """Count one image whose regions (H, W) take their majority classes; boundaries take most of the time."""
        best = majority(regions, truth, self.classes)
        self.confusion += Confusion.of(best, truth, self.classes)
        if boundaries:
            self.boundaries.append(boundary_f(best, truth))
        self.regions.append(len(np.unique(regions)))

    def row(self) -> dict[str, Any]:
        """The measures."""
        return {
            "images": len(self.regions),
            "regions": float(np.mean(self.regions)),
            "miou": self.confusion.mean_iou,
            "accuracy": self.confusion.accuracy,
            "boundary_f": float(np.mean(self.boundaries)) if self.boundaries else None,
        }


def oracle(
    images: Iterable[LabelledImage], classes: int, methods: Sequence[str], counts: Sequence[int]
) -> Iterator[list[dict[str, Any]]]:
    """After every image, the rows of all methods and counts over the images so far; the last list is the result.

    Methods are names of `superpixel_comparison.METHODS`. mIoU is that of all pixels together, the boundary F a mean over images.
    """
    for name in methods:
        for count in counts:
            method(name, count)  # unknown names show before any work
    warm_up(methods)
    tallies = {(name, count): Tally(classes) for name in methods for count in counts}
    for image in images:
        pixels, truth = torch.from_numpy(image.pixels()).permute(2, 0, 1).contiguous(), image.labels()  # HWC -> CHW
        for (name, count), tally in tallies.items():
            tally.add(method(name, count).raw_labels(pixels), truth)
        yield [{"method": name, "tokens": count, **tally.row()} for (name, count), tally in tallies.items()]


@torch.inference_mode()
def coarse_oracle(
    images: Iterable[LabelledImage], classes: int, model: "CoarseViT", size: "Grid"
) -> Iterator[list[dict[str, Any]]]:
    """The same for the nested partitions of a model whose tokens merge: one row per block, for images that it sees at a size.

    Rows have the number of the block, from 1, and `regions`, the tokens that are left after it; only the last has a boundary F.
    """
    from pixtree.tasks.salient import colour_picture, seen_by

    tallies = [Tally(classes) for _ in model.counts]
    for image in images:
        truth = image.labels()
        _, tree = model.forward_tree(seen_by(model, colour_picture(image.pixels()), size))
        for block, tally in enumerate(tallies):
            maps = functional.interpolate(tree.maps(block)[:, None].float(), truth.shape, mode="nearest-exact")
            tally.add(maps[0, 0].numpy().astype(np.int64), truth, boundaries=tally is tallies[-1])
        yield [{"block": block + 1, **tally.row()} for block, tally in enumerate(tallies)]
