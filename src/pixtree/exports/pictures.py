"""Pictures of partitions and trees: overlays as uint8 arrays (H, W, 3), and the file they go to."""

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.exports.labels import LabelsLike, label_map, numbered
from pixtree.files import replacing
from pixtree.kernels import kernels_for
from pixtree.kernels.cracks import boundary_pixels
from pixtree.trees.partition import Partition

if TYPE_CHECKING:
    from torch import Tensor

    from pixtree.images import Image

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]

YELLOW: Colour = (255, 222, 40)
WHITE: Colour = (255, 255, 255)
LARGEST_REPAINT = 200  # rounds; a planar map needs about ten
FAINTEST_COUNT = 5_000  # boundaries that need more regions than this are left white


class ContoursLike(Protocol):
    """Counts of regions at which a pixel edge becomes a boundary: right (H, W - 1), down (H - 1, W)."""

    @property
    def right(self) -> "Tensor": ...  # noqa: D102

    @property
    def down(self) -> "Tensor": ...  # noqa: D102


def displayed(image: "Image", shape: tuple[int, ...] | None = None) -> Picture:
    """An image as (H, W, 3) uint8: grey of one or two channels is repeated, of more than three the first three count.

    With `shape` (H, W) the image must have that size, the one of the labels it is drawn with.
    """
    from pixtree.images import checked_inside

    pixels, _ = checked_inside(image, None, channel_axis=-1)  # of a masked array too
    if pixels.ndim != 3:
        raise ValueError(f"a picture is made of one image, got {pixels.shape[0]} images; pass images[i]")
    if shape is not None and tuple(pixels.shape[1:]) != tuple(shape):
        raise ValueError(f"image and labels must have one size, got {tuple(pixels.shape[1:])} and {tuple(shape)}; resize one")
    channels = pixels[:3] if pixels.shape[0] >= 3 else pixels[:1].expand(3, -1, -1)
    array = channels.permute(1, 2, 0).cpu().numpy()  # CHW -> HWC
    return array if array.dtype == np.uint8 else (array * 255 + 0.5).astype(np.uint8)


def region_colours(picture: Picture, labels: NDArray[np.int32]) -> NDArray[np.float64]:
    """Mean colours (N, 3) in 0..255 of the regions of a numbered map (H, W); pixels of label -1 count nowhere."""
    planes = torch.from_numpy(np.moveaxis(picture, -1, 0).astype(np.float64)).flatten(1)  # HWC -> CP
    count = int(labels.max(initial=-1)) + 1
    means = kernels_for().region_means(planes[None], torch.from_numpy(labels).flatten()[None], count)
    return np.asarray(means[0])


def boundaries(image: "Image", labels: LabelsLike, *, colour: Colour = YELLOW) -> Picture:
    """The image with the pixels painted whose right or lower neighbour is of another region."""
    values = label_map(labels)
    picture = displayed(image, values.shape).copy()
    picture[boundary_pixels(values)] = colour
    return picture


def mean_colours(image: "Image", labels: LabelsLike, *, outside: Colour = WHITE) -> Picture:
    """Every region in the mean colour of its pixels."""
    _, values = numbered(labels)
    means = region_colours(displayed(image, values.shape), values)
    return _painted(values, (means + 0.5).astype(np.uint8), outside)


def random_colours(labels: LabelsLike, *, seed: int = 0, outside: Colour = WHITE) -> Picture:
    """Every region in one of sixteen soft hues with a little of its own lightness; neighbours have different hues."""
    _, values = numbered(labels)
    generator = np.random.default_rng(seed)
    hues = _hues(values, generator)
    lightness = generator.uniform(0.9, 1.06, size=(len(hues), 1))
    colours = np.clip(_palette()[hues] * lightness, 0, 255).astype(np.uint8)
    return _painted(values, colours, outside)


def contour_map(contours: ContoursLike) -> Picture:
    """The ultrametric contour map: a boundary is the darker the fewer regions it needs to appear.

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


def save_png(path: str | Path, picture: Picture) -> None:
    """Write a picture (H, W, 3) or (H, W) uint8 as PNG."""
    from PIL import Image

    checked_png(path)
    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary)


def checked_png(path: str | Path) -> Path:
    """A path that ends in .png."""
    if Path(path).suffix.lower() != ".png":
        raise ValueError(f"a picture is written as .png, got {str(path)!r}; change its suffix")
    return Path(path)


def _painted(labels: NDArray[np.int32], colours: Picture, outside: Colour) -> Picture:
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
    count = int(labels.max(initial=-1)) + 1
    degree = np.bincount(pairs.ravel(), minlength=count)
    hues = generator.integers(16, size=count)
    weaker = np.where(degree[pairs[:, 0]] < degree[pairs[:, 1]], pairs[:, 0], pairs[:, 1])
    for _ in range(LARGEST_REPAINT):
        clash = np.unique(weaker[hues[pairs[:, 0]] == hues[pairs[:, 1]]])
        if not len(clash):
            break
        hues[clash] = generator.integers(16, size=len(clash))
    return hues
