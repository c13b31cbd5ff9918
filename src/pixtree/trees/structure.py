"""TreeStructure: the nodes of an image's tree and their attributes, from which every cut is taken."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from pixtree.kernels import Kernels, kernels_for
from pixtree.kernels.tree import MergeRule, Tree


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeStructure:
    """The fields of a `Hierarchy`, and attributes of its nodes that are computed when first read. M: pixels inside the mask."""

    shape: tuple[int, int]
    features: Tensor  # (C, M) float32: the tree was built from these
    parent: Tensor  # (2M−1,) int32, −1 at the root; parent[i] > i
    left: Tensor  # (M−1,) int32: children of inner node M + k
    right: Tensor  # (M−1,) int32
    level: Tensor  # (2M−1,) int16: the round that made the node, 0 for pixels
    altitude: Tensor  # (2M−1,) float32: merge cost in the unit of the similarity, 0 for pixels
    gain: Tensor  # (M−1,) float32: energy that closing the node adds
    pick: Tensor  # (M−1,) int32: the region that the absorbed child had picked, u_max of u = right; empty unless requested
    rule: MergeRule
    mask: Tensor | None = None  # (H, W) bool
    coordinates: tuple[int, int] = (0, 0)  # first and end of the feature planes that are pixel coordinates
    backend: str = "auto"

    @property
    def leaves(self) -> int:
        """M, the number of pixels in the tree."""
        return int(self.features.shape[1])

    @property
    def content(self) -> list[int]:
        """The feature planes that are data: all but pixel coordinates, which shape a tree but are not evidence."""
        first, end = self.coordinates
        return [plane for plane in range(int(self.features.shape[0])) if not first <= plane < end]

    @property
    def data(self) -> Tensor:
        """These planes, (C', M)."""
        return self.features if self.coordinates[0] == self.coordinates[1] else self.features[self.content]

    @property
    def tree(self) -> Tree:
        """The bare tree, as kernels take it."""
        return Tree(self.parent, self.left, self.right, self.level, self.altitude, self.gain, self.pick)

    @property
    def kernels(self) -> Kernels:
        """The backend's functions for this tree's device."""
        return kernels_for(self.backend, self.parent.device)

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
        return self.kernels.sizes(self.left, self.right)

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        return self.kernels.moments(self.features, self.left, self.right)

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
        return self.kernels.boxes(rows, columns, self.left, self.right)

    @property
    def inside(self) -> Tensor:
        """The mask (H, W) bool, all true without one."""
        return torch.ones(self.shape, dtype=torch.bool, device=self.parent.device) if self.mask is None else self.mask

    def over_pixels(self, values: Tensor, fill: float) -> Tensor:
        """Values (…, M) of the leaves over the image, (…, H, W), `fill` outside the mask."""
        if self.mask is None:
            return values.view(*values.shape[:-1], *self.shape)
        image = values.new_full((*values.shape[:-1], *self.shape), fill)
        image[..., self.mask] = values
        return image

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor]:
        """The pixel graph's edges as pairs of leaves, (|E|,) int64 each."""
        edges = self.kernels.pixel_edges(self.inside)
        return edges.first, edges.second

    @cached_property
    def joins(self) -> Tensor:
        """The node at which the two ends of each pixel edge first belong together, (|E|,) int64."""
        return self.kernels.joins(self.parent, *self.edges)

    @cached_property
    def volume(self) -> Tensor:
        """Vol(S), the exact number of pixel edges inside each node, (2M−1,) int32. [`apx:atoms`]"""
        return self.kernels.volumes(self.parent, self.left, self.right, self.inside)

    @cached_property
    def scale(self) -> Tensor:
        """λ of every inner node, (M−1,) float64: the price per region above which the optimal cut closes it; monotone."""
        return self.kernels.persistence(self.gain, self.left, self.right)

    @cached_property
    def rank(self) -> Tensor:
        """Order in which nested cuts open the inner nodes, (M−1,) int64: by decreasing (scale, id), so parents come first."""
        order = torch.argsort(self.scale.flip(0), descending=True, stable=True)
        rank = torch.empty_like(order)
        rank[self.leaves - 2 - order] = torch.arange(order.numel(), device=order.device)
        return rank

    def region_nodes(self, opened: Tensor) -> Tensor:
        """The node that is each leaf's region under a cut that splits the `opened` inner nodes (M−1,), (M,) int64."""
        labels = self.kernels.cut_labels(self.parent, opened).to(torch.int64)
        node = torch.arange(2 * self.leaves - 1, device=opened.device)
        is_closed = torch.cat((torch.ones(self.leaves, dtype=torch.bool, device=opened.device), ~opened))
        above = self.parent.to(torch.int64)
        chosen = node[is_closed & ((above < 0) | ~is_closed[above.clamp_min(0)])]
        # The chosen nodes are disjoint and cover all leaves; any leaf of a node has its label.
        leaf = chosen.clone()
        while bool((leaf >= self.leaves).any()):
            leaf = torch.where(leaf >= self.leaves, self.left[(leaf - self.leaves).clamp_min(0)].to(torch.int64), leaf)
        node_of_label = torch.empty(chosen.numel(), dtype=torch.int64, device=opened.device)
        node_of_label[labels[leaf]] = chosen
        return node_of_label[labels]
