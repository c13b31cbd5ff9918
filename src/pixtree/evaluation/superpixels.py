"""Superpixel measures: how well a label map agrees with human annotations and with the colours, and how compact it is.

Throughout, S are the regions of the label map, G the segments of one annotator, N the number of pixels. A *boundary
pixel* is one whose right or lower neighbour has another label: nothing is thinned, and of the two sides of an edge only
one is marked. Other conventions shift boundary recall by about .03, so figures compare only within one of them.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image import psnr
from pixtree.kernels.image.cracks import boundary_pixels

Labels = NDArray[np.integer]
Mask = NDArray[np.bool_]

WINDOW = 5  # side, in pixels, of the square in which two boundary pixels match: a tolerance of two pixels


class Measure(NamedTuple):
    """One column of a table: its key, its name, its definition, and whether more is better (None: neither)."""

    key: str
    name: str
    meaning: str
    more_is_better: bool | None


MEASURES = (
    Measure(
        "boundary_recall",
        "Boundary recall",
        "share of the annotator's boundary pixels with one of ours in the 5×5 window",
        True,
    ),
    Measure(
        "boundary_precision",
        "Boundary precision",
        "share of our boundary pixels with one of the annotator's in the 5×5 window",
        True,
    ),
    Measure(
        "undersegmentation_error",
        "Undersegmentation error",
        "(1/N) Σ_S Σ_G min(|S∩G|, |S∖G|) (Neubert and Protzel)",
        False,
    ),
    Measure("achievable_accuracy", "Achievable segmentation accuracy", "(1/N) Σ_S max_G |S∩G|", True),
    Measure(
        "explained_variation",
        "Explained variation",
        "Σ_S |S| ‖mean(S) − mean‖² / Σ ‖x − mean‖² over RGB",
        True,
    ),
    Measure("psnr", "PSNR", "dB, RGB in 0..1, each region painted with its mean; mean of the images' PSNRs", True),
    Measure("squared_error", "Squared error", "mean squared error of the same painting, RGB in 0..1", False),
    Measure(
        "compactness",
        "Compactness",
        "Σ_S |S|/N · 4π|S|/P², P the count of pixel edges around S, image border included (Schick et al.)",
        None,
    ),
    Measure("contour_density", "Contour density", "share of boundary pixels", None),
)


def boundary_recall(labels: Labels, truth: Labels, window: int = WINDOW) -> float:
    """Share of the boundary pixels of `truth` with a boundary pixel of `labels` in the window around them.

    1 for a truth without any boundary: nothing was missed.
    """
    _same_shape(labels, truth)
    return _share_matched(boundary_pixels(truth), _spread(boundary_pixels(labels), window))


def boundary_precision(labels: Labels, truth: Labels, window: int = WINDOW) -> float:
    """Share of the boundary pixels of `labels` with a boundary pixel of `truth` in the window around them."""
    return boundary_recall(truth, labels, window)


def undersegmentation_error(labels: Labels, truth: Labels) -> float:
    """Corrected undersegmentation error of Neubert and Protzel: (1/N) Σ_S Σ_{G∩S≠∅} min(|S∩G|, |S∖G|)."""
    return _undersegmentation_error(_overlaps(_checked(labels), _checked(truth)))


def achievable_accuracy(labels: Labels, truth: Labels) -> float:
    """Achievable segmentation accuracy: the share of pixels right when each region takes its best segment."""
    return _achievable_accuracy(_overlaps(_checked(labels), _checked(truth)))


def explained_variation(labels: Labels, image: NDArray[np.floating]) -> float:
    """Share of the variation of `image` (H, W, C) that the region means keep; 1 for an image of one colour."""
    return _explained(squared_error(labels, image), image)


def squared_error(labels: Labels, image: NDArray[np.floating]) -> float:
    """Mean squared error over pixels and channels of `image` (H, W, C), each region painted with its mean."""
    flat = _checked(labels).ravel()
    area = np.maximum(np.bincount(flat), 1)
    error = 0.0
    for channel in np.moveaxis(image, -1, 0):
        mean = np.bincount(flat, channel.ravel().astype(np.float64)) / area
        error += float(np.square(channel.ravel() - mean[flat]).sum())
    return error / image.size


def compactness(labels: Labels) -> float:
    """Compactness of Schick et al.: Σ_S |S|/N · 4π|S|/P².

    P counts the pixel edges between S and anything else, the border of the image included; so the best value, of
    squares, is π/4, and the diagonal of a smooth outline counts as its staircase.
    """
    regions = _checked(labels)
    area = np.bincount(regions.ravel())
    around = perimeters(regions)
    area, around = area[area > 0], around[area > 0]
    return float((4 * np.pi * np.square(area / around)).sum() / labels.size)


def perimeters(labels: Labels) -> NDArray[np.int64]:
    """Pixel edges around each label 0..max, those on the border of the image included."""
    padded = np.pad(_checked(labels), 1, constant_values=-1)
    sides = []
    for axis in (0, 1):
        first, second = np.delete(padded, -1, axis), np.delete(padded, 0, axis)
        differ = first != second
        sides += [first[differ], second[differ]]
    return np.bincount(np.concatenate(sides) + 1, minlength=int(padded.max()) + 2)[1:]


def contour_density(labels: Labels) -> float:
    """Share of pixels that are boundary pixels."""
    return float(boundary_pixels(labels).mean())


def superpixel_scores(labels: Labels, image: NDArray[np.floating], truths: Sequence[Labels]) -> dict[str, float]:
    """Every measure of MEASURES for one label map (H, W), its image (H, W, C) in 0..1 and its annotators' maps.

    Measures against annotations are means over the annotators. O(N · annotators); about 25 ms for six at 321×481.
    """
    if not truths:
        raise ValueError("the measures need at least one annotator's label map, got none; pass truths=[...]")
    error = squared_error(labels, image)
    return {
        **_against_annotators(labels, truths),
        "explained_variation": _explained(error, image),
        "psnr": psnr(error),
        "squared_error": error,
        "compactness": compactness(labels),
        "contour_density": contour_density(labels),
    }


def _explained(error: float, image: NDArray[np.floating]) -> float:
    variance = float(image.var((0, 1), dtype=np.float64).mean())
    return 1.0 if variance == 0 else 1.0 - error / variance


def _against_annotators(labels: Labels, truths: Sequence[Labels]) -> Mapping[str, float]:
    """Means over the annotators of the four measures that need them; work on `labels` alone is done once."""
    regions, ours = _checked(labels), boundary_pixels(labels)
    near_ours = _spread(ours, WINDOW)
    rows = []
    for truth in truths:
        _same_shape(labels, truth)
        theirs, overlaps = boundary_pixels(truth), _overlaps(regions, _checked(truth))
        recall, precision = _share_matched(theirs, near_ours), _share_matched(ours, _spread(theirs, WINDOW))
        rows.append((recall, precision, _undersegmentation_error(overlaps), _achievable_accuracy(overlaps)))
    keys = ("boundary_recall", "boundary_precision", "undersegmentation_error", "achievable_accuracy")
    return dict(zip(keys, np.mean(rows, 0).tolist(), strict=True))


class _Overlaps(NamedTuple):
    """The K pairs (S, G) that share pixels, sorted by S."""

    region: NDArray[np.int64]  # (K,) the S of the pair
    pixels: NDArray[np.int64]  # (K,) |S∩G|
    area: NDArray[np.int64]  # (regions,) |S|


def _overlaps(regions: NDArray[np.int64], segments: NDArray[np.int64]) -> _Overlaps:
    _same_shape(regions, segments)
    width = int(segments.max()) + 1
    joint = (regions * width + segments).ravel()
    if (int(regions.max()) + 1) * width <= 16 * joint.size:
        table = np.bincount(joint)
        pair = np.flatnonzero(table)
        pixels = table[pair]
    else:  # a table of all pairs would outgrow the image
        pair, pixels = np.unique(joint, return_counts=True)
    return _Overlaps(pair // width, pixels, np.bincount(regions.ravel()))


def _undersegmentation_error(overlaps: _Overlaps) -> float:
    outside = overlaps.area[overlaps.region] - overlaps.pixels
    return float(np.minimum(overlaps.pixels, outside).sum() / overlaps.area.sum())


def _achievable_accuracy(overlaps: _Overlaps) -> float:
    first_pair = np.flatnonzero(np.diff(overlaps.region, prepend=-1))
    return float(np.maximum.reduceat(overlaps.pixels, first_pair).sum() / overlaps.area.sum())


def _share_matched(boundary: Mask, near_other: Mask) -> float:
    count = int(boundary.sum())
    return 1.0 if count == 0 else int((boundary & near_other).sum()) / count


def _spread(mask: Mask, window: int) -> Mask:
    """Pixels with a true one in the square window around them: two one-dimensional passes."""
    if window < 1 or window % 2 == 0:
        raise ValueError(f"the window must be odd and at least 1, got {window}; use 5 for a tolerance of two pixels")
    for _ in range(2):
        spread = mask.copy()
        for shift in range(1, window // 2 + 1):
            spread[shift:] |= mask[:-shift]
            spread[:-shift] |= mask[shift:]
        mask = spread.T
    return mask


def _checked(labels: Labels) -> NDArray[np.int64]:
    """The same regions as int64 labels from 0, small enough to count with."""
    if labels.ndim != 2 or labels.size == 0 or not np.issubdtype(labels.dtype, np.integer):
        raise ValueError(f"a label map is an (H, W) array of integers, got {labels.dtype} of shape {labels.shape}; cast it")
    if labels.min() < 0:
        raise ValueError(f"labels must not be negative, got {labels.min()}; evaluate partitions without a mask")
    if labels.max() < labels.size:
        return labels.astype(np.int64, copy=False)
    return np.unique(labels, return_inverse=True)[1].reshape(labels.shape).astype(np.int64)


def _same_shape(labels: Labels, truth: Labels) -> None:
    if labels.shape != truth.shape:
        raise ValueError(f"label map and annotation must have one size, got {labels.shape} and {truth.shape}; resize one")
