"""The trees of a batch in plain torch: all images are one graph, and the host reads three numbers per round.

The steps and their arithmetic are those of the definition. Regions are numbered over the whole batch, image after image; decisions
see their numbers within the image. What the definition does until nothing changes is done as often as could be needed.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from pixtree.kernels.arithmetic.definition import order_key, summed_product
from pixtree.kernels.tree import Edges, Energy, MergeRule
from pixtree.kernels.tree.build.definition import (
    NONE,
    Regions,
    cheapest_edges,
    lexicographic_order,
    log_variance,
    merge_cost,
    merged_moments,
    picked_ends,
)
from pixtree.runtime.transfer import read


class Step(NamedTuple):
    """One round: R regions become G."""

    image: Tensor  # (R,) int64: whose region it is
    begin: Tensor  # (B,) int64: the first region of every image
    other: Tensor  # (R,) int64: the region that a region picked
    component: Tensor  # (R,) int64
    members: Tensor  # (G,) int64: how many each of these has
    new_begin: Tensor  # (B,) int64: the first component of every image


class Grown(NamedTuple):
    """The trees of a batch, fields as in `Tree`, and their rounds."""

    parent: Tensor  # (B, 2P−1) int32
    left: Tensor  # (B, P−1) int32
    right: Tensor
    gain: Tensor  # (B, P−1) float32
    steps: tuple[Step, ...]


def grow(planes: Tensor, shape: tuple[int, int], rule: MergeRule) -> Grown:
    """The trees of planes (B, C, H·W) float32 without flat zones, by rules that are not weighted."""
    images, channels, pixels = planes.shape
    growth = _Growth(images, pixels, rule, planes.device)
    image = torch.arange(images, device=planes.device)[:, None].expand(images, pixels).flatten()
    mean = planes.transpose(1, 2).reshape(-1, channels)
    ones = torch.ones_like(mean[:, 0])
    node = torch.arange(images * pixels, device=planes.device) - image * pixels
    regions = Regions(node, ones, mean, torch.zeros_like(mean), torch.zeros_like(ones), mean[:, :0])
    edges, begin = grid_edges(images, shape, planes.device), torch.arange(images, device=planes.device) * pixels
    steps: list[Step] = []
    while edges.first.numel():
        regions, edges, image, step = growth.advance(regions, edges, image, begin, len(steps) + 1)
        begin = step.new_begin
        steps.append(step)
    parent, left, right, gain = (one.view(images, -1) for one in (growth.parent, growth.left, growth.right, growth.gain))
    return Grown(parent, left, right, gain, tuple(steps))


def grid_edges(images: int, shape: tuple[int, int], device: torch.device) -> Edges:
    """The edges of the 4-connected grids of a batch, in lexicographic order: their number follows from the shape."""
    height, width = shape
    number = torch.arange(images * height * width, device=device).view(images, height, width)
    ends = torch.stack((number, number), -1)
    ends[:, :, :-1, 0], ends[:, :-1, :, 1] = number[:, :, 1:], number[:, 1:]
    missing = ends == number[..., None]
    # What has no neighbour goes to the end of the list, which is as long as the shape says.
    order = torch.argsort(missing.flatten(), stable=True)[: images * (2 * height * width - height - width)]
    first, second = number[..., None].expand_as(ends).flatten()[order], ends.flatten()[order]
    return Edges(first, second, torch.ones_like(first))


def settled(pointer: Tensor, longest: int) -> Tensor:
    """Pointers followed to their fixed points, which chains of at most `longest` steps reach."""
    for _ in range(max(longest - 1, 1).bit_length()):
        pointer = pointer[pointer]
    return pointer


class _Growth:
    """The trees while they grow."""

    def __init__(self, images: int, pixels: int, rule: MergeRule, device: torch.device) -> None:
        self.images, self.pixels, self.rule = images, pixels, rule
        self.parent = torch.full((images * (2 * pixels - 1),), -1, dtype=torch.int32, device=device)
        self.left = torch.zeros(images * (pixels - 1), dtype=torch.int32, device=device)
        self.right = torch.zeros_like(self.left)
        self.gain = torch.zeros(self.left.shape, dtype=torch.float32, device=device)
        self.made = torch.zeros(images, dtype=torch.int64, device=device)

    def advance(
        self, regions: Regions, edges: Edges, image: Tensor, begin: Tensor, level: int
    ) -> tuple[Regions, Edges, Tensor, Step]:  # fmt: skip
        """One round; `level` is its number."""
        region, first_of = torch.arange(image.numel(), device=image.device), begin[image]
        ends = regions.take(edges.first), regions.take(edges.second)
        cost = merge_cost(*ends, edges.length, self.rule, first_rounds=level <= self.rule.ward_rounds)
        shift = first_of[edges.first]
        key = order_key(cost, edges.first - shift, edges.second - shift)
        picked = cheapest_edges(edges, key, region.numel())
        edge, other = picked_ends(edges, picked)
        mutual = (picked[other] == picked) & (region < other)
        anchor = settled(torch.where(mutual, region, other), self.pixels)
        smallest = torch.full_like(region, NONE).scatter_reduce(0, anchor, region, "amin")[anchor]
        is_first = smallest == region
        component = (is_first.cumsum(0) - 1)[smallest]
        members = torch.zeros_like(region).scatter_add_(0, component, torch.ones_like(region))
        count, largest = read(torch.stack((is_first.sum(), members.max())))
        members = members[:count]
        new_image = torch.zeros_like(members).scatter_(0, component, image)
        new_begin = component[begin]
        order = lexicographic_order(edge, key[edge], component)
        start = members.cumsum(0) - members
        # A component's first new node: of k members it makes k − 1.
        base = self.pixels + (self.made - begin + new_begin)[new_image] + start - torch.arange(count, device=start.device)
        regions = self.absorb(regions, order, members, start, base, new_image, largest)
        groups = torch.diff(new_begin, append=new_begin.new_full((1,), count))
        self.made = self.made + torch.diff(begin, append=begin.new_full((1,), region.numel())) - groups
        return regions, contract(edges, component, count), new_image, Step(image, begin, other, component, members, new_begin)

    def absorb(
        self, regions: Regions, order: Tensor, members: Tensor, start: Tensor, base: Tensor, image: Tensor, largest: int
    ) -> Regions:
        """Let the members of all components join one after another, as in the definition."""
        sizes = torch.zeros(largest + 1, dtype=torch.int64, device=members.device)
        more = sizes.scatter_add_(0, members, torch.ones_like(members)).flip(0).cumsum(0).flip(0)
        lengths = read(more)  # how many components have at least as many members
        by_size = torch.argsort(members, descending=True, stable=True)
        start, base, image = start[by_size], base[by_size], image[by_size]
        cluster = Regions(*(field.clone() for field in regions.take(order[start])))
        for step in range(1, largest):
            growing = lengths[step + 1]
            a, b = Regions(*(field[:growing] for field in cluster)), regions.take(order[start[:growing] + step])
            joined, gain = self.join(a, b, base[:growing] + step - 1)
            at, row = image[:growing] * (2 * self.pixels - 1), image[:growing] * (self.pixels - 1) + joined.node - self.pixels
            node = joined.node.to(torch.int32)
            self.parent[at + a.node], self.parent[at + b.node] = node, node
            self.left[row], self.right[row], self.gain[row] = a.node.to(torch.int32), b.node.to(torch.int32), gain
            for field, value in zip(cluster, joined, strict=True):
                field[:growing] = value
        back = torch.empty_like(by_size).scatter_(0, by_size, torch.arange(by_size.numel(), device=by_size.device))
        return cluster.take(back)

    def join(self, a: Regions, b: Regions, node: Tensor) -> tuple[Regions, Tensor]:
        """a ∪ b, and what closing it adds to the energy of a cut."""
        size, mean, deviation = merged_moments(a, b)
        energy = log_variance(size, deviation, self.rule.floor)
        if self.rule.energy == Energy.LOG_VARIANCE:
            gain = (energy - (a.energy + b.energy)).clamp_min(0.0)
        else:
            step = b.mean - a.mean
            gain = summed_product(step, step) * (a.size * b.size / size)
        return Regions(node, size, mean, deviation, energy, a.weighted), gain


def contract(edges: Edges, component: Tensor, count: int) -> Edges:
    """The edges between components, parallel ones joined with their lengths added."""
    a, b = component[edges.first], component[edges.second]
    pair, order = torch.sort(torch.where(a != b, torch.minimum(a, b) * count + torch.maximum(a, b), NONE))
    there = pair < NONE
    fresh = there & torch.cat((there[:1], pair[1:] != pair[:-1]))
    place = fresh.cumsum(0) - 1
    (touching,) = read(fresh.sum()[None])
    place = torch.where(there, place, touching)  # all others into a last entry, which is dropped
    unique = torch.zeros(touching + 1, dtype=torch.int64, device=pair.device).scatter_(0, place, pair)[:touching]
    length = torch.zeros(touching + 1, dtype=torch.int64, device=pair.device).scatter_add_(0, place, edges.length[order])
    return Edges(unique // count, unique % count, length[:touching])
