"""Measures of label maps against annotated classes, of segmenters, and the oracle of a partition, which needs no training.

Measures: the confusion matrix with mIoU and pixel accuracy, and the boundary F. Oracle: every region takes the class of most of its
pixels, so its mIoU bounds that of all models that give a region one class and have no decoder.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from pixtree.evaluation.label_maps import IGNORED, LabelledImage
from pixtree.evaluation.superpixel_comparison import method, warm_up
from pixtree.kernels.image.cracks import boundary_pixels
from pixtree.runtime.processes import gathered, interleaved, joined

if TYPE_CHECKING:
    from pixtree.models.coarsening.coarse_vit import CoarseViT
    from pixtree.models.patch_grids import Grid
    from pixtree.models.segmentation import Segmenter

Labels = NDArray[np.integer]
TOLERANCE = 3  # pixels within which two boundaries match


@dataclass(frozen=True, eq=False)
class Confusion:
    """Pixels of each annotated class (rows) by predicted class (columns), (K, K) int64, summed over images."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, found: Labels, truth: Labels, classes: int) -> "Confusion":
        """The matrix of one image: labels (H, W); pixels that are IGNORED in the truth do not count."""
        if found.shape != truth.shape:
            raise ValueError(f"expected label maps of one size, got {found.shape} and {truth.shape}; resize one")
        counted = truth != IGNORED
        rows, columns = truth[counted].astype(np.int64), found[counted].astype(np.int64)
        if rows.size and not (min(rows.min(), columns.min()) >= 0 and max(rows.max(), columns.max()) < classes):
            low, high = min(rows.min(), columns.min()), max(rows.max(), columns.max())
            raise ValueError(f"expected classes from 0 to {classes - 1}, got {low} to {high}; check the number of classes")
        return cls(np.bincount(rows * classes + columns, minlength=classes**2).reshape(classes, classes))

    def __add__(self, other: "Confusion") -> "Confusion":
        return Confusion(self.counts + other.counts)

    @property
    def intersections_over_unions(self) -> NDArray[np.float64]:
        """IoU of each class, (K,); NaN for a class that neither the truth nor the prediction has."""
        same = np.diag(self.counts)
        union = self.counts.sum(axis=0) + self.counts.sum(axis=1) - same
        return np.where(union > 0, same / np.maximum(union, 1), np.nan)

    @property
    def mean_iou(self) -> float:
        """mIoU over the classes that occur."""
        return float(np.nanmean(self.intersections_over_unions)) if self.counts.any() else float("nan")

    @property
    def accuracy(self) -> float:
        """The share of pixels that are right."""
        return float(np.diag(self.counts).sum() / max(self.counts.sum(), 1))


def boundary_f(found: Labels, truth: Labels, tolerance: int = TOLERANCE) -> float:
    """The F measure of boundaries: the harmonic mean of precision and recall.

    A boundary pixel is one whose right or lower neighbour has another class. It matches if the other map has a boundary pixel
    within `tolerance` pixels (Euclidean). Boundaries next to IGNORED pixels of the truth count on neither side. 1 if neither map
    has a boundary.
    """
    ours, theirs = boundary_pixels(found), boundary_pixels(truth)
    void = truth == IGNORED
    if void.any():
        counted = ~within(void, tolerance)
        ours, theirs = ours & counted, theirs & counted
    if not ours.any() or not theirs.any():
        return float(ours.any() == theirs.any())
    precision = float(within(theirs, tolerance)[ours].mean())
    recall = float(within(ours, tolerance)[theirs].mean())
    return 2 * precision * recall / max(precision + recall, 1e-12)


def within(mask: NDArray[np.bool_], distance: int) -> NDArray[np.bool_]:
    """Pixels (H, W) whose Euclidean distance to the mask is at most a small number of pixels; O(H W distance).

    The disc is a stack of rows: the mask is widened sideways by the half of each row, and moved up and down.
    """
    height, width = mask.shape
    wide, found = mask.copy(), np.zeros_like(mask)
    reached = 0
    for down in range(distance, -1, -1):
        half = isqrt(distance**2 - down**2)
        for across in range(reached + 1, half + 1):
            wide[:, across:] |= mask[:, : max(width - across, 0)]
            wide[:, : max(width - across, 0)] |= mask[:, across:]
        reached = half
        kept = max(height - down, 0)
        found[down:] |= wide[:kept]
        found[:kept] |= wide[down:]
    return found


@dataclass(frozen=True, eq=False)
class Segmented:
    """The measures of a segmenter on a set: the confusion of all pixels, and the boundary F of every image, if it was measured."""

    confusion: Confusion
    boundaries: tuple[float, ...]

    def row(self) -> dict[str, Any]:
        """mIoU, boundary F (a mean over images) and pixel accuracy."""
        boundary = float(np.mean(self.boundaries)) if self.boundaries else None
        return {"miou": self.confusion.mean_iou, "boundary_f": boundary, "accuracy": self.confusion.accuracy}


@torch.no_grad()
def segmented(
    segmenter: "Segmenter",
    images: Sequence[LabelledImage],
    size: int,
    *,
    boundaries: bool = True,
    report: Callable[[int], None] = lambda count: None,
) -> Segmented:
    """Measure at the size of the annotations; images are resized to squares of `size` pixels, as in training.

    Processes that a launcher started share the images.
    """
    was, config = segmenter.training, segmenter.model.pretrained_cfg
    segmenter.eval()
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    total, edges = Confusion(np.zeros((segmenter.classes, segmenter.classes), np.int64)), []
    for one in (images[place] for place in joined().places(len(images))):
        pixels, truth = torch.from_numpy(one.pixels()).permute(2, 0, 1)[None].float(), one.labels()
        image = functional.interpolate(pixels, (size, size), mode="bicubic", antialias=True).clamp(0, 255) / 255
        found = segmenter.predict(((image - mean) / std).to(next(segmenter.parameters()).device)).cpu()
        labels = functional.interpolate(found[None].float(), truth.shape, mode="nearest-exact")[0, 0].long().numpy()
        total += Confusion.of(labels, truth, segmenter.classes)
        edges += [boundary_f(labels, truth)] if boundaries else []
        report(1)
    segmenter.train(was)
    parts = gathered((total.counts, edges))
    return Segmented(Confusion(sum(counts for counts, _ in parts)), tuple(interleaved([found for _, found in parts])))


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
    from pixtree.tasks.salient import colour_image, seen_by

    tallies = [Tally(classes) for _ in model.counts]
    for image in images:
        truth = image.labels()
        _, tree = model.forward_tree(seen_by(model, colour_image(image.pixels()), size))
        for block, tally in enumerate(tallies):
            maps = functional.interpolate(tree.maps(block)[:, None].float(), truth.shape, mode="nearest-exact")
            tally.add(maps[0, 0].numpy().astype(np.int64), truth, boundaries=tally is tallies[-1])
        yield [{"block": block + 1, **tally.row()} for block, tally in enumerate(tallies)]
