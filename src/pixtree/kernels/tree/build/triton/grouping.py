"""Components of the picks, and the order in which their members join: chains of any length in a fixed number of launches."""

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl
from torch import Tensor

from pixtree.kernels.arithmetic.triton import FAR
from pixtree.runtime.launch import RUN, SCAN, filled, launch, unset

if TYPE_CHECKING:
    from pixtree.kernels.tree.build.triton import Round

_RUN = tl.constexpr(RUN)


@triton.jit
def lanes_of(lanes, count, N, BLOCK: tl.constexpr):
    """The region of every lane: lane, image, number in its image, and whether it is there."""
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = lane // N
    i = lane - image * N
    return lane, image, i, (lane < lanes) & (i < tl.load(count + image, mask=lane < lanes, other=0))


@triton.jit
def follow_picks(pick, other, count, anchor, lanes, N, BLOCK: tl.constexpr):
    """anchor = where the picks lead in `RUN` steps: the smaller end of the mutual pair that ends a chain, or part way."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    base = image.to(tl.int64) * N
    here = i
    pair = tl.load(pick + lane, mask=there, other=FAR)
    steps = tl.zeros_like(i)
    going = there
    while tl.max(going.to(tl.int32), 0) > 0:
        far = tl.load(other + base + here, mask=going, other=0)
        theirs = tl.load(pick + base + far, mask=going, other=FAR)
        mutual = theirs == pair
        here = tl.where(going, tl.where(mutual, tl.minimum(here, far), far), here)
        pair = tl.where(going, theirs, pair)
        steps += 1
        going = going & (theirs != FAR) & (steps < _RUN) & (mutual == 0)
    tl.store(anchor + lane, here, mask=there)


@triton.jit
def follow_anchors(anchor, count, further, lanes, N, BLOCK: tl.constexpr):
    """further = where anchors lead in `RUN` steps; an anchor of its own ends a chain."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    base = image.to(tl.int64) * N
    here = tl.load(anchor + lane, mask=there, other=0)
    steps = tl.zeros_like(i)
    going = there
    while tl.max(going.to(tl.int32), 0) > 0:
        far = tl.where(going, tl.load(anchor + base + here, mask=going, other=0), here)
        steps += 1
        going = going & (far != here) & (steps < _RUN)
        here = far
    tl.store(further + lane, here, mask=there)


def settled(pointer: Tensor, count: Tensor, room: int, reach: int = 1) -> Tensor:
    """Pointers (B·N,) to their ends, which point to themselves, N being the room; each leads `reach` steps already."""
    while reach < room:
        further = torch.empty_like(pointer)
        launch(follow_anchors, pointer.numel(), pointer, count, further, pointer.numel(), room)
        pointer, reach = further, reach * RUN
    return pointer


@triton.jit
def find_smallest(anchor, count, smallest, lanes, N, BLOCK: tl.constexpr):
    """smallest[anchor] = the first region that ends there; it begins as the anchor itself."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    root = tl.load(anchor + lane, mask=there, other=0)
    tl.atomic_min(smallest + image.to(tl.int64) * N + root, i, mask=there & (i < root), sem="relaxed")


@triton.jit
def number_firsts(anchor, smallest, count, numbers, groups, N, BLOCK: tl.constexpr):
    """numbers = how many components have begun up to a region, and groups = how many there are. One program per image."""
    image = tl.program_id(0)
    base, total = image.to(tl.int64) * N, tl.load(count + image)
    found = total * 0
    for start in range(0, total, BLOCK):
        i = start + tl.arange(0, BLOCK)
        there = i < total
        root = tl.load(anchor + base + i, mask=there, other=0)
        first = (there & (tl.load(smallest + base + root, mask=there, other=-1) == i)).to(tl.int32)
        tl.store(numbers + base + i, tl.cumsum(first, 0) + found, mask=there)
        found += tl.sum(first, 0)
    tl.store(groups + image, found)


@triton.jit
def sum_members(members, groups, end, M, BLOCK: tl.constexpr):
    """end = the members of the components up to and including each. One program per image."""
    image = tl.program_id(0)
    base, total = image.to(tl.int64) * M, tl.load(groups + image)
    found = total * 0
    for start in range(0, total, BLOCK):
        g = start + tl.arange(0, BLOCK)
        size = tl.load(members + base + g, mask=g < total, other=0)
        tl.store(end + base + g, tl.cumsum(size, 0) + found, mask=g < total)
        found += tl.sum(size, 0)


@triton.jit
def clear_members(members, groups, lanes, M, BLOCK: tl.constexpr):
    """No members yet, of the components that there are."""
    lane, image, g, there = lanes_of(lanes, groups, M, BLOCK)
    tl.store(members + lane, tl.zeros([BLOCK], tl.int32), mask=there)


@triton.jit
def number_members(
    anchor, smallest, numbers, count, zone, component, place, members, lanes, N, M, ZONED: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """The component of every region, numbered by first member, a place in it that no other member has, and how many they are.

    ZONED: regions are pixels, and the first one of a flat zone stands for all of it; the others have the place −1.
    """
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    base = image.to(tl.int64) * N
    root = tl.load(anchor + lane, mask=there, other=0)
    first = tl.load(smallest + base + root, mask=there, other=0)
    group = tl.load(numbers + base + first, mask=there, other=1) - 1
    tl.store(component + lane, group, mask=there)
    counted = there
    if ZONED:
        hangs = tl.load(zone + lane, mask=there, other=-1)
        counted = there & ((hangs < 0) | (hangs == i))
    at = tl.atomic_add(members + image.to(tl.int64) * M + group, 1, mask=counted, sem="relaxed")
    tl.store(place + lane, tl.where(counted, at, -1), mask=there)


@triton.jit
def place_pixels(component, count, place, members, lanes, N, M, BLOCK: tl.constexpr):
    """A place for every pixel in its component, and how many there are: all of them, those of zones as well."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    group = tl.load(component + lane, mask=there, other=0)
    at = tl.atomic_add(members + image.to(tl.int64) * M + group, 1, mask=there, sem="relaxed")
    tl.store(place + lane, at, mask=there)


@triton.jit
def list_members(component, place, members, end, count, listed, lanes, N, M, BLOCK: tl.constexpr):
    """The members of every component, one component after the other, each in no order."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    group = image.to(tl.int64) * M + tl.load(component + lane, mask=there, other=0)
    begin = tl.load(end + group, mask=there, other=0) - tl.load(members + group, mask=there, other=0)
    own = tl.load(place + lane, mask=there, other=-1)
    tl.store(listed + image.to(tl.int64) * N + begin + own, i, mask=own >= 0)


@triton.jit
def keys_of(best, pick, base, x, on, BY_NUMBER: tl.constexpr):
    """What members are ordered by, before their own numbers: the keys and ends of the edges that they picked, or nothing."""
    if BY_NUMBER:
        key, pair = tl.zeros(x.shape, tl.int64), tl.zeros(x.shape, tl.int64)
    else:
        key, pair = tl.load(best + base + x, mask=on, other=FAR), tl.load(pick + base + x, mask=on, other=FAR)
    return key, pair


@triton.jit
def comes_before(key_a, pair_a, a, key_b, pair_b, b):
    """Whether member a joins before member b."""
    return (key_a < key_b) | ((key_a == key_b) & ((pair_a < pair_b) | ((pair_a == pair_b) & (a < b))))


@triton.jit
def position_of(listed, component, members, end, count, lanes, N, M, BLOCK: tl.constexpr):
    """What lies at the lane's position in the list: the member, where its component begins, its size, and the place in it."""
    lane, image, i, there = lanes_of(lanes, count, N, BLOCK)
    base = image.to(tl.int64) * N
    x = tl.load(listed + lane, mask=there, other=0)
    group = image.to(tl.int64) * M + tl.load(component + base + x, mask=there, other=0)
    k = tl.load(members + group, mask=there, other=0)
    begin = tl.load(end + group, mask=there, other=0) - k
    return base, x, begin, k, i - begin, there


@triton.jit
def sort_runs(
    listed, component, members, end, count, best, pick, ordered, lanes, N, M, BY_NUMBER: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    """ordered = the list with every run of `RUN` members of a component in order: each member counts those before it."""
    base, x, begin, k, within, there = position_of(listed, component, members, end, count, lanes, N, M, BLOCK)
    key, pair = keys_of(best, pick, base, x, there, BY_NUMBER)
    run = within // _RUN * _RUN
    length = tl.where(there, tl.minimum(k - run, _RUN), 0)
    rank = tl.zeros_like(x)
    for j in range(0, tl.max(length, 0)):
        on = there & (j < length)
        y = tl.load(listed + base + begin + run + j, mask=on, other=0)
        key_y, pair_y = keys_of(best, pick, base, y, on, BY_NUMBER)
        rank += (on & comes_before(key_y, pair_y, y, key, pair, x)).to(tl.int32)
    tl.store(ordered + base + begin + run + rank, x, mask=there)


@triton.jit
def merge_runs(
    listed, component, members, end, count, best, pick, ordered, lanes, N, M, width,
    BY_NUMBER: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """ordered = the list with every `RUN` sorted runs of `width` members merged: each member searches the other runs."""
    base, x, begin, k, within, there = position_of(listed, component, members, end, count, lanes, N, M, BLOCK)
    key, pair = keys_of(best, pick, base, x, there, BY_NUMBER)
    block = within // (width * _RUN) * (width * _RUN)
    own = within // width * width
    to = block + within - own
    runs = tl.where(there & (k > width), (tl.minimum(k - block, width * _RUN) + width - 1) // width, 0)
    for r in range(0, tl.max(runs, 0)):
        start = block + r * width
        low = tl.zeros_like(x)
        high = tl.where((r < runs) & (start != own), tl.minimum(k - start, width), 0)
        while tl.max(high - low, 0) > 0:
            on = low < high
            middle = (low + high) // 2
            y = tl.load(listed + base + begin + start + middle, mask=on, other=0)
            key_y, pair_y = keys_of(best, pick, base, y, on, BY_NUMBER)
            before = on & comes_before(key_y, pair_y, y, key, pair, x)
            low = tl.where(before, middle + 1, low)
            high = tl.where(on & (before == 0), middle, high)
        to += low
    tl.store(ordered + base + begin + to, x, mask=there)


def ordered_members(one: "Round", best: Tensor | None, pick: Tensor | None) -> Tensor:
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


def of_all_pixels(one: "Round") -> "Round":
    """A first round in which pixels stood for flat zones, with the members that they stood for."""
    (here, room), images = one.room, len(one.regions)
    lanes, count = images * here, filled(images, here, torch.int32, one.component)
    place, listed = (unset(lanes, torch.int32, one.component) for _ in range(2))
    members, end = filled(images * room, 0, torch.int32, one.component), torch.empty_like(one.end)
    launch(place_pixels, lanes, one.component, count, place, members, lanes, here, room)
    launch(sum_members, images * SCAN, members, one.groups, end, room, block=SCAN)
    launch(list_members, lanes, one.component, place, members, end, count, listed, lanes, here, room)
    return one._replace(regions=count, members=members, end=end, listed=listed)
