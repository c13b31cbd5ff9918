"""The trees of a batch in Triton: all images as one graph, equal to the definition bit for bit.

Nothing that the host does depends on values: every level has room for half the regions of the one below, how many there are stays
on the device, and the number of launches depends on the shape of the images only. Region i of image b is b·N + i, where N is the
room of its level. All decisions are minima over totally ordered numbers, and sums of integers, so the order of programs changes
nothing.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pixtree.kernels.arithmetic import CHANNELS_PER_LOG
from pixtree.kernels.tree import Cost, Energy, MergeRule, Place, Tree
from pixtree.kernels.tree.build import definition
from pixtree.kernels.tree.build.triton.adjacency import clear_tables, touch_leaves, touch_regions
from pixtree.kernels.tree.build.triton.grouping import (
    clear_members,
    find_smallest,
    follow_picks,
    list_members,
    number_firsts,
    number_members,
    ordered_members,
    settled,
    sum_members,
)
from pixtree.kernels.tree.build.triton.joining import absorb, node_energies, node_gains, region_energies
from pixtree.kernels.tree.build.triton.leaves import Leaves, leaves_of
from pixtree.kernels.tree.build.triton.picking import FREE, choose_edges, clear_picks, key_edges, link_regions, pick_leaves
from pixtree.kernels.tree.build.triton.zoning import Planted, planted, stood_for
from pixtree.kernels.tree.zones import LARGE, Zones
from pixtree.kernels.tree.zones.triton import drawn, zones_of_batch
from pixtree.runtime.launch import RUN, SCAN, WARP, beyond, filled, launch, unset


class Round(NamedTuple):
    """One round of all images: N is the room for regions before it, M after it."""

    room: tuple[int, int]  # N, M
    regions: Tensor  # (B,) int32: how many there are before it
    groups: Tensor  # (B,) int32: how many after it
    made: Tensor  # (B,) int32: inner nodes made before it
    other: Tensor  # (B·N,) int32: the region that a region picked
    component: Tensor  # (B·N,) int32: the region of the next level that it joined
    members: Tensor  # (B·M,) int32: how many each of these has
    end: Tensor  # (B·M,) int32: sums of members up to and including each
    listed: Tensor  # (B·N,) int32: the members, one component after the other, in no order


class Picked(NamedTuple):
    """What the regions of a level picked, all (B·N,)."""

    best: Tensor  # int64: the key of the edge
    pick: Tensor  # int64: its ends as a pair
    other: Tensor  # int32: the region at its other end, the same one where nothing was picked
    smallest: Tensor  # int32: the regions' own numbers, which `grouped` replaces


class Forest(NamedTuple):
    """The trees of a batch, as `Tree` with a first dimension B, and the rounds in which they grew."""

    parent: Tensor
    left: Tensor
    right: Tensor
    level: Tensor
    altitude: Tensor
    gain: Tensor
    pick: Tensor
    rounds: tuple[Round, ...]
    zoned: bool  # whether pixels may stand for flat zones in the first round

    def tree(self, image: int) -> Tree:
        """The tree of one image."""
        return Tree(*(field[image] for field in self[:7]))


class Level(NamedTuple):
    """The regions of one level: N is the room for them, S that of each table."""

    room: int
    regions: Tensor  # (B,) int32: how many
    rows: Tensor  # (B·N, 2C + 2) float32: means, size, squared deviations, energy; then f_t of weighted rules. Planes of pixels
    node: Tensor  # (B·N,) int32
    pairs: Tensor  # (B·S,) int64
    lengths: Tensor  # (B·S,) int32
    shift: int  # S = 2^shift


def build(
    features: Tensor,
    inside: Tensor,
    rule: MergeRule,
    picks: bool = False,
    place: Place | None = None,
    zones: Zones | None = None,
) -> Tree:
    """The tree of the pixels inside a mask (H, W); features are planes (C, M). Windows, and masks of drawn images, as defined."""
    if place is None and zones is None and takes(features, rule):
        planes, leaves = features[None].contiguous(), leaves_of(inside)
        if leaves.near is None or not bool(drawn(planes, leaves)):
            return grow(planes, leaves, rule, picks).tree(0)
    return definition.build(features, inside, rule, picks, place, zones)


def takes(features: Tensor, rule: MergeRule, more: int = 0) -> bool:
    """Whether trees over planes (…, C, M), and `more` of them, grow here by that rule."""
    known = not rule.weighted or rule.cost in (Cost.GAUSSIAN, Cost.COSINE, Cost.TANIMOTO)
    return known and features.shape[-2] + more > 0 and beyond(features.shape[-2] + more, features.shape[-1]) is None


def rooms(leaves: int, pieces: int) -> list[int]:
    """Room for the regions of every level: every piece that is not one region yet at least halves."""
    found = [leaves]
    while found[-1] > pieces:
        found.append(pieces + (found[-1] - pieces) // 2 if pieces > 1 else found[-1] // 2)
    return found


def grow(planes: Tensor, leaves: Leaves, rule: MergeRule, picks: bool = False) -> Forest:
    """The trees of planes (B, C, M) float32. Flat zones are looked for in images without a mask."""
    images, _, pixels = planes.shape
    growth = Growth(planes.contiguous(), leaves, rule, picks)
    if leaves.near is None and pixels >= LARGE:
        growth.planted = planted(growth, zones_of_batch(growth.planes, leaves.shape))
    count, nothing = filled(images, pixels, torch.int32, planes), unset(0, torch.int32, planes)
    level = Level(pixels, count, growth.planes, nothing, nothing, nothing, 0)
    for room in rooms(pixels, leaves.pieces)[1:]:
        level = growth.advance(level, room)
    return growth.finished(level)


class Growth:
    """The trees while they grow: the arrays of nodes, and one round after the other."""

    def __init__(self, planes: Tensor, leaves: Leaves, rule: MergeRule, picks: bool) -> None:
        self.planes, self.leaves, self.rule, self.picks = planes, leaves, rule, picks
        self.images, self.channels, pixels = planes.shape
        self.pixels, self.inner = pixels, self.images * (pixels - 1)
        self.groups = -(-self.channels // CHANNELS_PER_LOG)
        self.squares = rule.energy == Energy.SQUARED_ERROR
        self.inverse_floor = float(np.float32(1.0) / np.float32(rule.floor))
        self.parent, self.level = self.of_nodes(-1, torch.int32), self.of_nodes(0, torch.int16)
        self.altitude, self.size = self.of_nodes(0.0, torch.float32), self.of_nodes(1.0, torch.float32)
        # Gains are computed of all nodes, those that join the pieces of a mask included.
        self.left, self.right = (
            filled(self.inner, 0, torch.int32, planes) if leaves.pieces > 1 else unset(self.inner, torch.int32, planes)
            for _ in range(2)
        )
        self.pick = unset(self.inner if picks else 0, torch.int32, planes)
        self.terms = unset((self.channels if self.squares else self.groups) * self.inner, torch.float32, planes)
        self.made = filled(self.images, 0, torch.int32, planes)
        self.known = {"C": self.channels, "QUARTERS": rule.length_quarters}
        self.row = (3 if rule.weighted else 2) * self.channels + 2
        self.rounds: list[Round] = []
        self.planted: Planted | None = None

    def of_nodes(self, value: float, dtype: torch.dtype) -> Tensor:
        """A vector over nodes with one value at leaves and at the root; all others are written when they are made.

        Those that join the pieces of a mask are not.
        """
        count = self.images * (2 * self.pixels - 1)
        if self.leaves.pieces > 1:
            return filled(count, value, dtype, self.planes)
        made = unset(count, dtype, self.planes)
        made.view(self.images, -1)[:, : self.pixels] = value
        made.view(self.images, -1)[:, -1] = value
        return made

    def advance(self, level: Level, room: int) -> Level:
        """One round: the regions and edges of the next level, which has `room`."""
        ward = self.rule.cost == Cost.LIKELIHOOD and len(self.rounds) < self.rule.ward_rounds
        cost = int(Cost.WARD if ward else self.rule.cost)
        first = None if self.rounds else self.planted
        picked = self.picked(level, cost) if self.rounds else self.picked_by_pixels(cost)
        if first is None:
            one = self.grouped((level.room, room), level.regions, picked, picked.other)
        else:
            one = self.grouped((level.room, room), level.regions, picked, *stood_for(self, first, picked))
        ordered = ordered_members(one, picked.best, picked.pick)
        rows, node = self.joined(level, one, picked, ordered)
        self.rounds.append(one)
        self.made = self.made + one.regions - one.groups
        table = (level.pairs, level.lengths, 0) if room == self.leaves.pieces else self.touching(level, one)
        return Level(room, one.groups, rows, node, *table)

    def picked_by_pixels(self, cost: int) -> Picked:
        """What pixels picked."""
        lanes = self.images * self.pixels
        found = self.space_for_picks(lanes)
        launch(
            pick_leaves, lanes, self.planes, self.grid[0], *found, lanes, self.pixels, *self.grid[1:], self.inverse_floor,
            COST=cost, MASKED=self.leaves.near is not None, **self.known,
        )  # fmt: skip
        return found

    def picked(self, level: Level, cost: int) -> Picked:
        """What every region picked."""
        lanes, slots = self.images * level.room, level.pairs.numel()
        found, key = self.space_for_picks(lanes), unset(slots, torch.int64, self.planes)
        launch(clear_picks, lanes, found.best, found.pick, level.regions, lanes, level.room)
        launch(
            key_edges, slots, level.pairs, level.lengths, level.rows, level.regions, key, found.best, slots, level.shift,
            level.room, self.inverse_floor, COST=cost, WEIGHTED=self.rule.weighted and cost != FREE.value, **self.known,
        )  # fmt: skip
        launch(choose_edges, slots, level.pairs, level.regions, key, found.best, found.pick, slots, level.shift, level.room)
        launch(link_regions, lanes, found.pick, level.regions, found.other, found.smallest, lanes, level.room)
        return found

    def space_for_picks(self, lanes: int) -> Picked:
        """Space for what `lanes` regions pick."""
        best, pick = (unset(lanes, torch.int64, self.planes) for _ in range(2))
        other, smallest = (unset(lanes, torch.int32, self.planes) for _ in range(2))
        return Picked(best, pick, other, smallest)

    @property
    def grid(self) -> tuple[Tensor, int, int]:
        """The neighbours inside a mask, or anything without one, and the height and width."""
        return self.planes if self.leaves.near is None else self.leaves.near, *self.leaves.shape

    def grouped(
        self, rooms: tuple[int, int], regions: Tensor, picked: Picked, link: Tensor, zone: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Round:  # fmt: skip
        """The components of the picks, numbered by first member, and their members.

        link: where picks lead. zone (B·N,), hidden (B,): the zones that pixels are in, and how many pixels others stand for.
        """
        (here, room), lanes = rooms, picked.other.numel()
        anchor, component, place, listed, numbers = (unset(lanes, torch.int32, self.planes) for _ in range(5))
        launch(follow_picks, lanes, picked.pick, link, regions, anchor, lanes, here)
        anchor, smallest = settled(anchor, regions, here, RUN), picked.smallest
        launch(find_smallest, lanes, anchor, regions, smallest, lanes, here)
        groups = unset(self.images, torch.int32, self.planes)
        launch(number_firsts, self.images * SCAN, anchor, smallest, regions, numbers, groups, here, block=SCAN)
        members, end = (unset(self.images * room, torch.int32, self.planes) for _ in range(2))
        launch(clear_members, members.numel(), members, groups, members.numel(), room)
        launch(
            number_members, lanes, anchor, smallest, numbers, regions, anchor if zone is None else zone, component, place, members,
            lanes, here, room, ZONED=zone is not None,
        )  # fmt: skip
        launch(sum_members, self.images * SCAN, members, groups, end, room, block=SCAN)
        launch(list_members, lanes, component, place, members, end, regions, listed, lanes, here, room)
        standing = regions if hidden is None else regions - hidden
        return Round((here, room), standing, groups, self.made, picked.other, component, members, end, listed)

    def joined(self, level: Level, one: Round, picked: Picked, ordered: Tensor) -> tuple[Tensor, Tensor]:
        """Make the nodes of a round; returns the rows and nodes of the next level."""
        here, room = one.room
        lanes = self.images * room
        rows, node = unset(lanes * self.row, torch.float32, self.planes), unset(lanes, torch.int32, self.planes)
        zoned = self.planted is not None and not self.rounds
        launch(
            absorb, lanes, level.rows, self.planted.node if self.planted and zoned else level.node, rows, node,
            ordered, one.members, one.end, one.groups, one.made, picked.best, picked.pick, one.other,
            self.parent, self.left, self.right, self.pick, self.level, self.altitude, self.size, self.terms,
            lanes, self.pixels, here, room, self.inner, self.inverse_floor, self.rule.precision, len(self.rounds) + 1,
            C=self.channels, WEIGHTED=self.rule.weighted, COST=int(self.rule.cost), LEAF=not self.rounds, ZONED=zoned,
            PICKS=self.picks, SQUARES=self.squares,
            block=WARP, groups=self.groups,
        )  # fmt: skip
        launch(
            region_energies, lanes, rows, one.groups, lanes, room, self.inverse_floor, C=self.channels, WEIGHTED=self.rule.weighted
        )
        return rows, node

    def tables(self, one: Round) -> tuple[Tensor, Tensor, int]:
        """Empty tables of edges, and of their lengths, of 2^shift slots per image, for the regions that a round has made."""
        shift = (4 * one.room[1] - 1).bit_length()  # planar graphs have fewer than three edges per vertex
        slots = self.images << shift
        table, lengths = unset(slots, torch.int64, self.planes), unset(slots, torch.int32, self.planes)
        launch(clear_tables, slots, table, lengths, one.groups, slots, shift)
        return table, lengths, shift

    def level_of(self, one: Round, table: Tensor, lengths: Tensor, shift: int) -> Level:
        """The regions that a round inside zones has made: which touch is all that is known of them."""
        nothing = unset(0, torch.int32, self.planes)
        return Level(one.room[1], one.groups, self.planes, nothing, table, lengths, shift)

    def touching(self, level: Level, one: Round) -> tuple[Tensor, Tensor, int]:
        """The edges between the regions of the next level, and their lengths."""
        table, lengths, shift = self.tables(one)
        for add in (False, True):
            if self.rounds[1:]:
                self.add_edges(level, one, table, lengths, shift, add)
            else:
                near, lanes = self.grid, self.images * self.pixels
                launch(
                    touch_leaves, lanes, one.component, near[0], table, lengths, lanes, self.pixels, *near[1:], (1 << shift) - 1,
                    shift, MASKED=self.leaves.near is not None, LENGTHS=add, block=WARP,
                )  # fmt: skip
        return table, lengths, shift

    def add_edges(self, level: Level, one: Round, table: Tensor, lengths: Tensor, shift: int, add: bool) -> None:
        """Put the edges of a level's regions between those of the next into tables, or add up their lengths there."""
        slots = level.pairs.numel()
        launch(
            touch_regions, slots, level.pairs, level.lengths, level.regions, one.component, table, lengths, slots, level.shift,
            one.room[0], (1 << shift) - 1, shift, LENGTHS=add, block=WARP,
        )  # fmt: skip

    def finished(self, level: Level) -> Forest:
        """The finished trees."""
        energy, gain = self.of_nodes(0.0, torch.float32), unset(self.inner, torch.float32, self.planes)
        if not self.squares:
            launch(
                node_energies, self.inner, self.terms, self.size, energy, self.inner, self.pixels, self.inner, G=self.groups
            )  # fmt: skip
        launch(
            node_gains, self.inner, self.terms, self.size, energy, self.left, self.right, gain, self.inner, self.pixels,
            self.inner, C=self.channels, SQUARES=self.squares,
        )  # fmt: skip
        fields = (self.parent, self.left, self.right, self.level, self.altitude, gain)
        parent, left, right, levels, altitude, gain = (field.view(self.images, -1) for field in fields)
        pick = self.pick.view(self.images, -1)
        forest = Forest(parent, left, right, levels, altitude, gain, pick, tuple(self.rounds), self.planted is not None)
        if self.leaves.pieces > 1:
            alone = torch.arange(self.pixels, device=gain.device).expand(self.images, -1)  # pixels that touch no other
            roots = level.node.view(self.images, -1) if self.rounds else alone
            join_pieces(forest, roots[:, : self.leaves.pieces].to(torch.int64))
        return forest


def join_pieces(forest: Forest, roots: Tensor) -> None:
    """Join the pieces of a mask that do not touch, in their order; cuts always split these nodes. roots: (B, pieces) nodes."""
    count, leaves = int(roots.shape[1]), int(forest.left.shape[1]) + 1
    new = torch.arange(2 * leaves - count, 2 * leaves - 1, device=roots.device).expand(len(roots), -1)
    left, right = torch.cat((roots[:, :1], new[:, :-1]), 1), roots[:, 1:]
    for child in (left, right):
        forest.parent.scatter_(1, child, new.to(torch.int32))
    level = forest.level.amax(1, keepdim=True) + 1
    forest.left[:, leaves - count :], forest.right[:, leaves - count :] = left.to(torch.int32), right.to(torch.int32)
    forest.level[:, 2 * leaves - count :] = level
    forest.altitude[:, 2 * leaves - count :] = torch.inf
    forest.gain[:, leaves - count :] = torch.inf
    if forest.pick.shape[1]:
        forest.pick[:, leaves - count :] = left.to(torch.int32)
