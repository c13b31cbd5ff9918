"""The tree, round by round: every region picks its most similar neighbour, components of the picks become the next level.

Inside a component the members join one after another, in the order of the edges they picked. A member's pick never comes after the
member in that order (its own best edge is at least as good), so the growing cluster stays connected, and k members give k − 1
binary nodes. [`alg:merge`, `eq:aggr`]

Kernels compare the means of regions, or, in a weighted rule, only the vectors f_{t+1}(u) = Σ_v |v|/|u| κ(v, v_max) f_t(v).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.arithmetic.definition import exponential, log_at_least_one, order_key, square_root, summed_product
from pixtree.kernels.image.pieces.definition import number_by_first, settle
from pixtree.kernels.tree import Cost, Edges, Energy, MergeRule, Place, Tree
from pixtree.kernels.tree.zones import Zones
from pixtree.kernels.tree.zones.definition import flat_zones, pixel_names

FIRST, NONE = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max


class Regions(NamedTuple):
    """The regions of one level, R of them."""

    node: Tensor  # (R,) int64: their tree nodes
    size: Tensor  # (R,) float32
    mean: Tensor  # (R, C) float32
    deviation: Tensor  # (R, C) float32: sums of squared deviations from the mean
    energy: Tensor  # (R,) float32: n Σ_c log(1 + deviation_c / (n φ))
    weighted: Tensor  # (R, C) float32: f_t of `alg:merge`; (R, 0) unless the rule is weighted

    @property
    def compared(self) -> Tensor:
        """What kernels compare, (R, C)."""
        return self.weighted if self.weighted.shape[1] else self.mean

    def take(self, index: Tensor) -> "Regions":
        """The regions at `index`."""
        return Regions(*(field[index] for field in self))


def pixel_edges(inside: Tensor) -> Edges:
    """The 4-connected graph of the pixels inside a mask (H, W); vertices are numbered in raster order."""
    number = (inside.flatten().cumsum(0) - 1).view(inside.shape)
    height, width = inside.shape
    ends = torch.full((height, width, 2), -1, dtype=torch.int64, device=inside.device)
    ends[:, :-1, 0] = torch.where(inside[:, :-1] & inside[:, 1:], number[:, 1:], -1)
    ends[:-1, :, 1] = torch.where(inside[:-1] & inside[1:], number[1:], -1)
    there = ends >= 0
    first = number[..., None].expand_as(ends)[there]
    return Edges(first, ends[there], torch.ones_like(first))


def merged_moments(a: Regions, b: Regions) -> tuple[Tensor, Tensor, Tensor]:
    """Size, mean and squared deviations of a ∪ b, in Chan's form: no difference of large sums."""
    size = a.size + b.size
    step = b.mean - a.mean
    spread = (a.size * b.size / size)[:, None]
    mean = a.mean + (b.size / size)[:, None] * step
    return size, mean, (a.deviation + b.deviation) + spread * step * step


def log_variance(size: Tensor, deviation: Tensor, floor: float) -> Tensor:
    """n Σ_c log(1 + deviation_c / (n φ)), one logarithm per `CHANNELS_PER_LOG` channels."""
    scale = torch.reciprocal(size.new_full((), floor)) / size
    total = torch.zeros_like(size)
    for start in range(0, deviation.shape[1], CHANNELS_PER_LOG):
        product = torch.ones_like(size)
        for channel in deviation[:, start : start + CHANNELS_PER_LOG].unbind(1):
            product = product * (1.0 + channel * scale)
        total = total + log_at_least_one(product)
    return size * total


def merge_cost(a: Regions, b: Regions, length: Tensor, rule: MergeRule, first_rounds: bool) -> Tensor:
    """Cost of merging adjacent regions, float32 ≥ 0; see `Cost`."""
    match rule.cost:
        case Cost.GAUSSIAN:
            step = b.compared - a.compared
            return summed_product(step, step)
        case Cost.COSINE | Cost.TANIMOTO:
            return 1.0 - kernel_value(a.compared, b.compared, rule.cost)
        case Cost.LIKELIHOOD if not first_rounds:
            size, _, deviation = merged_moments(a, b)
            growth = (log_variance(size, deviation, rule.floor) - (a.energy + b.energy)).clamp_min(0.0)
        case _:
            step = b.mean - a.mean
            growth = summed_product(step, step) * (a.size * b.size / (a.size + b.size))
    return growth / length_power(length.to(torch.float32), rule.length_quarters)


def kernel_of_cost(cost: Tensor, rule: MergeRule) -> Tensor:
    """κ in 0..1 of two regions from the cost of merging them: exp(−π‖Δf‖²), (1 + cos)/2, or Tanimoto's similarity."""
    match rule.cost:
        case Cost.GAUSSIAN:
            return exponential(-(cost.new_full((), rule.precision) * cost))
        case Cost.COSINE:
            return 1.0 - 0.5 * cost
        case _:
            return 1.0 - cost


def weighed(regions: Regions, cost: Tensor, alone: Tensor, rule: MergeRule) -> Regions:
    """The regions with |v| κ(v, v_max) f_t(v) in place of f_t(v), if the rule is weighted; κ is 1 of those that pick nothing.

    cost, alone (R,): of the edge that each region picked, and whether it picked none.
    """
    if not rule.weighted:
        return regions
    amount = regions.size * torch.where(alone, 1.0, kernel_of_cost(cost, rule))
    return regions._replace(weighted=amount[:, None] * regions.weighted)


def length_power(length: Tensor, quarters: int) -> Tensor:
    """length^(quarters / 4), by square roots only."""
    root = square_root(length)
    fourth = square_root(root)
    return (torch.ones_like(length), fourth, root, root * fourth, length)[quarters]


def kernel_value(a: Tensor, b: Tensor, cost: Cost) -> Tensor:
    """Cosine (in −1..1) or Tanimoto similarity (in 0..1); two zero vectors are alike, one zero vector is unlike all others."""
    product, squares_a, squares_b = summed_product(a, b), summed_product(a, a), summed_product(b, b)
    norm = square_root(squares_a) * square_root(squares_b) if cost == Cost.COSINE else squares_a + squares_b - product
    both_zero = (squares_a + squares_b == 0).to(torch.float32)
    value = torch.where(norm > 0, product / torch.where(norm > 0, norm, 1.0), both_zero)
    # κ = (1 + cos)/2 is monotone in cos, so that only Tanimoto needs its clamp at 0.
    return value.clamp(-1.0 if cost == Cost.COSINE else 0.0, 1.0)


def cheapest_edges(edges: Edges, key: Tensor, count: int) -> Tensor:
    """The edge that each of `count` regions picks: the least (key, first, second); `NONE` for a region without neighbours."""
    ends = torch.cat((edges.first, edges.second))
    best = torch.full((count,), NONE, device=key.device).scatter_reduce(0, ends, key.repeat(2), "amin")
    index = torch.arange(key.numel(), device=key.device).repeat(2)
    index = torch.where(key.repeat(2) == best[ends], index, NONE)
    return torch.full((count,), NONE, device=key.device).scatter_reduce(0, ends, index, "amin")


def picked_ends(edges: Edges, picked: Tensor) -> tuple[Tensor, Tensor]:
    """The edge that each region picked (0 for none), and the region at its other end (itself for none)."""
    region = torch.arange(picked.numel(), device=picked.device)
    alone = picked == NONE
    edge = torch.where(alone, 0, picked)
    return edge, torch.where(alone, region, edges.first[edge] + edges.second[edge] - region)


def components_of_picks(picked: Tensor, other: Tensor) -> tuple[Tensor, int]:
    """The component of each region under its picks, numbered by first member, and how many there are."""
    region = torch.arange(picked.numel(), device=picked.device)
    # Edges are totally ordered, so the only cycles of picks are mutual pairs; their smaller end becomes the fixed point.
    mutual_first = (picked[other] == picked) & (region < other)
    anchor = settle(torch.where(mutual_first, region, other))
    smallest = torch.full_like(region, NONE).scatter_reduce(0, anchor, region, "amin")[anchor]
    return number_by_first(smallest)


def lexicographic_order(*keys: Tensor) -> Tensor:
    """Indices that sort by the last key, then the one before it, and so on; equal rows keep their order."""
    order = torch.arange(keys[0].numel(), device=keys[0].device)
    for key in keys:
        order = order[torch.argsort(key[order], stable=True)]
    return order


def contract(edges: Edges, component: Tensor, count: int) -> Edges:
    """The edges between components, parallel ones joined with their lengths added."""
    a, b = component[edges.first], component[edges.second]
    outer = a != b
    pair = torch.minimum(a, b)[outer] * count + torch.maximum(a, b)[outer]
    unique, group = torch.unique(pair, return_inverse=True)
    length = torch.zeros_like(unique).index_add_(0, group, edges.length[outer])
    return Edges(unique // count, unique % count, length)


class _Growth:
    """The tree while it grows: rows of inner nodes are filled in the order in which they are made."""

    def __init__(self, leaves: int, rule: MergeRule, picks: bool, device: torch.device) -> None:
        nodes = max(2 * leaves - 1, 1)
        self.leaves, self.rule, self.next = leaves, rule, leaves
        self.parent = torch.full((nodes,), -1, dtype=torch.int32, device=device)
        self.left = torch.zeros(leaves - 1, dtype=torch.int32, device=device)
        self.right = torch.zeros(leaves - 1, dtype=torch.int32, device=device)
        self.level = torch.zeros(nodes, dtype=torch.int16, device=device)
        self.altitude = torch.zeros(nodes, dtype=torch.float32, device=device)
        self.gain = torch.zeros(leaves - 1, dtype=torch.float32, device=device)
        self.pick = torch.zeros(leaves - 1 if picks else 0, dtype=torch.int32, device=device)

    def record(self, node: Tensor, left: Tensor, right: Tensor, pick: Tensor, altitude: Tensor, gain: Tensor, level: int) -> None:
        """Write the rows of new inner nodes."""
        self.parent[left] = self.parent[right] = node.to(torch.int32)
        self.left[node - self.leaves] = left.to(torch.int32)
        self.right[node - self.leaves] = right.to(torch.int32)
        self.altitude[node] = altitude
        self.gain[node - self.leaves] = gain
        self.level[node] = level
        if self.pick.numel():
            self.pick[node - self.leaves] = pick.to(torch.int32)

    def absorb(
        self, regions: Regions, component: Tensor, count: int, order: Tensor, cost: Tensor, picked: Tensor, level: int
    ) -> Regions:
        """Join the members of every component one after another, all components at the same time; returns the new regions.

        regions: as `weighed`. cost is that of the edge that each region picked, picked the node at its other end.
        """
        members = torch.bincount(component, minlength=count)
        start = members.cumsum(0) - members
        cluster = regions.take(order[start])
        base = self.next + start - torch.arange(count, device=start.device)  # a component of k members has k − 1 nodes
        for step in range(1, int(members.max())):
            growing = torch.nonzero(members > step).flatten()
            member = order[start[growing] + step]
            joined, gain = self.join(cluster.take(growing), regions.take(member), base[growing] + step - 1)
            self.record(joined.node, cluster.node[growing], regions.node[member], picked[member], cost[member], gain, level)
            for field, value in zip(cluster, joined, strict=True):
                field[growing] = value
        self.next += int(order.numel()) - count
        return cluster._replace(weighted=cluster.weighted / cluster.size[:, None])

    def join(self, a: Regions, b: Regions, node: Tensor) -> tuple[Regions, Tensor]:
        """a ∪ b, and what closing it adds to the energy of a cut."""
        size, mean, deviation = merged_moments(a, b)
        energy = log_variance(size, deviation, self.rule.floor)
        if self.rule.energy == Energy.LOG_VARIANCE:
            gain = (energy - (a.energy + b.energy)).clamp_min(0.0)
        else:
            step = b.mean - a.mean
            gain = summed_product(step, step) * (a.size * b.size / size)
        return Regions(node, size, mean, deviation, energy, a.weighted + b.weighted), gain

    def join_pieces(self, pieces: list[int], level: int) -> None:
        """Join the pieces that do not touch, so that the tree has one root; cuts always split these nodes."""
        cluster = pieces[0]
        for piece in pieces[1:]:
            node, left, right = (torch.tensor([v], device=self.parent.device) for v in (self.next, cluster, piece))
            infinite = torch.tensor([torch.inf], device=self.parent.device)
            self.record(node, left, right, left, infinite, infinite, level)
            cluster, self.next = self.next, self.next + 1

    def tree(self) -> Tree:
        """The finished tree."""
        return Tree(self.parent, self.left, self.right, self.level, self.altitude, self.gain, self.pick)


class Round(NamedTuple):
    """The picks of one round, and the component that each region joined."""

    pick: Tensor  # (R,) int64: the region at the other end of the picked edge
    component: Tensor  # (R,) int64


def build(
    features: Tensor,
    inside: Tensor,
    rule: MergeRule,
    picks: bool = False,
    place: Place | None = None,
    zones: Zones | None = None,
) -> Tree:
    """The tree of the pixels inside a mask (H, W); features are planes (C, M) float32 of its M pixels in raster order.

    picks: also keep which region every absorbed member had picked. place: where the pixels of a window lie, see `Place`; its
    flat zones depend on the whole image, so they are given, or there are none.
    O(M) work per round, O(log M) rounds; a step per member of the largest component of each round.
    """
    return build_with_rounds(features, inside, rule, picks, place, zones)[0]


def build_with_rounds(
    features: Tensor,
    inside: Tensor,
    rule: MergeRule,
    picks: bool = False,
    place: Place | None = None,
    zones: Zones | None = None,
) -> tuple[Tree, list[Round]]:
    """The tree, and the rounds in which it grew."""
    leaves, device = features.shape[1], features.device
    zeros = torch.zeros(leaves, dtype=torch.float32, device=device)
    mean = features.T.contiguous()
    weighted = mean[:, : mean.shape[1] if rule.weighted else 0]
    pixels = Regions(torch.arange(leaves, device=device), zeros + 1.0, mean, torch.zeros_like(mean), zeros, weighted)
    growth, edges = _Growth(leaves, rule, picks, device), pixel_edges(inside)
    names = None if place is None else pixel_names(inside, place)
    zones = flat_zones(features, inside) if place is None else zones
    if zones is None:
        return _grown(growth, pixels, edges, 0, names)
    regions, first = _join_zones(growth, pixels, edges, zones, names)
    edges = contract(edges, first.component, regions.size.numel())
    tree, rounds = _grown(growth, regions, edges, 1, _first_names(names, first.component, regions.size.numel()))
    return tree, [first, *rounds]


def _first_names(names: Tensor | None, component: Tensor, count: int) -> Tensor | None:
    """The name of the first member of every component, if members have names."""
    if names is None:
        return None
    member = torch.arange(component.numel(), device=component.device)
    return names[torch.full((count,), NONE, device=component.device).scatter_reduce(0, component, member, "amin")]


def _join_zones(
    growth: _Growth, pixels: Regions, edges: Edges, zones: Zones, names: Tensor | None
) -> tuple[Regions, Round]:  # fmt: skip
    """The first round of an image with flat zones: each picks nothing, and absorbs its blended pixels, then what picked it."""
    leaves, device = pixels.size.numel(), pixels.size.device
    pixel, root, joins = torch.arange(leaves, device=device), zones.root.to(torch.int64), zones.joins.to(torch.int64)
    cost = merge_cost(pixels.take(edges.first), pixels.take(edges.second), edges.length, growth.rule, first_rounds=True)
    key = _edge_keys(cost, edges, names)
    picked = cheapest_edges(edges, key, leaves)
    blended = joins >= 0
    ends = torch.minimum(pixel, joins) * leaves + torch.maximum(pixel, joins)
    picked[blended] = torch.searchsorted(edges.first * leaves + edges.second, ends[blended])
    # A vertex is a zone, which its first pixel stands for, or a pixel that is in none.
    vertex = torch.where(root >= 0, root, pixel)
    number, _ = number_by_first(vertex)
    first = torch.nonzero(vertex == pixel).flatten()
    is_zone = root[first] >= 0
    regions = pixels.take(first)
    for field, zone in zip(regions, _zone_regions(growth, pixels, edges, root), strict=True):
        field[is_zone] = zone
    picks = torch.where(is_zone, NONE, picked[first])
    edge = torch.where(picks == NONE, 0, picks)
    far = torch.where(picks == NONE, first, edges.first[edge] + edges.second[edge] - first)
    component, count = components_of_picks(picks, number[far])
    # Zones come before all keys, then their blended pixels, in the order of their own.
    rank = torch.where(is_zone, FIRST, torch.where(blended[first], key[edge] + FIRST, key[edge]))
    order = lexicographic_order(edge, rank, component)
    regions = weighed(regions, cost[edge], is_zone, growth.rule)
    regions = growth.absorb(regions, component, count, order, cost[edge], far, 1)
    pick = torch.where(root >= 0, root, far[number])
    return regions, Round(pick, component[number])


def _zone_regions(growth: _Growth, pixels: Regions, edges: Edges, root: Tensor) -> Regions:
    """The zones as regions, by first pixel; inside they grow in rounds in which all costs are 0, so their subtrees are balanced."""
    there = torch.nonzero(root >= 0).flatten()
    number = torch.full_like(root, -1).index_copy_(0, there, torch.arange(there.numel(), device=root.device))
    inner = (root[edges.first] >= 0) & (root[edges.first] == root[edges.second])
    edges = Edges(number[edges.first[inner]], number[edges.second[inner]], edges.length[inner])
    regions = pixels.take(there)
    while edges.first.numel():
        regions, edges, _ = _round(growth, regions, edges, torch.zeros_like(edges.first, dtype=torch.float32), None, 1)
    if growth.pick.numel():
        leaf = growth.left[: growth.next - growth.leaves].to(torch.int64)
        while bool((leaf >= growth.leaves).any()):
            leaf = torch.where(leaf >= growth.leaves, growth.left[(leaf - growth.leaves).clamp_min(0)], leaf)
        growth.pick[: leaf.numel()] = ~root[leaf].to(torch.int32)
    # Sums of many equal numbers are rounded, means of equal numbers are not.
    return regions._replace(weighted=regions.mean[:, : regions.weighted.shape[1]])


def build_on_regions(size: Tensor, mean: Tensor, deviation: Tensor, edges: Edges, rule: MergeRule, level: int) -> Tree:
    """The tree above R regions that round `level` has made: pixels (R,), means and squared deviations (R, C), all float32.

    Its leaves are the regions. Where these are the regions of an image's tree at that level, numbered by first pixel, it is
    the part of that tree above them. O(R log R).
    """
    node = torch.arange(size.numel(), device=size.device)
    weighted = mean[:, : mean.shape[1] if rule.weighted else 0]
    regions = Regions(node, size, mean, deviation, log_variance(size, deviation, rule.floor), weighted)
    return _grown(_Growth(size.numel(), rule, False, size.device), regions, edges, level)[0]


def _grown(growth: _Growth, regions: Regions, edges: Edges, level: int, names: Tensor | None = None) -> tuple[Tree, list[Round]]:
    """All rounds after round `level`, until nothing touches; names of regions (R,), or their numbers, settle equal costs."""
    rounds = []
    while edges.first.numel():
        level += 1
        ends = regions.take(edges.first), regions.take(edges.second)
        cost = merge_cost(*ends, edges.length, growth.rule, first_rounds=level <= growth.rule.ward_rounds)
        regions, edges, one = _round(growth, regions, edges, cost, names, level)
        rounds.append(one)
        names = _first_names(names, one.component, regions.size.numel())
    growth.join_pieces(regions.node.tolist(), level + 1)
    return growth.tree(), rounds


def _edge_keys(cost: Tensor, edges: Edges, names: Tensor | None) -> Tensor:
    """The order of edges: by cost, then by a hash of their ends' names, or numbers."""
    return order_key(cost, *(ends if names is None else names[ends] for ends in (edges.first, edges.second)))


def _round(
    growth: _Growth, regions: Regions, edges: Edges, cost: Tensor, names: Tensor | None, level: int
) -> tuple[Regions, Edges, Round]:  # fmt: skip
    """One round: the regions and edges of the next level, from the costs of the edges."""
    key = _edge_keys(cost, edges, names)
    picked = cheapest_edges(edges, key, regions.size.numel())
    edge, other = picked_ends(edges, picked)
    component, count = components_of_picks(picked, other)
    order, node = lexicographic_order(edge, key[edge], component), regions.node
    regions = weighed(regions, cost[edge], picked == NONE, growth.rule)
    regions = growth.absorb(regions, component, count, order, cost[edge], node[other], level)
    return regions, contract(edges, component, count), Round(other, component)
