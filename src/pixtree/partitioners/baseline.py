"""Baseline: the common part of all other partitioners, and the search for the setting that gives a requested count."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.runtime import transfer
from pixtree.runtime.backend import is_host
from pixtree.trees.partition import Partition

LabelMap = NDArray[np.int32]
Setting = tuple[float, ...]  # values of a method's own knobs


@dataclass(frozen=True)
class Baseline:
    """A partitioner that makes one label map per image.

    A fair comparison measures its own segments (`raw_labels`); a Partition holds their 4-connected pieces, which can be
    more. `tokens` is the requested count of regions; few baselines can reach every count exactly.
    """

    tokens: int

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise ValueError(f"a partition needs at least 1 region, got tokens={self.tokens}; ask for 1 or more")

    def __call__(self, images: Tensor) -> Partition:
        """Partition of (B, C, H, W) images, uint8 or float 0..1, each on its own; the methods work on a copy on the host."""
        if images.ndim != 4:
            raise ValueError(f"a partitioner takes images (B, C, H, W), got shape {tuple(images.shape)}; add a batch axis")
        near = images if is_host(images.device) else transfer.to_host([images])[0]
        maps = torch.from_numpy(np.stack([self.raw_labels(image) for image in near]))
        return Partition.from_labels(maps).to(images.device)

    def raw_labels(self, image: Tensor) -> LabelMap:
        """The method's own segments of one image (C, H, W), numbered from 0: an (H, W) map, connected or not."""
        return self.labels_at(image, self.setting(image))

    def setting(self, image: Tensor) -> Setting:
        """The values of the method's own knobs that come nearest to the count; here the count itself."""
        if self.tokens > image.shape[-2] * image.shape[-1]:
            size = f"{image.shape[-2]}×{image.shape[-1]}"
            raise ValueError(f"an image of {size} pixels cannot have {self.tokens} regions; ask for fewer tokens")
        return (self.tokens,)

    def labels_at(self, image: Tensor, setting: Setting) -> LabelMap:
        """One run of the method at one setting; benchmarks time this alone."""
        raise NotImplementedError


def pixels(image: Tensor) -> NDArray[np.float32]:
    """One image (C, H, W), uint8 or float 0..1, as (H, W, C) float32 in 0..1."""
    values = image.to(torch.float32) / 255 if image.dtype == torch.uint8 else image.to(torch.float32)
    return values.permute(1, 2, 0).contiguous().cpu().numpy()  # CHW -> HWC


def colours(image: Tensor) -> NDArray[np.float32]:
    """The features of the tree as (H, W, C) float32: Lab of a colour image, L of a grey one."""
    planes = kernels_for().colours(image.cpu())  # (C, H·W)
    return np.moveaxis(planes.reshape(-1, *image.shape[1:]).numpy(), 0, -1)


def renumbered(labels: NDArray[np.integer]) -> LabelMap:
    """The same segments, numbered 0, 1, … without gaps."""
    numbers: LabelMap = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    return numbers.reshape(labels.shape)


def segment_count(labels: NDArray[np.integer]) -> int:
    """The number of different labels of a map."""
    return len(np.unique(labels))


def nearest_setting(
    count_at: Callable[[float], int],
    target: int,
    start: float,
    *,
    slope: float,
    evaluations: int = 8,
    tolerance: float = 0.01,
    whole: bool = False,
) -> float:
    """The setting tried whose count is nearest to `target`, at most `evaluations` of them.

    The count is taken to go like setting^slope: Newton steps on the logarithms until both sides are known, then
    whichever of secant and bisection lies inside the bracket. Stops at a relative miss of `tolerance`.
    """
    tried: dict[float, int] = {}
    setting = float(max(round(start), 1)) if whole else start
    while len(tried) < evaluations and setting not in tried:
        tried[setting] = count_at(setting)
        if abs(tried[setting] - target) <= tolerance * target:
            break
        setting = _next_setting(tried, target, slope)
        setting = float(max(round(setting), 1)) if whole else setting
    return min(tried, key=lambda value: abs(tried[value] - target))


def _next_setting(tried: dict[float, int], target: int, slope: float) -> float:
    """The setting at which the count should be `target`, given the settings tried so far."""
    misses = {math.log(value): math.log(count / target) / slope for value, count in tried.items()}
    below = max((place for place, miss in misses.items() if miss < 0), default=None)
    above = min((place for place, miss in misses.items() if miss > 0), default=None)
    if below is None or above is None or below >= above:
        place = min(misses, key=lambda known: abs(misses[known]))
        return math.exp(place - misses[place])
    secant = below - misses[below] * (above - below) / (misses[above] - misses[below])
    margin = 0.15 * (above - below)  # a secant that hugs one end would crawl
    return math.exp(min(max(secant, below + margin), above - margin))
