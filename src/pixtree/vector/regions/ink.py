"""Ink on paper: the inks of a scan, or of a photo of a page or a whiteboard, without the light, the shade and the paper's colour.

Paper is what most of every neighbourhood shows, and its light changes slowly. A pixel's darkness is what ink has taken away from
the light of the paper there, so it does not depend on where the lamp stood.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pixtree.vector.regions.colours import clusters, perceptual

Array = NDArray[Any]
BLOCKS, SIDES = 40, (12, 64)  # blocks of paper along the longer side, and the pixels of a block's side
BRIGHT = 75  # percentile of a block that is paper even where a third of the block is ink
BLANK = 0.12  # darkness of what may still be paper, and
INKED = 0.25  # from which on a pixel is certainly inked
FULL = 97  # percentile of the darkness of inked pixels that is ink without any paper; beyond it there is noise
SOFT = 0.7  # pixels, σ: noise is averaged over as much where pixels are only counted
STEADY = 1.5  # pixels, σ, over which the hue of an ink is averaged
MOST_INKS, ALIKE, RARE = 6, 30.0, 0.02  # inks, their least ΔE, and the least share that one has
LOOKED_AT, SMALLEST = 400, 64  # pixels of the longer side, about, and of the shorter one, where line art is recognised
DIM, PALE = 80.0, 0.4  # the least level of paper, and the largest difference of its channels, as a share
SHARES, DARK = (0.004, 0.35), 0.35  # of the pixels that are inked, and the darkness of a quarter of them
WIDE, MOST_WIDE = 40, 0.25  # a stroke of line art is thinner than this part of the longer side, but for this share of the ink
MOST_ELSE = 0.02  # share of pixels that are neither paper nor near ink
GREY = 40.0  # levels between the channels of an ink that is meant to be grey


@dataclass(frozen=True, eq=False)
class Ink:
    """coverage (H, W) float32: 0 on paper, 1 in ink, blends between; entries (H, W) int32 and colours (K, 3) of the inks, 0…255.

    Colours are those on white paper, and the darkest ink is as dark as its hue allows.
    """

    coverage: NDArray[np.float32]
    entries: NDArray[np.int32]
    colours: NDArray[np.float64]


def ink_of(planes: NDArray[np.float32], most: int = MOST_INKS) -> Ink:
    """The inks of planes (3, H, W) in 0…255 on paper, `most` at the most."""
    dark = darkness(planes)
    strength = ndimage.gaussian_filter(dark, (0, SOFT, SOFT)).mean(axis=0)
    inked = strength > INKED * max(float(np.percentile(strength, 99.9)), INKED)
    if not inked.any() or float(strength.max()) < BLANK:
        return Ink(np.zeros(strength.shape, np.float32), np.zeros(strength.shape, np.int32), np.zeros((1, 3)))
    entries = _entries(dark, inked, most)
    full = np.stack([_full(dark, inked & (entries == entry)) for entry in range(int(entries.max()) + 1)])
    own = full[entries].transpose(2, 0, 1)
    coverage = (dark * own).sum(axis=0) / (own**2).sum(axis=0)
    return Ink(coverage.astype(np.float32), entries, _on_white(full))


def is_ink_on_paper(planes: NDArray[np.float32]) -> bool:
    """Whether planes (3, H, W) in 0…255 look like a scan, or a photo of a page: dark thin strokes, bright paper, little else."""
    step = max(max(planes.shape[1:]) // LOOKED_AT, 1)
    small = planes[:, ::step, ::step]
    if min(small.shape[1:]) < SMALLEST:
        return False
    paper = paper_of(small)
    if np.median(paper.max(axis=0)) < DIM or np.median(np.ptp(paper, axis=0) / paper.max(axis=0)) > PALE:
        return False
    strength = ndimage.gaussian_filter(1.0 - small / np.maximum(paper, 1.0), (0, SOFT, SOFT)).mean(axis=0)
    inked = strength > INKED
    if not SHARES[0] < inked.mean() < SHARES[1] or np.percentile(strength[inked], 75) < DARK:
        return False
    wide = ndimage.binary_opening(inked, np.ones((max(small.shape) // WIDE,) * 2))
    neither = (np.abs(strength) > BLANK) & ~ndimage.binary_dilation(inked, iterations=3)
    return bool(wide.sum() < MOST_WIDE * inked.sum() and neither.mean() < MOST_ELSE)


def darkness(planes: NDArray[np.float32]) -> NDArray[np.float32]:
    """Share (3, H, W) of the light of the paper that is missing in planes (3, H, W): about 0 on paper, less than 1 in ink."""
    return np.asarray(1.0 - planes / np.maximum(paper_of(planes), 1.0), np.float32)


def paper_of(planes: NDArray[np.float32]) -> NDArray[np.float32]:
    """The paper alone (3, H, W) in its light: bright pixels of every block first, then the mean of those that are not inked."""
    side = int(np.clip(max(planes.shape[1:]) / BLOCKS, *SIDES))
    bright = np.percentile(_in_blocks(planes, side), BRIGHT, axis=3)
    bright = np.stack([_even(ndimage.grey_closing(plane, size=7, mode="nearest")) for plane in bright])
    dark = 1.0 - planes / np.maximum(_enlarged(bright, side, planes.shape[1:]), 1.0)
    blank = ndimage.gaussian_filter(dark.max(axis=0), 1.0) < BLANK
    blank = ndimage.binary_erosion(blank, iterations=2, border_value=1)
    number = _even(_in_blocks(blank[None].astype(np.float32), side).sum(axis=3)[0])
    sums = np.stack([_even(plane) for plane in _in_blocks(planes * blank, side).sum(axis=3)])
    mean = np.where(number > 4, sums / np.maximum(number, 1e-6), bright)
    return _enlarged(mean, side, planes.shape[1:])


def _in_blocks(planes: Array, side: int) -> Array:
    """Planes (C, H, W) as blocks (C, h, w, side²), the last of a row or column filled with copies of the border."""
    channels, height, width = planes.shape
    rows, columns = -(-height // side), -(-width // side)
    padded = np.pad(planes, ((0, 0), (0, rows * side - height), (0, columns * side - width)), mode="edge")
    return padded.reshape(channels, rows, side, columns, side).transpose(0, 1, 3, 2, 4).reshape(channels, rows, columns, -1)


def _even(plane: Array) -> Array:
    return np.asarray(ndimage.gaussian_filter(plane, 1.0, mode="nearest"))


def _enlarged(blocks: Array, side: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Values (C, h, w) of blocks at every pixel (C, H, W), linear between the middles of the blocks."""
    found = blocks
    for axis, pixels in zip((1, 2), shape, strict=True):
        place = np.clip((np.arange(pixels) + 0.5) / side - 0.5, 0, found.shape[axis] - 1)
        low = np.minimum(place.astype(np.int64), max(found.shape[axis] - 2, 0))
        share = (place - low).reshape([-1 if k == axis else 1 for k in range(3)])
        high = np.minimum(low + 1, found.shape[axis] - 1)
        found = np.take(found, low, axis) * (1 - share) + np.take(found, high, axis) * share
    return found.astype(np.float32)


def _full(dark: Array, inked: Array) -> NDArray[np.float64]:
    """Darkness (3,) of ink that covers its pixels whole: that of the darkest of the inked pixels."""
    values = dark[:, inked].astype(np.float64)
    strength = values.mean(axis=0)
    return np.asarray(np.maximum(values[:, strength >= np.percentile(strength, FULL)].mean(axis=1), 1e-3))


def _entries(dark: Array, inked: Array, most: int) -> NDArray[np.int32]:
    """Which ink (H, W) is the nearest to every pixel, by hue: that of what the ink takes away, in proportion."""
    entries = np.zeros(inked.shape, np.int32)
    if most == 1:
        return entries
    even = np.maximum(ndimage.gaussian_filter(dark, (0, STEADY, STEADY))[:, inked], 0)
    hues = 255.0 * (1.0 - even / np.maximum(even.max(axis=0), 1e-3)).T
    found = clusters(8 * np.rint(hues / 8), np.ones(len(hues)), most)
    size = np.bincount(found)
    means = np.stack([np.bincount(found, hues[:, c]) for c in range(3)], axis=1) / np.maximum(size, 1)[:, None]
    kept: list[int] = []
    place = perceptual(means)
    for one in np.argsort(-size, kind="stable").tolist():
        apart = all(np.linalg.norm(place[one] - place[other]) > ALIKE for other in kept)
        if size[one] >= RARE * len(hues) and apart:
            kept.append(one)
    if len(kept) == 1:
        return entries
    nearest = np.argmin(((place[:, None] - place[kept][None]) ** 2).sum(axis=2), axis=1)
    entries[inked] = nearest[found]
    rows, columns = ndimage.distance_transform_edt(~inked, return_distances=False, return_indices=True)
    return np.asarray(entries[rows, columns])


def _on_white(full: Array) -> NDArray[np.float64]:
    """Colours (K, 3) on white paper of inks (K, 3) of full darkness: without the haze that keeps the darkest from being black."""
    colours = 255.0 * (1.0 - full / full.max())
    grey = np.ptp(colours, axis=1) < GREY
    return np.asarray(np.where(grey[:, None], colours.min(axis=1, keepdims=True), colours), np.float64)
