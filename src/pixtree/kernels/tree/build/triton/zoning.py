"""Flat zones as the first regions of trees in Triton: they grow in rounds of their own, and then stand for their pixels.

Inside a zone all costs are 0 and all means are equal, so only hashes decide, and nothing but nodes and their sizes has to be kept.
Images without zones have no regions in these rounds: their lanes end at once, and the launches stay the same.
"""

from typing import TYPE_CHECKING, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.arithmetic.triton import FAR, FIRST, order_key, pair_of
from pixtree.kernels.tree import Cost
from pixtree.kernels.tree.build.triton.adjacency import insert
from pixtree.kernels.tree.build.triton.grouping import lanes_of, ordered_members
from pixtree.kernels.tree.build.triton.picking import FREE, merge_cost, neighbour
from pixtree.kernels.tree.zones.triton import ZonesOfBatch
from pixtree.runtime.launch import WARP, launch, unset

if TYPE_CHECKING:
    from pixtree.kernels.tree.build.triton import Growth, Level, Picked, Round


class Planted(NamedTuple):
    """Zones whose trees have grown."""

    zones: ZonesOfBatch
    node: Tensor  # (B·M,) int32: what a pixel stands for: at the first pixel of a zone its node


class Parts(NamedTuple):
    """The regions inside zones at one level, (B·N,) int32 each."""

    node: Tensor
    zone: Tensor  # the first pixel of the zone


def planted(growth: "Growth", zones: ZonesOfBatch) -> Planted:
    """Grow the trees of all zones."""
    images, pixels = zones.root.shape
    number = (zones.root >= 0).cumsum(1, dtype=torch.int32) - 1
    count, standing = number[:, -1] + 1, unset(images * pixels, torch.int32, growth.planes)
    picked, parts = first_picks(growth, zones, number, standing)
    here, room, most = pixels, pixels // 2, pixels.bit_length() - 1
    level: Level | None = None
    for step in range(most):
        if level is not None:
            here, picked = room, growth.picked(level, FREE.value)
        one = growth.grouped((here, room), count, picked, picked.other)
        parts = hung(growth, one, ordered_members(one, picked.best, picked.pick), parts)
        growth.made, count = growth.made + one.regions - one.groups, one.groups
        if step < most - 1:
            level = touching(growth, level, one, zones, number)
    lanes = images * room
    launch(seat_zones, lanes, *parts, count, standing, lanes, room, pixels)
    return Planted(zones, standing)


def first_picks(growth: "Growth", zones: ZonesOfBatch, number: Tensor, standing: Tensor) -> tuple["Picked", Parts]:
    """What the pixels of zones pick inside them, by their numbers among these pixels; and what all pixels stand for."""
    lanes = zones.root.numel()
    picked = growth.space_for_picks(lanes)
    parts = Parts(*(unset(lanes, torch.int32, growth.planes) for _ in range(2)))
    launch(
        pick_in_zones, lanes, zones.root, number, *parts, *picked, standing, lanes, growth.pixels, *growth.leaves.shape
    )  # fmt: skip
    return picked, parts


def hung(growth: "Growth", one: "Round", ordered: Tensor, parts: Parts) -> Parts:
    """Make the nodes of a round inside zones; returns the regions of the next level."""
    here, room = one.room
    lanes = growth.images * room
    new = Parts(*(unset(lanes, torch.int32, growth.planes) for _ in range(2)))
    launch(
        hang, lanes, *parts, *new, ordered, one.members, one.end, one.groups, one.made,
        growth.parent, growth.left, growth.right, growth.pick, growth.level, growth.altitude, growth.size, growth.terms,
        lanes, growth.pixels, here, room, growth.inner, PICKS=growth.picks, SQUARES=growth.squares,
        G=growth.channels if growth.squares else growth.groups, block=WARP,
    )  # fmt: skip
    return new


def touching(growth: "Growth", level: "Level | None", one: "Round", zones: ZonesOfBatch, number: Tensor) -> "Level":
    """The next level: which regions of one zone touch. The lengths of their edges do not count."""
    table, lengths, shift = growth.tables(one)
    if level is None:
        lanes = zones.root.numel()
        launch(
            touch_in_zones, lanes, zones.root, number, one.component, table, lanes, growth.pixels, *growth.leaves.shape,
            (1 << shift) - 1, shift, block=WARP,
        )  # fmt: skip
    else:
        growth.add_edges(level, one, table, lengths, shift, False)
    return growth.level_of(one, table, lengths, shift)


def stood_for(growth: "Growth", found: Planted, picked: "Picked") -> tuple[Tensor, Tensor, Tensor]:
    """Let zones pick nothing, and blended pixels the zone that they join.

    Returns where picks lead, the zone of every pixel, and how many pixels of an image others stand for.
    """
    zones, lanes, link = found.zones, picked.other.numel(), torch.empty_like(picked.other)
    cost = int(Cost.WARD if growth.rule.cost == Cost.LIKELIHOOD else growth.rule.cost)  # as in every first round
    launch(
        stand_for_zones, lanes, growth.planes, zones.root, zones.joins, picked.best, picked.pick, picked.other, link,
        lanes, growth.pixels, growth.inverse_floor, COST=cost, **growth.known,
    )  # fmt: skip
    first = torch.arange(growth.pixels, dtype=torch.int32, device=link.device)
    hidden = ((zones.root >= 0) & (zones.root != first)).sum(1, dtype=torch.int32)
    return link, zones.root, hidden


@triton.jit
def pick_in_zones(
    root, number, node, zone, best, pick, other, smallest, standing, lanes, M, H, W, BLOCK: tl.constexpr
):  # fmt: skip
    """Each pixel's least edge inside its zone, by the hash of the numbers of its ends among the pixels of all zones."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = (lane // M).to(tl.int64)
    p = (lane - image * M).to(tl.int32)
    tl.store(standing + lane, p, mask=lane < lanes)
    own = tl.load(root + lane, mask=lane < lanes, other=-1)
    there = own >= 0
    base = image * M
    mine = tl.load(number + lane, mask=there, other=0)
    key, pair, far = tl.full([BLOCK], FAR, tl.int64), tl.full([BLOCK], FAR, tl.int64), mine
    for k in tl.static_range(4):
        q = neighbour(root, p, there, M, H, W, k, False)
        on = (q >= 0) & (tl.load(root + base + q, mask=q >= 0, other=-1) == own)
        theirs = tl.load(number + base + q, mask=on, other=0)
        first, second = tl.minimum(mine, theirs), tl.maximum(mine, theirs)
        one = tl.where(on, order_key(tl.zeros([BLOCK], tl.float32), first, second), FAR)
        ends = tl.where(on, pair_of(first, second), FAR)
        less = on & ((one < key) | ((one == key) & (ends < pair)))
        key, pair, far = tl.where(less, one, key), tl.where(less, ends, pair), tl.where(less, theirs, far)
    at = base + mine
    tl.store(best + at, key, mask=there)
    tl.store(pick + at, pair, mask=there)
    tl.store(other + at, far, mask=there)
    tl.store(smallest + at, mine, mask=there)
    tl.store(node + at, p, mask=there)
    tl.store(zone + at, own, mask=there)


@triton.jit
def touch_in_zones(root, number, component, table, lanes, M, H, W, last, shift, BLOCK: tl.constexpr):
    """Insert the components that pixels and those right of and below them in the same zone belong to."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = (lane // M).to(tl.int64)
    p = (lane - image * M).to(tl.int32)
    own = tl.load(root + lane, mask=lane < lanes, other=-1)
    base, there = image * M, own >= 0
    a = tl.load(component + base + tl.load(number + lane, mask=there, other=0), mask=there, other=0)
    for k in tl.static_range(2, 4):
        q = neighbour(root, p, there, M, H, W, k, False)
        on = (q >= 0) & (tl.load(root + base + q, mask=q >= 0, other=-1) == own)
        b = tl.load(component + base + tl.load(number + base + q, mask=on, other=0), mask=on, other=0)
        insert(table, image << shift, pair_of(a, b), last, on & (a != b))


@triton.jit
def hang(
    node, zone, new_node, new_zone, ordered, members, end, groups, made,
    parent, left, right, pick, level, altitude, node_size, terms,
    lanes, leaves, N, M, all_inner, PICKS: tl.constexpr, SQUARES: tl.constexpr, G: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """`absorb` for equal means: one lane per component, whose members join one after another at no cost, in round 1."""
    lane, image, g, there = lanes_of(lanes, groups, M, BLOCK)
    image = image.to(tl.int64)
    k = tl.load(members + lane, mask=there, other=0)
    last = tl.load(end + lane, mask=there, other=0)
    begin = image * N + last - k
    new = leaves + tl.load(made + image, mask=there, other=0) + last - k - g
    nodes_at, inner_at = image * (2 * leaves - 1), image * (leaves - 1) - leaves
    x = tl.load(ordered + begin, mask=there, other=0)
    cluster, own = tl.load(node + image * N + x, mask=there, other=0), tl.load(zone + image * N + x, mask=there, other=0)
    size = tl.load(node_size + nodes_at + cluster, mask=there, other=1.0)
    for i in range(1, tl.max(k, 0)):
        on = i < k
        absorbed = tl.load(node + image * N + tl.load(ordered + begin + i, mask=on, other=0), mask=on, other=0)
        both = size + tl.load(node_size + nodes_at + absorbed, mask=on, other=1.0)
        of_node = inner_at + new
        for t in tl.static_range(G):
            tl.store(terms + t * all_inner + of_node, tl.full([BLOCK], 0.0 if SQUARES else 1.0, tl.float32), mask=on)
        tl.store(parent + nodes_at + cluster, new, mask=on)
        tl.store(parent + nodes_at + absorbed, new, mask=on)
        tl.store(left + of_node, cluster, mask=on)
        tl.store(right + of_node, absorbed, mask=on)
        tl.store(level + nodes_at + new, tl.full([BLOCK], 1, tl.int16), mask=on)
        tl.store(altitude + nodes_at + new, tl.zeros([BLOCK], tl.float32), mask=on)
        tl.store(node_size + nodes_at + new, both, mask=on)
        if PICKS:
            tl.store(pick + of_node, -1 - own, mask=on)
        size, cluster, new = tl.where(on, both, size), tl.where(on, new, cluster), tl.where(on, new + 1, new)
    tl.store(new_node + lane, cluster, mask=there)
    tl.store(new_zone + lane, own, mask=there)


@triton.jit
def seat_zones(node, zone, count, standing, lanes, N, M, BLOCK: tl.constexpr):
    """The first pixel of every zone stands for its node."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    first = tl.load(zone + lane, mask=there, other=0)
    tl.store(standing + image.to(tl.int64) * M + first, tl.load(node + lane, mask=there, other=0), mask=there)


@triton.jit
def stand_for_zones(
    planes, root, joins, best, pick, other, link, lanes, M, inverse_floor,
    C: tl.constexpr, COST: tl.constexpr, QUARTERS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """link = where the pick of a pixel leads: to what stands for the picked one. Zones come first, then blended pixels."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    there = lane < lanes
    image = (lane // M).to(tl.int64)
    p = (lane - image * M).to(tl.int32)
    base, own = image * M, tl.load(root + lane, mask=there, other=-1)
    joined = tl.load(joins + lane, mask=there, other=-1)
    blended, inside = joined >= 0, own >= 0
    far = tl.where(inside, own, tl.where(blended, joined, tl.load(other + lane, mask=there, other=0)))
    above = tl.load(root + base + far, mask=there, other=-1)
    tl.store(link + lane, tl.where(above >= 0, above, far), mask=there)
    tl.store(other + lane, far, mask=there & (inside | blended))
    first, second = tl.minimum(p, far), tl.maximum(p, far)
    values, length = planes + base * C, tl.full([BLOCK], 1.0, tl.float32)
    cost = merge_cost(values + first, values + second, M, length, blended, inverse_floor, C, COST, QUARTERS, True)
    tl.store(best + lane, tl.where(inside, FIRST, order_key(cost, first, second) + FIRST), mask=there & (inside | blended))
    tl.store(pick + lane, tl.where(inside, FAR, pair_of(first, second)), mask=there & (inside | blended))
