"""Superpixels and trees of any image: the front door of the library."""

import operator
from collections.abc import Iterable
from dataclasses import fields
from typing import Never, NoReturn

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pixtree.images import ChannelAxis, Image, Window, checked_inside
from pixtree.kernels.proof import cutting
from pixtree.runtime import transfer
from pixtree.runtime.backend import trees_on_host
from pixtree.trees.build import hierarchy_of_image, partition_images
from pixtree.trees.criteria import Criterion
from pixtree.trees.cuts import MASKED, ONE_BY_ONE, POLISHED, Budget, Exactly, Relax, budget_of, checked_relax, choice_of
from pixtree.trees.hierarchy import Hierarchy
from pixtree.trees.options import Similarity, TreeOptions, named
from pixtree.trees.partition import Partition

_DEFAULTS = TreeOptions()
_CONNECTED = "leave it out: every region is connected, and there are exactly as many as you ask for"
# Options of scikit-image and other libraries, and the one of ours that does the same.
FOREIGN_OPTIONS = {
    "n_segments": "scikit-image's n_segments is tokens= here",
    "num_segments": "the number of regions is tokens= here",
    "scale": "the number of regions is tokens=, or chosen by criterion=",
    "markers": "the number of regions is tokens= here, and no seeds are needed",
    "sigma": "no blur is applied; floor= is the variance that counts as flat, or blur the image first",
    "ratio": "compactness= is the weight of pixel coordinates, about 0.1",
    "kernel_size": "the number of regions is tokens=, or chosen by criterion=",
    "max_dist": "the number of regions is tokens=, or chosen by criterion=",
    "spacing": "leave it out: pixels are square",
    "convert2lab": "leave it out: colours are always compared in Lab",
    "enforce_connectivity": _CONNECTED,
    "min_size_factor": _CONNECTED,
    "max_size_factor": _CONNECTED,
    "min_size": _CONNECTED,
    "slic_zero": "compactness= is the weight of pixel coordinates, about 0.1",
    "max_num_iter": "leave it out: nothing is iterated",
    "max_iter": "leave it out: nothing is iterated",
    "connectivity": "leave it out: regions are 4-connected",
    "multichannel": "scikit-image's multichannel is channel_axis= here, and the last axis need not be named",
    "rng": "leave it out: nothing is random",
}
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
    mask: (H, W); pixels outside it belong to no region. A masked array (np.ma) has its own mask.
    channel_axis: the axis of an array's channels; by default the last, if it has at most 4.
    window: for data that is neither bytes nor floats in 0..1, such as 12-bit, CT or satellite images: the values that are black and
        white, (low, high), or "auto" for robust percentiles.
    page: the page of a file that has several, from 0.

    The tree of a tensor on another device is built on the host and stays there; backend="torch" builds it on the device.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> tree = pixtree.hierarchy(image)
    >>> [int(tree.cut(tokens=count).counts[0]) for count in (1, 2, 50)]
    [1, 2, 50]
    """
    if words:
        _refuse("hierarchy", words)
    near, mask = _on_host(image, mask, backend)
    pixels, inside = checked_inside(near, mask, channel_axis=channel_axis, window=window, page=page)
    if pixels.ndim != 3:
        raise ValueError(f"a tree belongs to one image (C, H, W), got shape {tuple(pixels.shape)}; loop over the batch")
    return hierarchy_of_image(pixels, TreeOptions(similarity, compactness, energy, floor), mask=inside, backend=backend)


def segment(
    image: Image,
    tokens: int | None = None,
    *,
    criterion: str | Criterion | None = None,
    at_most: int | None = None,
    level: int | None = None,
    budget: Budget | None = None,
    partitioner: str | None = None,
    relax: Relax = False,
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

    Give exactly one of the first five options. Tensors (C, H, W) or (B, C, H, W) return tensors on their device, all other images
    return arrays. Options that are not listed here are those of `hierarchy`.

    tokens: exactly this many regions.
    criterion: "aic", "aicc", "bic" or "cic", which chooses the number of regions.
    at_most: the criterion's cut, with at most this many regions.
    level: the paper's partition π_t after t rounds of merging.
    budget: any of these as a value, such as `Exactly(200)`.
    relax: polish the boundaries; cuts with different counts are then no longer nested. "detail" also exchanges small blocks between
        regions first: the boundaries follow more of the contours and the regions fit the colours better, but boundaries get longer.
    mask: (H, W); pixels outside it belong to no region and get the label start_label − 1.
    partitioner: another method, such as "slic" or "grid", which takes only `tokens`.

    >>> import numpy as np, pixtree
    >>> image = np.zeros((40, 60, 3), np.uint8)
    >>> image[10:30, 20:40] = (200, 30, 30)
    >>> labels = pixtree.segment(image, tokens=2)
    >>> labels.shape, int((labels == labels[20, 30]).sum())
    ((40, 60), 400)
    """
    if words:
        _refuse("segment", words)
    wanted, relax = budget_of(tokens=tokens, criterion=criterion, at_most=at_most, level=level, budget=budget), checked_relax(relax)
    if isinstance(image, Tensor) and partitioner is None:
        backend = cutting(backend, image.device, _unable(wanted, mask, relax))
    near, mask = _on_host(image, mask, backend)
    pixels, inside = checked_inside(near, mask, channel_axis=channel_axis, window=window, page=page)
    first = _checked_start(start_label, pixels.shape[-2] * pixels.shape[-1])
    batch = pixels if pixels.ndim == 4 else pixels[None]
    options = TreeOptions(named(similarity), compactness, energy, floor)
    if partitioner is not None:
        changed = [name for name, value in (("mask", inside), ("relax", relax or None)) if value is not None]
        part = _other_engine(partitioner, batch, wanted, options, [*changed, *(["backend"] if backend != "auto" else [])])
    else:
        part = partition_images(batch, wanted, options, mask=inside, relax=relax, backend=backend)
    labels = part.labels if first == 0 else part.labels + first
    labels = labels if pixels.ndim == 4 else labels[0]
    if not isinstance(image, Tensor):
        return labels.numpy()
    return labels if near is image else transfer.to_device([labels], image.device)[0]


def _unable(budget: Budget, mask: Mask, relax: Relax) -> str | None:
    """Why a device does not make this cut, None if it does."""
    if mask is not None or relax:
        return MASKED if mask is not None else POLISHED
    return ONE_BY_ONE if choice_of(budget) is None else None


def _on_host(image: Image, mask: Mask, backend: str) -> tuple[Image, Mask]:
    """A tensor of another device, and its mask, copied once to the host, where trees are built. Everything else stays as it is."""
    if not isinstance(image, Tensor) or not trees_on_host(backend, image.device):
        return image, mask
    if not isinstance(mask, Tensor) or mask.device != image.device:
        return transfer.to_host([image])[0], mask
    near, inside = transfer.to_host([image, mask])
    return near, inside


def _checked_start(start_label: int, pixels: int) -> int:
    """The first label, checked so that all labels fit into int32, including the one outside a mask."""
    first, limit = operator.index(start_label), int(np.iinfo(np.int32).max)
    if not -limit <= first <= limit - pixels:
        raise ValueError(f"start_label must be from {-limit} to {limit - pixels} here, got {first}; labels are int32")
    return first


def _other_engine(name: str, batch: Tensor, budget: Budget, options: TreeOptions, changed: list[str]) -> Partition:
    """The partition of another method, which knows counts only: all other options are refused."""
    from pixtree.partitioners import partitioner

    unusual = [one.name for one in fields(options) if getattr(options, one.name) != getattr(_DEFAULTS, one.name)]
    if not isinstance(budget, Exactly) or unusual or changed:
        given = ", ".join([*unusual, *changed]) or type(budget).__name__
        raise ValueError(f"partitioner={name!r} takes tokens= only, got {given} as well; leave it out")
    return partitioner(name, budget.count)(batch)


def _refuse(function: str, words: Iterable[str]) -> NoReturn:
    """Raise the TypeError that Python raises for an unknown option, with a remedy where there is one."""
    name = next(iter(words))
    remedy = FOREIGN_OPTIONS.get(name, f"help(pixtree.{function}) lists its options")
    raise TypeError(f"{function} has no option {name}=; {remedy}")
