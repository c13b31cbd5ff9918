"""Blends: which of a few colours every pixel of artwork shows, and which pixels are blends of two of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.runtime.jit import inlined, kernel, part
from pixtree.vector.regions.areas import BLEND

Array = NDArray[Any]
NEAR = 12.0  # grey levels in any channel: equal to the eye
SHINE = 0.45  # largest share of a third colour in a blend
REACH = 2  # pixels around a blend in which its colours are looked for
FREQUENT = 16  # colours that a line too thin to show its own may have


@inlined
def blend_of(planes: Array, y: int, x: int, first: Array, second: Array) -> Any:
    """Share of the second colour in a pixel, 0…1, and the squared distance of the pixel from that blend."""
    step, inner = 0.0, 0.0
    for c in range(planes.shape[0]):
        step += (second[c] - first[c]) ** 2
        inner += (planes[c, y, x] - first[c]) * (second[c] - first[c])
    share = min(max(inner / max(step, 1e-6), 0.0), 1.0)
    rest = 0.0
    for c in range(planes.shape[0]):
        rest += (planes[c, y, x] - first[c] - share * (second[c] - first[c])) ** 2
    return share, rest


def nearest_colours(planes: Array, colours: Array, wanted: Array | None = None) -> tuple[Array, Array]:
    """Nearest colour (H, W) int32 of every pixel, and whether it is equal to the eye, (H, W) uint8; 0 for those not wanted."""
    found: tuple[Array, Array] = nearest_among(planes, colours, np.ones(planes.shape[1:], np.bool_) if wanted is None else wanted)
    return found


@kernel
def nearest_among(planes: Array, colours: Array, wanted: Array) -> tuple[Array, Array]:
    """The entries and marks of `nearest_colours`."""
    channels, height, width = planes.shape
    entries, equal = np.zeros((height, width), np.int32), np.zeros((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            if not wanted[y, x]:
                continue
            if x > 0 and wanted[y, x - 1] and entries[y, x - 1] < len(colours):  # most pixels equal the one before
                same = True
                for c in range(channels):
                    same = same and planes[c, y, x] == planes[c, y, x - 1]
                if same:
                    entries[y, x], equal[y, x] = entries[y, x - 1], equal[y, x - 1]
                    continue
            best = np.inf
            for k in range(len(colours)):
                largest, squared = 0.0, 0.0
                for c in range(channels):
                    step = abs(planes[c, y, x] - colours[k, c])
                    largest = max(largest, step)
                    squared += step * step
                if squared < best:
                    best = squared
                    entries[y, x], equal[y, x] = k, 1 if largest <= NEAR else 0
    return entries, equal


@part(allocates=True)
def pure_pixels(entries: Array, equal: Array, colours: int) -> tuple[Array, Array]:
    """Which pixels (H, W) are part of a square of four equal ones, and so not blends; and their number per colour."""
    height, width = entries.shape
    pure = np.zeros((height, width), np.bool_)
    for y in range(height - 1):
        for x in range(width - 1):
            own = entries[y, x]
            alike = entries[y, x + 1] == own and entries[y + 1, x] == own and entries[y + 1, x + 1] == own
            if alike and equal[y, x] and equal[y, x + 1] and equal[y + 1, x] and equal[y + 1, x + 1]:
                pure[y, x], pure[y, x + 1], pure[y + 1, x], pure[y + 1, x + 1] = True, True, True, True
    number = np.zeros(colours, np.int64)
    for y in range(height):
        for x in range(width):
            if pure[y, x]:
                number[entries[y, x]] += 1
    return pure, number


@inlined
def colours_around(entries: Array, pure: Array, equal: Array, number: Array, y: int, x: int, near: Array) -> Any:
    """Colours within reach of a pixel, of squares or of lines that have none, into `near`; how many."""
    count = 0
    for v in range(max(y - REACH, 0), min(y + REACH + 1, entries.shape[0])):
        for u in range(max(x - REACH, 0), min(x + REACH + 1, entries.shape[1])):
            if pure[v, u] or (equal[v, u] and number[entries[v, u]] == 0):
                known = False
                for k in range(count):
                    known = known or near[k] == entries[v, u]
                if not known:
                    near[count] = entries[v, u]
                    count += 1
    return count


@inlined
def layered_blend(planes: Array, y: int, x: int, colours: Array, near: Array, count: int, own: int) -> Any:
    """Whether a pixel is a blend of two colours nearby and a little of a third, and which of the two has the larger part.

    A fill that ends exactly under the outer edge of its outline shines through where the edge is anti-aliased.
    """
    least, blended = SHINE, False
    for i in range(count):
        for j in range(i + 1, count):
            one, two = colours[near[i]], colours[near[j]]
            for k in range(min(len(colours), FREQUENT)):
                if k in (near[i], near[j]):
                    continue
                jj, kk, jk, pj, pk, pp = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
                for c in range(planes.shape[0]):
                    a, b, v = two[c] - one[c], colours[k, c] - one[c], planes[c, y, x] - one[c]
                    jj, kk, jk = jj + a * a, kk + b * b, jk + a * b
                    pj, pk, pp = pj + v * a, pk + v * b, pp + v * v
                determinant = jj * kk - jk * jk
                if determinant < 1e-3 * jj * kk:
                    continue
                s, t = (pj * kk - pk * jk) / determinant, (pk * jj - pj * jk) / determinant
                if s < 0.0 or t < 0.0 or s + t > 1.0 or t >= least or pp - s * pj - t * pk > BLEND * BLEND:
                    continue
                least, blended, own = t, True, near[j] if pj > 0.5 * jj else near[i]
    return blended, own


@kernel
def take_nearer(planes: Array, colours: Array, which: int, wanted: Array, entries: Array, equal: Array) -> None:
    """Give the wanted pixels that are nearer to colour `which` than to the one in `entries` to it, in place."""
    channels, height, width = planes.shape
    for y in range(height):
        for x in range(width):
            if not wanted[y, x]:
                continue
            own, largest, before, now = entries[y, x], 0.0, 0.0, 0.0
            for c in range(channels):
                step = abs(planes[c, y, x] - colours[which, c])
                largest = max(largest, step)
                now += step * step
                before += (planes[c, y, x] - colours[own, c]) ** 2
            if now < before:
                entries[y, x], equal[y, x] = which, 1 if largest <= NEAR else 0


def explain(
    planes: Array, colours: Array, wanted: Array | None = None, nearest: tuple[Array, Array] | None = None
) -> tuple[Array, Array]:
    """The colour (H, W) int32 that has the largest part in each pixel; 1 where it is that colour, 2 a blend, 0 neither, uint8.

    wanted: (H, W) bool, the pixels to look at; others keep their nearest colour. nearest: the result of `nearest_colours`.
    A pixel that has one of the colours, but does not lie in or next to a square of it, may well be a blend of two others.
    """
    entries, equal = nearest_colours(planes, colours, wanted) if nearest is None else nearest
    everywhere = np.ones(entries.shape, np.bool_)
    found: tuple[Array, Array] = explain_pixels(planes, colours, entries, equal, everywhere if wanted is None else wanted)
    return found


@kernel
def explain_pixels(planes: Array, colours: Array, entries: Array, equal: Array, wanted: Array) -> tuple[Array, Array]:
    """The entries and states of `explain`."""
    height, width = planes.shape[1:]
    pure, number = pure_pixels(entries, equal, len(colours))
    found, state = entries.copy(), equal.copy()
    near = np.empty((2 * REACH + 1) ** 2, np.int32)
    for y in range(height):
        for x in range(width):
            own = entries[y, x]
            if not wanted[y, x] or pure[y, x] or (equal[y, x] and number[own] == 0):
                continue
            touches = False
            for v, u in ((y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)):
                if 0 <= v < height and 0 <= u < width and pure[v, u] and entries[v, u] == own:
                    touches = True
            if equal[y, x] and touches:
                continue
            count = colours_around(entries, pure, equal, number, y, x, near)
            best, blended = BLEND * BLEND, False
            for i in range(count):
                for j in range(i + 1, count):
                    share, rest = blend_of(planes, y, x, colours[near[i]], colours[near[j]])
                    if rest < best:
                        best, blended, found[y, x] = rest, True, near[j] if share > 0.5 else near[i]
            if not blended and not equal[y, x]:
                for i in range(count):  # a line so thin that its colour is not to be seen nearby
                    for j in range(min(len(colours), FREQUENT)):
                        share, rest = blend_of(planes, y, x, colours[near[i]], colours[j])
                        if rest < best:
                            best, blended, found[y, x] = rest, True, j if share > 0.5 else near[i]
            if not blended and not equal[y, x]:
                blended, found[y, x] = layered_blend(planes, y, x, colours, near, count, found[y, x])
            if blended:
                state[y, x] = 2
    return found, state


@kernel
def connected(entries: Array, planes: Array, colours: Array) -> Array:
    """Entries (H, W) in which no line hangs together by the corner of a pixel only: the colour with the larger part takes over."""
    height, width = entries.shape
    entries = entries.copy()
    for y in range(height - 1):
        for x in range(width - 1):
            a, b = entries[y, x], entries[y, x + 1]
            if a == b or entries[y + 1, x + 1] != a or entries[y + 1, x] != b:
                continue
            one, _ = blend_of(planes, y, x, colours[a], colours[b])
            two, _ = blend_of(planes, y, x + 1, colours[a], colours[b])
            three, _ = blend_of(planes, y + 1, x, colours[a], colours[b])
            four, _ = blend_of(planes, y + 1, x + 1, colours[a], colours[b])
            if one + two + three + four < 2.0:  # the first colour has the larger part
                if two < three:
                    entries[y, x + 1] = a
                else:
                    entries[y + 1, x] = a
            elif one > four:
                entries[y, x] = b
            else:
                entries[y + 1, x + 1] = b
    return entries
