"""Previews of partitions and trees, as notebooks show them: pictures (H, W, 3) uint8."""

from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.trees.partition import Partition

if TYPE_CHECKING:
    from pixtree.trees.hierarchy import Contours

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]

WHITE: Colour = (255, 255, 255)
LARGEST_REPAINT = 200  # rounds; a planar map needs about ten
FAINTEST_COUNT = 5_000  # boundaries that need more regions than this are left white
MOST_SHOWN = 4  # images of a batch, side by side


def coloured_regions(labels: NDArray[np.int32], *, seed: int = 0, outside: Colour = WHITE) -> Picture:
    """Every region of a numbered map (H, W) in one of sixteen soft hues, with a little of its own lightness; -1 is outside.

    Neighbours have different hues.
    """
    generator = np.random.default_rng(seed)
    hues = _hues(labels, generator)
    lightness = generator.uniform(0.9, 1.06, size=(len(hues), 1))
    colours = np.clip(_palette()[hues] * lightness, 0, 255).astype(np.uint8)
    return painted(labels, colours, outside)


def contour_map(contours: "Contours") -> Picture:
    """The ultrametric contour map: darker boundaries appear at coarser cuts.

    Black is a boundary of the cut with 2 regions; grey falls with the logarithm of the count, down to white at 5,000
    regions and more. A pixel shows the strongest of its right and lower edge.
    """
    right, down = (np.asarray(edges) for edges in (contours.right, contours.down))
    fewest = np.full((right.shape[0], down.shape[1]), np.iinfo(np.int32).max, dtype=np.int64)
    fewest[:, :-1] = right
    fewest[:-1] = np.minimum(fewest[:-1], down)
    fade = np.log2(np.clip(fewest, 2, FAINTEST_COUNT) / 2) / np.log2(FAINTEST_COUNT / 2)
    grey = (255 * fade + 0.5).astype(np.uint8)
    return np.repeat(grey[:, :, None], 3, axis=2)


def partition_picture(partition: Partition) -> Picture:
    """The regions of the first images of a batch in soft colours, side by side."""
    maps = partition.labels[:MOST_SHOWN].cpu().numpy()
    return np.concatenate([coloured_regions(labels) for labels in maps], axis=1)


def painted(labels: NDArray[np.int32], colours: Picture, outside: Colour) -> Picture:
    """Colours (N, 3) by label as a picture."""
    table = np.concatenate((colours, np.array([outside], dtype=np.uint8)))
    return table[np.where(labels < 0, len(colours), labels)]


def _palette() -> NDArray[np.float64]:
    """Sixteen soft colours (16, 3) around the circle of hues, light and deep in turn."""
    hue = np.arange(16)[:, None] / 16 + np.array([0, 1 / 3, 2 / 3])
    deep = (np.arange(16) % 2)[:, None]
    colours: NDArray[np.float64] = (192 - 62 * deep) + (42 + 14 * deep) * np.cos(2 * np.pi * hue)
    return colours


def _hues(labels: NDArray[np.int32], generator: np.random.Generator) -> NDArray[np.int64]:
    """A palette index (N,) per label, different between neighbours.

    Drawn at random; of two neighbours that agree, the one with fewer neighbours draws again, until none agree. (In maps
    with more neighbours than colours allow, some may stay equal.)
    """
    pairs = Partition(torch.from_numpy(labels)[None]).adjacency()[0].numpy()
    count = int(labels.max()) + 1
    degree = np.bincount(pairs.ravel(), minlength=count)
    hues = generator.integers(16, size=count)
    weaker = np.where(degree[pairs[:, 0]] < degree[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
    for _ in range(LARGEST_REPAINT):
        clash = np.unique(weaker[hues[pairs[:, 0]] == hues[pairs[:, 1]]])
        if not len(clash):
            break
        hues[clash] = generator.integers(16, size=len(clash))
    return hues
