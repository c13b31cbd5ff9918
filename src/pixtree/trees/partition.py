"""Partition: which region each pixel belongs to; and the protocol of everything that returns one."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.kernels import kernels_for
from pixtree.runtime import transfer
from pixtree.runtime.backend import is_host

if TYPE_CHECKING:
    from pixtree.trees.structure import TreeStructure


@dataclass(frozen=True, eq=False)
class Partition:
    """Regions of the images of a batch, in canonical form: equal partitions are equal arrays.

    labels: (B, H, W) int32, from 0 per image in the raster order of each region's first pixel; every region is 4-connected; −1 only
    outside a mask.
    tree: the tree of the image, along which `split` splits; partitions that were cut from a tree have it.

    Partitions never change: `merge` and `split` give new ones, so undoing a step means keeping the old one.

    >>> import pixtree
    >>> part = pixtree.Partition.from_labels([[5, 5, 3], [5, 3, 3]])
    >>> part.numpy().tolist(), part.counts.tolist()
    ([[0, 0, 1], [0, 1, 1]], [2])
    """

    labels: Tensor
    tree: "TreeStructure | None" = field(default=None, repr=False)

    @classmethod
    def from_labels(cls, labels: Tensor | NDArray[np.integer], backend: str = "auto") -> "Partition":
        """The partition into 4-connected pieces of any integer label maps (H, W) or (B, H, W); negative labels are outside.

        >>> import pixtree
        >>> pixtree.Partition.from_labels([[7, 7, -1, 7]]).numpy().tolist()
        [[0, 0, -1, 1]]
        """
        maps = labels if isinstance(labels, Tensor) else torch.as_tensor(np.asarray(labels))
        if maps.ndim not in (2, 3) or maps.is_floating_point() or 0 in maps.shape:
            raise ValueError(
                f"labels must be integers (H, W) or (B, H, W), got {maps.dtype} of shape {tuple(maps.shape)}; cast or reshape them"
            )

        def pieces(maps: Tensor) -> list[Tensor]:
            kernels = kernels_for(backend, maps.device)
            return [torch.stack([kernels.connected_pieces(one) for one in maps.reshape(-1, *maps.shape[-2:])])]

        return cls(transfer.on_host(pieces, (maps,), backend)[0])

    @classmethod
    def known(cls, labels: Tensor, rows: tuple[int, bool]) -> "Partition":
        """A partition whose `rows` are known already."""
        partition = cls(labels)
        vars(partition)["rows"] = rows  # where cached_property keeps it
        return partition

    @cached_property
    def counts(self) -> Tensor:
        """Number of regions per image, (B,) int32."""
        return self.labels.flatten(1).max(dim=1).values + 1

    @cached_property
    def rows(self) -> tuple[int, bool]:
        """The largest count of an image, and whether all images have it: the rows of a batch, and whether they are full.

        The host must know both. `to` carries them along, so that the device is not asked again.
        """
        counts = self.counts
        most = int(counts.max())
        return most, bool((counts == most).all())

    def to(self, device: torch.device | str) -> "Partition":
        """The same partition on a device, by one copy that the host does not wait for; or on the CPU.

        >>> import pixtree
        >>> pixtree.Partition.from_labels([[0, 1]]).to("cpu").rows
        (2, True)
        """
        here, there = is_host(self.labels.device), is_host(torch.device(device))
        if here == there:
            labels = self.labels.to(device)
        else:
            labels = (transfer.to_device([self.labels], torch.device(device)) if here else transfer.to_host([self.labels]))[0]
        rows = self.rows if here else vars(self).get("rows")
        return Partition(labels) if rows is None else Partition.known(labels, rows)

    def pin_memory(self) -> "Partition":
        """The same in pinned memory; a DataLoader with pin_memory=True calls this."""
        return Partition.known(self.labels.pin_memory(), self.rows)

    def __len__(self) -> int:
        return int(self.labels.shape[0])

    def __repr__(self) -> str:
        batch, height, width = self.labels.shape
        fewest, most = (int(end) for end in self.counts.aminmax())
        regions = f"{most} region{'' if most == 1 else 's'}" if fewest == most else f"{fewest} to {most} regions"
        return f"Partition({f'{batch} images of ' if batch != 1 else ''}{height}×{width} pixels, {regions})"

    def _repr_png_(self) -> bytes:
        from pixtree.files import png
        from pixtree.trees.previews import partition_picture

        return png(partition_picture(self))

    def __getitem__(self, index: int) -> "Partition":
        return Partition(self.labels[operator.index(index)][None], self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Partition) and torch.equal(self.labels, other.labels)

    __hash__ = None  # type: ignore[assignment]

    def merge(self, labels: Iterable[int]) -> "Partition":
        """The partition of one image in which the regions of those labels, which must touch each other, become one region.

        Regions are numbered anew, by first pixel. O(H·W).

        >>> import pixtree
        >>> part = pixtree.Partition.from_labels([[0, 0, 1, 2], [0, 3, 1, 2]])
        >>> part.merge([0, 3]).numpy().tolist()
        [[0, 0, 1, 2], [0, 0, 1, 2]]
        """
        from pixtree.trees.editing import merged_regions

        return merged_regions(self, labels)

    def split(self, label: int, tokens: int = 2) -> "Partition":
        """The partition of one image in which the region of that label is split into `tokens` regions.

        A region that is a node of the tree splits as the nested cuts do; any other, such as a merged one, by the tree of its own
        pixels. Regions are numbered anew, by first pixel.

        >>> import numpy as np, pixtree
        >>> part = pixtree.hierarchy(np.random.default_rng(0).random((20, 20))).cut(tokens=5)
        >>> part.split(2, tokens=3).counts.tolist()
        [7]
        """
        from pixtree.trees.editing import split_region

        return split_region(self, label, tokens)

    def areas(self, image: int = 0) -> Tensor:
        """Pixels per region of one image, (N,) int64.

        >>> import pixtree
        >>> pixtree.Partition.from_labels([[0, 0, 1], [0, 1, 1]]).areas().tolist()
        [3, 3]
        """
        labels = self.labels[image].flatten()
        return torch.bincount(labels[labels >= 0])

    def boxes(self, image: int = 0) -> Tensor:
        """Bounding boxes (N, 4) int32 of one image: top, left, bottom, right, the last two exclusive.

        >>> import pixtree
        >>> pixtree.Partition.from_labels([[0, 0, 1], [0, 1, 1]]).boxes().tolist()
        [[0, 0, 2, 2], [0, 1, 2, 3]]
        """
        labels = self.labels[image]
        rows, columns = torch.nonzero(labels >= 0, as_tuple=True)
        index = labels[rows, columns].to(torch.int64)
        corners = torch.stack((rows, columns, -rows - 1, -columns - 1), dim=1).to(torch.int32)
        far = torch.iinfo(torch.int32).max
        box = corners.new_full((int(self.counts[image]), 4), far)
        box = box.scatter_reduce(0, index[:, None].expand_as(corners), corners, "amin")
        return torch.cat((box[:, :2], -box[:, 2:]), dim=1)

    def adjacency(self, image: int = 0) -> tuple[Tensor, Tensor]:
        """Which regions touch: pairs (E, 2) int64 with first < second, sorted, and the pixel edges each pair shares, (E,) int64.

        >>> import pixtree
        >>> pairs, edges = pixtree.Partition.from_labels([[0, 0, 1], [0, 1, 1]]).adjacency()
        >>> pairs.tolist(), edges.tolist()
        ([[0, 1]], [3])
        """
        labels = self.labels[image]
        sides = ((labels[:, :-1], labels[:, 1:]), (labels[:-1], labels[1:]))
        borders = [(a != b) & (a >= 0) & (b >= 0) for a, b in sides]  # few pixel edges: all else is done for these alone
        first = torch.cat([side[0][border] for side, border in zip(sides, borders, strict=True)]).to(torch.int64)
        second = torch.cat([side[1][border] for side, border in zip(sides, borders, strict=True)]).to(torch.int64)
        count = int(self.counts[image])
        pair = torch.minimum(first, second) * count + torch.maximum(first, second)
        unique, shared = torch.unique_consecutive(pair.sort().values, return_counts=True)
        return torch.stack((unique // count, unique % count), dim=1), shared

    def numpy(self) -> NDArray[np.int32]:
        """Labels as an array: (H, W) for one image, (B, H, W) for more."""
        array: NDArray[np.int32] = self.labels.cpu().numpy()
        return array[0] if len(self) == 1 else array

    def to_skimage(self) -> NDArray[np.int32]:
        """Labels as scikit-image counts them: regions from 1, 0 outside the mask."""
        return self.numpy() + 1


class Partitioner(Protocol):
    """Any function from images (B, C, H, W), uint8 or float 0..1, to their partition: deterministic, each image on its own.

    >>> import torch, pixtree
    >>> def bright_and_dark(images: torch.Tensor) -> pixtree.Partition:
    ...     return pixtree.Partition.from_labels((images.mean(1) > 0.5).int())
    >>> engine: pixtree.Partitioner = bright_and_dark
    >>> engine(torch.eye(4)[None, None]).counts.tolist()
    [6]
    """

    def __call__(self, images: Tensor) -> Partition:
        """Partition every image of the batch."""
