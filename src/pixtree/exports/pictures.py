"""Pictures of partitions and trees: overlays as uint8 arrays (H, W, 3), and the file they go to."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.exports.labels import LabelsLike, label_map, numbered
from pixtree.files import replacing
from pixtree.kernels import kernels_for
from pixtree.kernels.image.cracks import boundary_pixels
from pixtree.trees.previews import WHITE, Colour, Picture, coloured_regions, contour_map, painted

if TYPE_CHECKING:
    from pixtree.images import Image

__all__ = ["Picture", "boundaries", "contour_map", "displayed", "mean_colours", "random_colours", "region_colours", "save_png"]

YELLOW: Colour = (255, 222, 40)


def displayed(image: "Image", shape: tuple[int, ...] | None = None, **reading: Any) -> Picture:
    """An image as (H, W, 3) uint8: grey of one or two channels is repeated, of more than three the first three count.

    With `shape` (H, W) the image must have that size, the one of the labels it is drawn with. reading: window= and page= of images.
    """
    from pixtree.images import checked_inside

    pixels, _ = checked_inside(image, None, channel_axis=-1, **reading)  # of a masked array too
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
    return painted(values, (means + 0.5).astype(np.uint8), outside)


def save_png(path: str | Path, picture: Picture) -> None:
    """Write a picture (H, W, 3) or (H, W) uint8 as PNG."""
    from PIL import Image

    checked_png(path)
    with replacing(path) as temporary:
        Image.fromarray(picture).save(temporary)


def random_colours(labels: LabelsLike, *, seed: int = 0, outside: Colour = WHITE) -> Picture:
    """Every region in one of sixteen soft hues with a little of its own lightness; neighbours have different hues."""
    return coloured_regions(numbered(labels)[1], seed=seed, outside=outside)


def checked_png(path: str | Path) -> Path:
    """A path that ends in .png."""
    if Path(path).suffix.lower() != ".png":
        raise ValueError(f"a picture is written as .png, got {str(path)!r}; change its suffix")
    return Path(path)
