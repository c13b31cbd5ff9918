"""Hierarchy: the tree of an image's regions, a value from which every cut is taken."""

import os
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pixtree.files import replacing
from pixtree.kernels.reference.merging import pixel_edges
from pixtree.kernels.types import Cost, Energy, MergeRule
from pixtree.runtime.backend import backend as choose_backend

if TYPE_CHECKING:
    from pixtree.trees.criteria import Criterion
    from pixtree.trees.cuts import Budget
    from pixtree.trees.partition import Partition

FORMAT_VERSION = 1
_STORED = ("features", "parent", "left", "right", "level", "altitude", "gain", "pick")


class Contours(NamedTuple):
    """For every pixel edge the count of regions from which on it is a boundary in nested cuts: an ultrametric contour map.

    `right[y, x]` lies between (y, x) and (y, x + 1), `down[y, x]` between (y, x) and (y + 1, x). `right <= n` draws the cut with n
    regions. Edges at a mask's border count 0; those outside it are larger than any count.
    """

    right: Tensor  # (H, W−1) int32
    down: Tensor  # (H−1, W) int32


@dataclass(frozen=True, eq=False, kw_only=True)
class Hierarchy:
    """A binary tree over the M pixels of an image (those inside its mask): leaves first in raster order, root last.

    Every node is 4-connected, but for the last `pieces − 1`, which join the pieces of a mask that do not touch. The maximal nodes
    of level ≤ t are the paper's partition π_t.
    """

    shape: tuple[int, int]
    features: Tensor  # (C, M) float32: what the tree was built from
    parent: Tensor  # (2M−1,) int32, −1 at the root; parent[i] > i
    left: Tensor  # (M−1,) int32: children of inner node M + k
    right: Tensor  # (M−1,) int32
    level: Tensor  # (2M−1,) int16: the round that made the node, 0 for pixels
    altitude: Tensor  # (2M−1,) float32: merge cost in the unit of the similarity, 0 for pixels
    gain: Tensor  # (M−1,) float32: energy that closing the node adds
    pick: Tensor  # (M−1,) int32: the region that the absorbed child had picked, u_max of u = right; empty unless asked for
    rule: MergeRule
    mask: Tensor | None = None  # (H, W) bool
    backend: str = "auto"

    @property
    def leaves(self) -> int:
        """M, the number of pixels in the tree."""
        return int(self.features.shape[1])

    @property
    def kernels(self) -> ModuleType:
        """The backend's functions for this tree's device."""
        return choose_backend(self.backend, self.parent.device)

    @cached_property
    def pieces(self) -> int:
        """Number of 4-connected pieces of the mask, 1 without one: the fewest regions a cut can have."""
        return 1 if self.mask is None else 1 + int(torch.isinf(self.altitude[self.leaves :]).sum())

    @cached_property
    def levels(self) -> int:
        """T, the number of rounds; `at_level(T)` has `pieces` regions."""
        connected = self.level[: 2 * self.leaves - self.pieces]
        return int(connected[-1]) if self.leaves > self.pieces else 0

    @cached_property
    def size(self) -> Tensor:
        """Pixels per node, (2M−1,) int32."""
        return self.kernels.sizes(self.left, self.right)  # type: ignore[no-any-return]

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        return self.kernels.moments(self.features, self.left, self.right)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        """Mean features per node, (2M−1, C) float32. [`eq:aggr`]"""
        return self._moments[0]

    @property
    def deviation(self) -> Tensor:
        """Sum of squared deviations from the mean per node and channel, (2M−1, C) float32."""
        return self._moments[1]

    @property
    def variance(self) -> Tensor:
        """Variance (maximum likelihood) per node and channel, (2M−1, C) float32."""
        return self.deviation / self.size[:, None].to(torch.float32)

    @cached_property
    def box(self) -> Tensor:
        """Bounding boxes (2M−1, 4) int32: top, left, bottom, right, the last two exclusive."""
        rows, columns = torch.nonzero(self.inside, as_tuple=True)
        return self.kernels.boxes(rows, columns, self.left, self.right)  # type: ignore[no-any-return]

    @property
    def inside(self) -> Tensor:
        """The mask (H, W) bool, all true without one."""
        return torch.ones(self.shape, dtype=torch.bool, device=self.parent.device) if self.mask is None else self.mask

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor]:
        """The pixel graph's edges as pairs of leaves, (|E|,) int64 each."""
        edges = pixel_edges(self.inside)
        return edges.first, edges.second

    @cached_property
    def _edge_joins(self) -> Tensor:
        return self.kernels.joins(self.parent, *self.edges)  # type: ignore[no-any-return]

    @cached_property
    def volume(self) -> Tensor:
        """Vol(S), the exact number of pixel edges inside each node, (2M−1,) int32. [`apx:atoms`]"""
        return self.kernels.volumes(self.parent, self.left, self.right, self.inside)  # type: ignore[no-any-return]

    @cached_property
    def scale(self) -> Tensor:
        """λ of every inner node, (M−1,) float64: the price per region above which the optimal cut closes it; monotone."""
        return self.kernels.persistence(self.gain, self.left, self.right)  # type: ignore[no-any-return]

    @cached_property
    def rank(self) -> Tensor:
        """Order in which nested cuts open the inner nodes, (M−1,) int64: by decreasing (scale, id), so parents come first."""
        order = torch.argsort(self.scale.flip(0), descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[self.leaves - 2 - order] = torch.arange(order.numel(), device=order.device)
        return rank

    def cut(
        self,
        tokens: int | None = None,
        *,
        criterion: "str | Criterion | None" = None,
        at_most: int | None = None,
        budget: "Budget | None" = None,
        relax: bool = False,
    ) -> "Partition":
        """The partition that one of `tokens`, `criterion`, `at_most` or `budget` asks for; see `pixtree.trees.cuts`."""
        from pixtree.trees.cuts import budget_of, cut

        return cut(self, budget_of(tokens=tokens, criterion=criterion, at_most=at_most, budget=budget), relax=relax)

    def at_level(self, level: int) -> "Partition":
        """The paper's partition π_t."""
        from pixtree.trees.cuts import Level, cut

        return cut(self, Level(level))

    def contours(self) -> Contours:
        """Where boundaries are, and from how many regions on."""
        height, width = self.shape
        never = torch.iinfo(torch.int32).max
        count = (self.rank[self._edge_joins - self.leaves] + 2).to(torch.int32)
        first, second = self.edges
        pixel = torch.nonzero(self.inside.flatten()).flatten()
        is_right = (pixel[second] - pixel[first] == 1) & (pixel[first] % width != width - 1)
        right = torch.full((height, width), never, dtype=torch.int32, device=first.device)
        down = right.clone()
        right.view(-1)[pixel[first[is_right]]] = count[is_right]
        down.view(-1)[pixel[first[~is_right]]] = count[~is_right]
        right, down = right[:, :-1], down[:-1]
        right = right.masked_fill(self.inside[:, 1:] != self.inside[:, :-1], 0)
        return Contours(right, down.masked_fill(self.inside[1:] != self.inside[:-1], 0))

    def to_higra(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Parents and altitudes as Higra has them: the root is its own parent; altitudes are M − 1 − rank.

        `higra.Tree(parents)` takes the first; a horizontal cut of the two is a nested cut of this tree.
        """
        parents = self.parent.to(torch.int64).cpu().numpy().copy()
        parents[-1] = parents.size - 1
        altitudes = np.zeros(parents.size)
        altitudes[self.leaves :] = self.leaves - 1 - self.rank.cpu().numpy()
        return parents, altitudes

    def to_linkage(self) -> NDArray[np.float64]:
        """The linkage matrix (M−1, 4) of SciPy: children, height (monotone, from the rank) and size of every inner node."""
        position = self.leaves - 2 - self.rank  # SciPy's rows come in the order of their height
        number = torch.cat((torch.arange(self.leaves, device=position.device), self.leaves + position))
        rows = torch.empty((self.leaves - 1, 4), dtype=torch.float64)
        columns = (number[self.left.to(torch.int64)], number[self.right.to(torch.int64)], position + 1, self.size[self.leaves :])
        rows[position.cpu()] = torch.stack([column.to(torch.float64) for column in columns], dim=1).cpu()
        return rows.numpy()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tree as npz (format version 1, no pickle); the file appears whole or not at all."""
        target = Path(path)
        if target.suffix.lower() != ".npz":
            raise ValueError(f"a tree is saved as .npz, got {target.name!r}; name it {target.stem}.npz")
        arrays = {name: getattr(self, name).cpu().numpy() for name in _STORED}
        if self.mask is not None:
            arrays["mask"] = self.mask.cpu().numpy()
        rule = np.array(self.rule, dtype=np.float64)
        with replacing(target) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, version=FORMAT_VERSION, shape=np.array(self.shape), rule=rule, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str], backend: str = "auto") -> "Hierarchy":
        """Read a tree that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                data = {name: stored[name] for name in stored.files}
        except FileNotFoundError:
            raise FileNotFoundError(f"expected a tree saved as .npz, found no file {str(path)!r}; check the path") from None
        except (ValueError, TypeError, AttributeError, EOFError, OSError, BadZipFile, zlib.error) as error:
            raise ValueError(f"expected a tree saved as .npz, got {str(path)!r} ({error}); save it again with tree.save") from None
        if int(data.get("version", -1)) != FORMAT_VERSION:
            raise ValueError(
                f"expected a tree of format version {FORMAT_VERSION}, got {data.get('version', 'none')} in {str(path)!r}; "
                "save it again with this pixtree"
            )
        missing = [name for name in ("shape", "rule", *_STORED) if name not in data]
        if missing:
            raise ValueError(f"expected a whole tree, got {str(path)!r} without {', '.join(missing)}; save it again with tree.save")
        cost, energy, floor, quarters, rounds = data["rule"].tolist()
        return cls(
            shape=(int(data["shape"][0]), int(data["shape"][1])),
            mask=torch.from_numpy(data["mask"]) if "mask" in data else None,
            rule=MergeRule(Cost(int(cost)), Energy(int(energy)), floor, int(quarters), int(rounds)),
            backend=backend,
            **{name: torch.from_numpy(data[name]) for name in _STORED},
        )
