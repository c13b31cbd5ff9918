"""Superpixels and trees of any image: the front door of the library."""

import operator
from dataclasses import fields
from typing import Never

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import ChannelAxis, Image, Window, checked_inside
from pixtree.runtime import transfer
from pixtree.runtime.backend import trees_on_host
from pixtree.tasks.foreign_words import refuse
from pixtree.trees.build import hierarchy_of_image, partition_images
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import Budget, Exactly, budget_of
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import Similarity, TreeOptions, named
from pixtree.trees.partition import Partition

_DEFAULTS = TreeOptions()
Mask = NDArray[np.generic] | Tensor | None


def hierarchy(
    image: Image,
    *,
    similarity: Similarity | str = _DEFAULTS.similarity,
    compactness: float = _DEFAULTS.compactness,
    energy: str = _DEFAULTS.energy,
    floor: float = _DEFAULTS.floor,
    mask: NDArray[np.generic] | Tensor | None = None,
    channel_axis: ChannelAxis = "auto",
    window: Window | None = None,
    page: int | None = None,
    backend: str = "auto",
    **words: Never,
) -> Hierarchy:
    """The tree of regions of one image; see `Hierarchy` for its cuts, contours and files.

    similarity: "likelihood" (default), "ward", or the paper's "gaussian", "cosine", "tanimoto".
    compactness: weight of pixel coordinates; 0.1 makes one pixel count as much as one Lab unit.
    energy: the quantity that nested cuts minimise, "likelihood" (default) or "squared_error".
    floor: the variance below which a region counts as flat, in squared Lab units.
    mask: (H, W); pixels outside it belong to no region. A masked array (np.ma) brings its own.
    channel_axis: the axis of an array's channels; by default the last, if it has at most 4.
    window: for data that is neither bytes nor floats in 0..1, such as 12-bit, CT or satellite images: the values that are black and
        white, (low, high), or "auto" for robust percentiles.
    page: the page of a file that has several, from 0.

    The tree of a tensor on another device is made on the host and stays there; backend="torch" makes it on the device.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> tree = pixtree.hierarchy(image)
    >>> [int(tree.cut(tokens=count).counts[0]) for count in (1, 2, 50)]
    [1, 2, 50]
    """
    if words:
        refuse("hierarchy", words)
    near, mask = _on_host(image, mask, backend)
    picture, inside = checked_inside(near, mask, channel_axis=channel_axis, window=window, page=page)
    if picture.ndim != 3:
        raise ValueError(f"a tree belongs to one image (C, H, W), got shape {tuple(picture.shape)}; loop over the batch")
    return hierarchy_of_image(picture, TreeOptions(similarity, compactness, energy, floor), mask=inside, backend=backend)


def segment(
    image: Image,
    tokens: int | None = None,
    *,
    criterion: str | Criterion | None = None,
    at_most: int | None = None,
    level: int | None = None,
    budget: Budget | None = None,
    partitioner: str | None = None,
    relax: bool = False,
    mask: NDArray[np.generic] | Tensor | None = None,
    start_label: int = 0,
    channel_axis: ChannelAxis = "auto",
    window: Window | None = None,
    page: int | None = None,
    similarity: Similarity | str = _DEFAULTS.similarity,
    compactness: float = _DEFAULTS.compactness,
    energy: str = _DEFAULTS.energy,
    floor: float = _DEFAULTS.floor,
    backend: str = "auto",
    **words: Never,
) -> NDArray[np.int32] | Tensor:
    """Labels (H, W) int32 of the regions of an image: `segment(photo, tokens=200)` has exactly 200, each 4-connected.

    Give exactly one of the first five options. Tensors (C, H, W) or (B, C, H, W) give tensors on their device, and all other images
    give arrays. The options that are not listed here are those of `hierarchy`.

    tokens: exactly this many regions.
    criterion: "aic", "aicc", "bic" or "cic", which chooses the number of regions.
    at_most: the criterion's cut, with at most this many regions.
    level: the paper's partition π_t after so many rounds of merging.
    budget: any of these as a value, such as `Exactly(200)`.
    relax: polish the boundaries; cuts with different counts are then no longer nested.
    mask: (H, W); pixels outside it belong to no region and get the label start_label − 1.
    partitioner: another method, such as "slic" or "grid", which takes no other option than `tokens`.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> labels = pixtree.segment(image, tokens=2)
    >>> labels.shape, int((labels == labels[20, 30]).sum())
    ((40, 60), 400)
    """
    if words:
        refuse("segment", words)
    wanted = budget_of(tokens=tokens, criterion=criterion, at_most=at_most, level=level, budget=budget)
    near, mask = _on_host(image, mask, backend)
    pictures, inside = checked_inside(near, mask, channel_axis=channel_axis, window=window, page=page)
    first = _checked_start(start_label, pictures.shape[-2] * pictures.shape[-1])
    batch = pictures if pictures.ndim == 4 else pictures[None]
    options = TreeOptions(named(similarity), compactness, energy, floor)
    if partitioner is not None:
        changed = [name for name, value in (("mask", inside), ("relax", relax or None)) if value is not None]
        part = _other_engine(partitioner, batch, wanted, options, [*changed, *(["backend"] if backend != "auto" else [])])
    else:
        part = partition_images(batch, wanted, options, mask=inside, relax=relax, backend=backend)
    labels = part.labels + first
    labels = labels if pictures.ndim == 4 else labels[0]
    if not isinstance(image, Tensor):
        return labels.numpy()
    return labels if near is image else transfer.to_device([labels], image.device)[0]


def _on_host(image: Image, mask: Mask, backend: str) -> tuple[Image, Mask]:
    """A tensor of a device, and a mask there, where its tree is made: on the host, by one copy. All else stays as it is."""
    if not isinstance(image, Tensor) or not trees_on_host(backend, image.device):
        return image, mask
    if not isinstance(mask, Tensor) or mask.device != image.device:
        return transfer.to_host([image])[0], mask
    near, inside = transfer.to_host([image, mask])
    return near, inside


def _checked_start(start_label: int, pixels: int) -> int:
    """The first label, such that that of every pixel would fit into int32, and so would the one outside a mask."""
    first, limit = operator.index(start_label), int(np.iinfo(np.int32).max)
    if not -limit <= first <= limit - pixels:
        raise ValueError(f"start_label must be from {-limit} to {limit - pixels} here, got {first}; labels are int32")
    return first


def _other_engine(name: str, batch: Tensor, budget: Budget, options: TreeOptions, changed: list[str]) -> Partition:
    """The partition of another engine, which knows counts only: whatever else was asked of the tree is refused."""
    from pixtree.partitioners import partitioner

    unusual = [one.name for one in fields(options) if getattr(options, one.name) != getattr(_DEFAULTS, one.name)]
    if not isinstance(budget, Exactly) or unusual or changed:
        given = ", ".join([*unusual, *changed]) or type(budget).__name__
        raise ValueError(f"partitioner={name!r} takes tokens= only, got {given} as well; leave it out")
    return partitioner(name, budget.count)(batch)
