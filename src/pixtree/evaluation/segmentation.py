"""Measures of label maps against annotated classes: the confusion matrix and what follows from it, and the boundary F."""

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from pixtree.evaluation.labelled_folders import IGNORED
from pixtree.kernels.image.cracks import boundary_pixels

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
