"""Lines thinner than a pixel: every pixel holds more of the colour around it than of theirs, but they are crests of it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.regions.areas import BLEND
from pixtree.vector.regions.blends import FREQUENT, REACH, blend_of

Array = NDArray[Any]
LEAST = 0.12  # share of its colour in a pixel of a line
CREST = 0.25  # of the share over those of both neighbours across the line, added up
LEVEL = 0.02  # differences of shares that do not count
FEWEST = 4  # pixels of a line that shows nowhere else
FAINT = 20.0  # grey levels from the surrounding colour below which nothing is a line
ACROSS = ((0, 1), (1, 0), (1, 1), (1, -1))


def with_thin_lines(entries: NDArray[np.int32], planes: Array, colours: Array, wanted: Array | None = None) -> NDArray[np.int32]:
    """Entries (H, W) of planes (C, H, W) in which lines thinner than a pixel have the entry of their colour (K, C).

    Their outlines then follow from the shares, as all others do. wanted: (H, W) bool, the pixels that may be part of lines.
    """
    crests = crests_of(entries, planes, colours, wanted)
    return np.asarray(joined(entries, kept_lines(entries, crests), planes, colours))


@inlined
def is_crest(planes: Array, y: int, x: int, ground: Array, colour: Array, share: float) -> Any:
    """Whether in some direction both neighbours of a pixel hold less of a colour than it does."""
    height, width = planes.shape[1:]
    for down, along in ACROSS:
        if not (down <= y < height - down and abs(along) <= x < width - abs(along)):
            continue
        one, _ = blend_of(planes, y - down, x - along, ground, colour)
        two, _ = blend_of(planes, y + down, x + along, ground, colour)
        if share >= one - LEVEL and share >= two - LEVEL and 2.0 * share - one - two >= CREST:
            return True
    return False


@inlined
def is_line(planes: Array, y: int, x: int, ground: Array, colour: Array, share: float) -> Any:
    """Whether a pixel may be part of a line of a colour: a crest of it where the ground has the larger part all around."""
    if share < LEAST or not is_crest(planes, y, x, ground, colour, share):
        return False
    height, width = planes.shape[1:]
    total, count = 0.0, 0
    for v in range(max(y - REACH, 0), min(y + REACH + 1, height)):
        for u in range(max(x - REACH, 0), min(x + REACH + 1, width)):
            own, _ = blend_of(planes, v, u, ground, colour)
            total += own
            count += 1
    return total < 0.5 * count


def crests_of(entries: Array, planes: Array, colours: Array, wanted: Array | None = None) -> NDArray[np.int32]:
    """The colour (H, W) int32 of the line that a pixel may be part of, one that lies nearby if there is any; −1 for none."""
    return np.asarray(crests_among(entries, planes, colours, np.ones(entries.shape, np.bool_) if wanted is None else wanted))


@kernel
def crests_among(entries: Array, planes: Array, colours: Array, wanted: Array) -> Array:
    """The colours of `crests_of`, −1 for pixels that are not wanted."""
    height, width = entries.shape
    crests = np.full((height, width), -1, np.int32)
    for y in range(height):
        for x in range(width):
            if not wanted[y, x]:
                continue
            own = entries[y, x]
            distance = 0.0
            for c in range(planes.shape[0]):
                distance += (planes[c, y, x] - colours[own, c]) ** 2
            if distance < FAINT * FAINT:
                continue
            best = BLEND * BLEND
            for v in range(max(y - REACH, 0), min(y + REACH + 1, height)):
                for u in range(max(x - REACH, 0), min(x + REACH + 1, width)):
                    k = entries[v, u]
                    if k != own and k != crests[y, x]:
                        share, rest = blend_of(planes, y, x, colours[own], colours[k])
                        if rest < best and is_line(planes, y, x, colours[own], colours[k], share):
                            best, crests[y, x] = rest, k
            if crests[y, x] >= 0:
                continue
            for k in range(min(len(colours), FREQUENT)):
                share, rest = blend_of(planes, y, x, colours[own], colours[k])
                if k != own and rest < best and is_line(planes, y, x, colours[own], colours[k], share):
                    best, crests[y, x] = rest, k
    return crests


@inlined
def in_square(entries: Array, y: int, x: int) -> Any:
    """Whether a pixel is part of a square of four with one entry: of an area, not of a line."""
    height, width = entries.shape
    own = entries[y, x]
    for v in range(max(y - 1, 0), min(y + 1, height - 1)):
        for u in range(max(x - 1, 0), min(x + 1, width - 1)):
            if entries[v, u] == own and entries[v, u + 1] == own and entries[v + 1, u] == own and entries[v + 1, u + 1] == own:
                return True
    return False


@kernel
def kept_lines(entries: Array, crests: Array) -> Array:
    """The crests (H, W) that go on with a line of their colour or are long enough, −1 elsewhere: an area's tip is not a line."""
    height, width = entries.shape
    kept = np.full((height, width), -1, np.int32)
    seen = np.zeros((height, width), np.bool_)
    waiting = np.empty((height * width, 2), np.int32)
    for y0 in range(height):
        for x0 in range(width):
            colour = crests[y0, x0]
            if colour < 0 or seen[y0, x0]:
                continue
            waiting[0, 0], waiting[0, 1], count, at, touching = y0, x0, 1, 0, False
            seen[y0, x0] = True
            while at < count:
                y, x = waiting[at, 0], waiting[at, 1]
                at += 1
                for v in range(max(y - 1, 0), min(y + 2, height)):
                    for u in range(max(x - 1, 0), min(x + 2, width)):
                        touching = touching or (entries[v, u] == colour and not in_square(entries, v, u))
                        if crests[v, u] == colour and not seen[v, u]:
                            seen[v, u] = True
                            waiting[count, 0], waiting[count, 1] = v, u
                            count += 1
            if touching or count >= FEWEST:
                for k in range(count):
                    kept[waiting[k, 0], waiting[k, 1]] = colour
    return kept


@kernel
def joined(entries: Array, lines: Array, planes: Array, colours: Array) -> Array:
    """Entries with the lines in them; where only a pixel's corner connects one, the better of the two pixels next to it joins."""
    height, width = entries.shape
    found = entries.copy()
    for y in range(height):
        for x in range(width):
            if lines[y, x] >= 0:
                found[y, x] = lines[y, x]
    for y in range(height - 1):
        for x in range(width - 1):
            for side in range(2):
                a, b = x + side, x + 1 - side  # the columns of the upper and the lower pixel on the diagonal
                colour = found[y, a]
                if colour != found[y + 1, b] or found[y, b] == colour or found[y + 1, a] == colour:
                    continue
                if lines[y, a] != colour and lines[y + 1, b] != colour:
                    continue
                upper, _ = blend_of(planes, y, b, colours[entries[y, b]], colours[colour])
                lower, _ = blend_of(planes, y + 1, a, colours[entries[y + 1, a]], colours[colour])
                if upper >= lower:
                    found[y, b] = colour
                else:
                    found[y + 1, a] = colour
    return found
