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
from pixtree.kernels.tree.build.triton.adjacency import touch_leaves, touch_regions
from pixtree.kernels.tree.build.triton.grouping import (
    find_smallest,
    follow_picks,
    list_members,
    mark_firsts,
    merge_runs,
    number_members,
    settled,
    sort_runs,
)
from pixtree.kernels.tree.build.triton.joining import absorb, node_energies, node_gains, region_energies
from pixtree.kernels.tree.build.triton.leaves import Leaves, leaves_of
from pixtree.kernels.tree.build.triton.picking import choose_edges, key_edges, link_regions, pick_leaves
from pixtree.kernels.tree.zones import Zones
from pixtree.kernels.tree.zones.triton import drawn
from pixtree.runtime.launch import RUN, WARP, filled, launch, unset

MOST_CHANNELS = 16
LARGEST_IMAGE = 2**26  # pixels: lanes are int32, and a table has four slots per region
FAR = torch.iinfo(torch.int64).max


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

    def tree(self, image: int) -> Tree:
        """The tree of one image."""
        return Tree(*(field[image] for field in self[:7]))


class Level(NamedTuple):
    """The regions of one level: N is the room for them, S that of each table."""

    room: int
    regions: Tensor  # (B,) int32: how many
    rows: Tensor  # (B·N, 2C + 2) float32: means, size, squared deviations, energy; planes (B, C, M) of pixels
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
    """The tree of the pixels inside a mask (H, W); features are planes (C, M). Windows and drawn images as defined."""
    if place is None and zones is None and takes(features, rule):
        planes, leaves = features[None].contiguous(), leaves_of(inside)
        if not bool(drawn(planes, leaves)):
            return grow(planes, leaves, rule, picks).tree(0)
    return definition.build(features, inside, rule, picks, place, zones)


def takes(features: Tensor, rule: MergeRule, more: int = 0) -> bool:
    """Whether trees over planes (…, C, M), and `more` of them, grow here by that rule."""
    return not rule.weighted and 0 < features.shape[-2] + more <= MOST_CHANNELS and features.shape[-1] <= LARGEST_IMAGE


def rooms(leaves: int, pieces: int) -> list[int]:
    """Room for the regions of every level: every piece that is not one region yet at least halves."""
    found = [leaves]
    while found[-1] > pieces:
        found.append(pieces + (found[-1] - pieces) // 2 if pieces > 1 else found[-1] // 2)
    return found


def grow(planes: Tensor, leaves: Leaves, rule: MergeRule, picks: bool = False) -> Forest:
    """The trees of planes (B, C, M) float32."""
    images, channels, pixels = planes.shape
    growth = _Growth(planes.contiguous(), leaves, rule, picks)
    planned = rooms(pixels, leaves.pieces)
    count = filled(images, pixels, torch.int32, planes)
    nothing = unset(0, torch.int32, planes)
    level = Level(pixels, count, growth.planes, nothing, nothing, nothing, 0)
    for room in planned[1:]:
        level = growth.advance(level, room)
    return growth.finished(level)


class _Growth:
    """The trees while they grow: the arrays of nodes, and one round after the other."""

    def __init__(self, planes: Tensor, leaves: Leaves, rule: MergeRule, picks: bool) -> None:
        self.planes, self.leaves, self.rule, self.picks = planes, leaves, rule, picks
        self.images, self.channels, pixels = planes.shape
        self.pixels, self.inner = pixels, self.images * (pixels - 1)
        nodes = self.images * (2 * pixels - 1)
        self.groups = -(-self.channels // CHANNELS_PER_LOG)
        self.squares = rule.energy == Energy.SQUARED_ERROR
        self.inverse_floor = float(np.float32(1.0) / np.float32(rule.floor))
        self.parent = filled(nodes, -1, torch.int32, planes)
        self.level = filled(nodes, 0, torch.int16, planes)
        self.altitude = filled(nodes, 0.0, torch.float32, planes)
        self.size = filled(nodes, 1.0, torch.float32, planes)
        # Zeros, since gains are computed of all nodes, those that join the pieces of a mask included.
        self.left, self.right = (filled(self.inner, 0, torch.int32, planes) for _ in range(2))
        self.pick = unset(self.inner if picks else 0, torch.int32, planes)
        self.terms = unset((self.channels if self.squares else self.groups) * self.inner, torch.float32, planes)
        self.made = filled(self.images, 0, torch.int32, planes)
        self.rounds: list[Round] = []

    def advance(self, level: Level, room: int) -> Level:
        """One round: the regions and edges of the next level, which has `room`."""
        best, pick, other, smallest = self.picked(level)
        one = self.grouped(level, room, pick, other, smallest)
        ordered = ordered_members(one, best, pick)
        rows, node = self.joined(level, one, best, ordered)
        self.rounds.append(one)
        self.made = self.made + one.regions - one.groups
        if room == self.leaves.pieces:
            return Level(room, one.groups, rows, node, level.pairs, level.lengths, 0)
        return Level(room, one.groups, rows, node, *self.touching(level, one))

    def picked(self, level: Level) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What every region picked: its key, its ends as a pair, and the region at the other end; and the regions' own numbers."""
        lanes, rule = self.images * level.room, self.rule
        other, smallest = (unset(lanes, torch.int32, self.planes) for _ in range(2))
        known = {"C": self.channels, "QUARTERS": rule.length_quarters}
        ward = rule.cost == Cost.LIKELIHOOD and len(self.rounds) < rule.ward_rounds
        cost = int(Cost.WARD if ward else rule.cost)
        if not self.rounds:
            best, pick = (unset(lanes, torch.int64, self.planes) for _ in range(2))
            grid = self.grid
            launch(
                pick_leaves, lanes, self.planes, grid[0], best, pick, other, smallest, lanes, self.pixels, *grid[1:],
                self.inverse_floor, COST=cost, MASKED=self.leaves.near is not None, **known,
            )  # fmt: skip
            return best, pick, other, smallest
        best, pick = (filled(lanes, FAR, torch.int64, self.planes) for _ in range(2))
        slots = level.pairs.numel()
        key = unset(slots, torch.int64, self.planes)
        launch(
            key_edges, slots, level.pairs, level.lengths, level.rows, key, best, slots, level.shift, level.room,
            self.inverse_floor, COST=cost, **known,
        )  # fmt: skip
        launch(choose_edges, slots, level.pairs, key, best, pick, slots, level.shift, level.room)
        launch(link_regions, lanes, pick, level.regions, other, smallest, lanes, level.room)
        return best, pick, other, smallest

    @property
    def grid(self) -> tuple[Tensor, int, int]:
        """The neighbours inside a mask, or anything without one, and the height and width."""
        return self.planes if self.leaves.near is None else self.leaves.near, *self.leaves.shape

    def grouped(self, level: Level, room: int, pick: Tensor, other: Tensor, smallest: Tensor) -> Round:
        """The components of the picks, numbered by first member, and their members."""
        here, lanes, count = level.room, self.images * level.room, level.regions
        anchor, component, place, listed, is_first = (unset(lanes, torch.int32, self.planes) for _ in range(5))
        launch(follow_picks, lanes, pick, other, count, anchor, lanes, here)
        anchor = settled(anchor, count, here, RUN)
        launch(find_smallest, lanes, anchor, count, smallest, lanes, here)
        launch(mark_firsts, lanes, anchor, smallest, count, is_first, lanes, here)
        numbers = is_first.view(self.images, here).cumsum(1, dtype=torch.int32)
        groups = numbers[:, -1].contiguous()
        members = filled(self.images * room, 0, torch.int32, self.planes)
        launch(number_members, lanes, anchor, smallest, numbers, count, component, place, members, lanes, here, room)
        end = members.view(self.images, room).cumsum(1, dtype=torch.int32).flatten()
        launch(list_members, lanes, component, place, members, end, count, listed, lanes, here, room)
        return Round((here, room), count, groups, self.made, other, component, members, end, listed)

    def joined(self, level: Level, one: Round, best: Tensor, ordered: Tensor) -> tuple[Tensor, Tensor]:
        """Make the nodes of a round; returns the rows and nodes of the next level."""
        here, room = one.room
        lanes = self.images * room
        rows, node = unset(lanes * (2 * self.channels + 2), torch.float32, self.planes), unset(lanes, torch.int32, self.planes)
        known = {"C": self.channels, "LEAF": not self.rounds, "PICKS": self.picks, "SQUARES": self.squares}
        launch(
            absorb, lanes, level.rows, level.node, rows, node, ordered, one.members, one.end, one.groups, one.made, best, one.other,
            self.parent, self.left, self.right, self.pick, self.level, self.altitude, self.size, self.terms,
            lanes, self.pixels, here, room, self.inner, self.inverse_floor, len(self.rounds) + 1,
            block=WARP, groups=self.groups, **known,
        )  # fmt: skip
        launch(region_energies, lanes, rows, one.groups, lanes, room, self.inverse_floor, C=self.channels)
        return rows, node

    def touching(self, level: Level, one: Round) -> tuple[Tensor, Tensor, int]:
        """The edges between the regions of the next level, and their lengths."""
        here, room = one.room
        shift = (4 * room - 1).bit_length()  # planar graphs have fewer than three edges per vertex
        table = filled(self.images << shift, FAR, torch.int64, self.planes)
        lengths = filled(self.images << shift, 0, torch.int32, self.planes)
        last = (1 << shift) - 1
        for add in (False, True):
            if not self.rounds[1:]:
                near, lanes = self.grid, self.images * self.pixels
                launch(
                    touch_leaves, lanes, one.component, near[0], table, lengths, lanes, self.pixels, *near[1:], last, shift,
                    MASKED=self.leaves.near is not None, LENGTHS=add, block=WARP,
                )  # fmt: skip
            else:
                slots = level.pairs.numel()
                launch(
                    touch_regions, slots, level.pairs, level.lengths, one.component, table, lengths, slots, level.shift, here,
                    last, shift, LENGTHS=add, block=WARP,
                )  # fmt: skip
        return table, lengths, shift

    def finished(self, level: Level) -> Forest:
        """The finished trees."""
        energy, gain = filled(self.size.numel(), 0.0, torch.float32, self.planes), unset(self.inner, torch.float32, self.planes)
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
        forest = Forest(parent, left, right, levels, altitude, gain, pick, tuple(self.rounds))
        if self.leaves.pieces > 1:
            alone = torch.arange(self.pixels, device=gain.device).expand(self.images, -1)  # pixels that touch no other
            roots = level.node.view(self.images, -1) if self.rounds else alone
            join_pieces(forest, roots[:, : self.leaves.pieces].to(torch.int64))
        return forest


def ordered_members(one: Round, best: Tensor | None, pick: Tensor | None) -> Tensor:
    """The members of every component in the order of the keys and ends of what they picked, or without these of their numbers."""
    here, room = one.room
    lanes, by_number = one.listed.numel(), best is None
    keys = (one.listed if best is None else best, one.listed if pick is None else pick)
    fixed = (one.component, one.members, one.end, one.regions, *keys)
    ordered = torch.empty_like(one.listed)
    launch(sort_runs, lanes, one.listed, *fixed, ordered, lanes, here, room, BY_NUMBER=by_number)
    width = RUN
    while width < here:
        merged = torch.empty_like(ordered)
        launch(merge_runs, lanes, ordered, *fixed, merged, lanes, here, room, width, BY_NUMBER=by_number)
        ordered, width = merged, width * RUN
    return ordered


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
