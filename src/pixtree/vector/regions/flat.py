"""Flat artwork: the few colours that it is made of, and which of them every pixel shows.

Logos, icons, screenshots and line art are areas of one colour each; the pixels between them are blends of two such colours. A
photograph has no such palette, which distinguishes the two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.kernels import kernels_for
from pixtree.runtime.jit import inlined, kernel, part
from pixtree.vector.regions.areas import BLEND, LONG, flat_pixels, is_page, photographs, ruled_pixels
from pixtree.vector.regions.colours import packed, unpacked

Array = NDArray[Any]
MOST_COLOURS = 64
CANDIDATES = 4096  # colours that are looked at, the most frequent first
SAME, NEAR = 2.0, 12.0  # grey levels in any channel: equal but for rounding, and equal to the eye
PEAK = 0.6  # share that a flat colour has of all pixels near it; in a gradient it is about a tenth
FEWEST = 4  # pixels of a colour
LARGE = 0.001  # share of the pixels from which on a colour is kept apart from another one near it
NEVER = 1 << 62
USUAL = 1000  # shapes of a photograph by default
STRAIGHT = 0.08  # share of the boundaries of a page that run straight
SHINE = 0.45  # largest share of a third colour in a blend
REACH = 2  # pixels around a blend in which its colours are looked for
FLAT = 0.9  # share of the pixels that a palette must explain in artwork
FEWEST_EQUAL = 0.3  # share of the pixels that are not blends: with fewer it is not artwork, and the search ends
SOFT = 0.02  # share of the visible pixels in soft shadows, above which an image with alpha is not flat
FREQUENT = 16  # colours that a line too thin to show its own may have
ROUNDS = 12  # colours of lines too thin to have an inside, found one after the other


@dataclass(frozen=True, eq=False)
class FlatColours:
    """Colours (K, C) of flat artwork, the entry (H, W) int32 of every pixel, and the share of pixels that the colours explain.

    photographs: (H, W) bool, the pixels of photographs among the flat areas, which the palette leaves alone.
    """

    colours: NDArray[np.float32]
    entries: NDArray[np.int32]
    share: float
    photographs: NDArray[np.bool_]

    @property
    def is_artwork(self) -> bool:
        """Whether the image is made of these colours, but for a few pixels."""
        return self.share >= FLAT

    def areas(self) -> int:
        """Number of connected areas of one colour, without specks of fewer than four pixels."""
        pieces: NDArray[np.int32] = kernels_for().connected_pieces(torch.from_numpy(self.entries)).numpy()
        return int(np.count_nonzero(np.bincount(pieces[~self.photographs]) >= FEWEST))

    def usual_paths(self) -> int:
        """Shapes that show every area, and the photographs as coarsely as a photograph of their size alone."""
        return self.areas() + int(USUAL * np.sqrt(self.photographs.mean()))

    def is_straight(self) -> bool:
        """Whether many of its boundaries run along rows and columns, as on pages and not in prints."""
        straight, length = 0, 0
        shown = np.where(self.photographs, -1, self.entries)
        for entries in (shown, shown.T):
            boundary, along = np.diff(entries, axis=0) != 0, np.diff(entries, axis=1) == 0
            goes_on = np.pad(boundary[:, 1:] & along[:-1] & along[1:], ((0, 0), (1, 0)))  # the same two colours as one pixel before
            runs = np.diff(np.flatnonzero((boundary & ~goes_on).ravel()[boundary.ravel()]), append=np.count_nonzero(boundary))
            straight, length = straight + int(runs[runs >= LONG].sum()), length + int(runs.sum())
        return straight >= STRAIGHT * length

    def planes(self, image: Array) -> NDArray[np.float32]:
        """An image (C, H, W) in these colours only, but for its photographs."""
        return np.where(self.photographs, image, self.colours[self.entries].transpose(2, 0, 1))


def flat_colours(planes: NDArray[np.float32]) -> FlatColours:
    """The palette of planes (C, H, W) in 0…255, as far as they are flat.

    First the colours of areas, whose pixels equal all their neighbours. Then, one after the other, the most frequent colour of
    pixels that are neither in the palette nor blends of two of its colours: those of thin lines.
    """
    flat = flat_pixels(planes)
    page = len(planes) == 3 and is_page(flat)  # what is cut out, with alpha, is a logo or an icon
    photos = photographs(flat) if page else np.zeros_like(flat)
    if len(planes) == 4 and _soft_share(planes[3]) > SOFT:
        return FlatColours(np.zeros((0, 4), np.float32), np.zeros(planes.shape[1:], np.int32), 0.0, photos)
    drawn = ~photos
    colours = _peaks(planes[:, _inside(planes) & drawn], MOST_COLOURS, large=int(LARGE * drawn.size) if page else NEVER)
    ruled, colours = _ruled(planes, drawn & page, colours)
    areas = len(colours)
    nearest, equal = nearest_colours(planes, colours)
    if equal[drawn].mean() < FEWEST_EQUAL:
        return FlatColours(colours, nearest, float(equal[drawn].mean()), photos)
    entries, explained = explain(planes, colours)
    for _ in range(ROUNDS):
        unknown = (explained == 0) & drawn
        if not unknown.any() or len(colours) >= MOST_COLOURS:
            break
        more = _peaks(planes[:, unknown], 1)
        if not len(more) or (len(colours) and np.abs(colours - more).max(axis=1).min() <= NEAR):
            break
        colours = np.concatenate((colours, more))
        entries, explained = explain(planes, colours)
    for k in range(len(colours) - 1, areas - 1, -1):
        if is_blend(colours, k):  # the rim of a thin line, found before the line's own colour
            fewer = np.delete(colours, k, axis=0)
            less_entries, less = explain(planes, fewer)
            if np.count_nonzero(less[drawn]) >= np.count_nonzero(explained[drawn]):
                colours, entries, explained = fewer, less_entries, less
    entries = connected(np.where(ruled, nearest, entries), planes, colours)
    return FlatColours(colours, entries, float((explained[drawn] != 0).mean()), photos)


def _ruled(planes: Array, drawn: Array, colours: Array) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
    """The pixels (H, W) of frames and rules, one pixel wide, among those drawn, and the colours (K, C) with theirs."""
    ruled = ruled_pixels(planes) & drawn
    keys, counts = np.unique(packed(planes[:, ruled]), return_counts=True)
    for key in keys[np.argsort(-counts, kind="stable")][:FREQUENT]:
        colour = unpacked(key[None], len(planes)).astype(np.float32)
        if not len(colours) or np.abs(colours - colour).max(axis=1).min() > SAME:
            colours = np.concatenate((colours, colour))
    return ruled, colours


def _soft_share(alpha: Array) -> float:
    """Share of the visible pixels that lie inside a shadow or a glow: partly transparent, as all around them, but not alike."""
    partly = np.pad((alpha > NEAR) & (alpha < 255 - NEAR), 1)
    steps = np.pad(np.abs(np.diff(alpha, axis=0)) > SAME, ((1, 0), (0, 0))) | np.pad(
        np.abs(np.diff(alpha, axis=1)) > SAME, ((0, 0), (1, 0))
    )
    around = partly[:-2, 1:-1] & partly[2:, 1:-1] & partly[1:-1, :-2] & partly[1:-1, 2:]
    soft = partly[1:-1, 1:-1] & around & steps
    return float(soft.sum() / max(np.count_nonzero(alpha > NEAR), 1))


def is_blend(colours: Array, which: int) -> bool:
    """Whether one of the colours (K, C) lies between two others."""
    base = colours[:, None] - colours[which]  # from the colour to each of the others
    for first in range(len(colours)):
        step = colours - colours[first]
        squared = np.maximum((step**2).sum(axis=1), 1e-6)
        share = -(base[first] * step).sum(axis=1) / squared
        rest = ((base[first] + share[:, None] * step) ** 2).sum(axis=1)
        others = np.arange(len(colours)) != which
        if first != which and bool(((rest < BLEND**2) & (share > 0.05) & (share < 0.95) & others).any()):
            return True
    return False


def _inside(planes: Array) -> NDArray[np.bool_]:
    """Which pixels (H, W) equal all of their direct neighbours."""
    inside = np.ones(planes.shape[1:], np.bool_)
    for pixels, values in ((inside, planes), (inside.T, planes.transpose(0, 2, 1))):
        equal = (np.abs(np.diff(values, axis=1)) <= SAME).all(axis=0)
        pixels[:-1] &= equal
        pixels[1:] &= equal
    return inside


def _peaks(values: Array, most: int, large: int = NEVER) -> NDArray[np.float32]:
    """Colours (K, C) that stand out among values (C, P): frequent, and far more so than those near them.

    large: the number of pixels from which on a colour counts although another one near it is more frequent.
    """
    keys, counts = np.unique(packed(values), return_counts=True)
    order = np.argsort(-counts, kind="stable")[:CANDIDATES]
    distinct = unpacked(keys[order], len(values)).astype(np.float32)
    return np.asarray(distinct[outstanding(distinct, counts[order], most, large)])


@kernel
def outstanding(colours: Array, counts: Array, most: int, large: int) -> Array:
    """Up to `most` of the colours (K, C), the most frequent first, that have most of the pixels near them, by their places.

    Of pixels that equal a colour found before, none counts again. Two colours near each other need `large` pixels each.
    """
    found = np.empty(min(most, len(colours)), np.int64)
    known = np.zeros(len(colours), np.bool_)  # equal to a colour that was found
    number = 0
    for k in range(len(colours)):
        if number == len(found) or counts[k] * 4 < FEWEST:
            break
        fewest = FEWEST
        for j in range(number):
            if difference(colours, k, found[j]) <= NEAR:
                fewest = large
        if known[k] or (fewest == large and counts[k] * 4 < large):
            continue
        equal, near = 0, 0
        for j in range(len(colours)):
            if not known[j]:
                distance = difference(colours, k, j)
                equal += counts[j] if distance <= SAME else 0
                near += counts[j] if distance <= SAME or (distance <= NEAR and counts[j] < large) else 0
        if equal >= fewest and equal >= PEAK * near:
            found[number] = k
            number += 1
            for j in range(len(colours)):
                known[j] = known[j] or difference(colours, k, j) <= SAME
    return found[:number]


@inlined
def difference(colours: Array, one: int, two: int) -> Any:
    """The largest difference of two of the colours (K, C) in any channel."""
    largest = 0.0
    for c in range(colours.shape[1]):
        largest = max(largest, abs(colours[one, c] - colours[two, c]))
    return largest


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


@kernel
def nearest_colours(planes: Array, colours: Array) -> tuple[Array, Array]:
    """Nearest colour (H, W) int32 of every pixel, and whether it is equal to the eye, (H, W) uint8."""
    channels, height, width = planes.shape
    entries, equal = np.zeros((height, width), np.int32), np.zeros((height, width), np.uint8)
    for y in range(height):
        for x in range(width):
            if x > 0 and entries[y, x - 1] < len(colours):  # most pixels equal the one before
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
def explain(planes: Array, colours: Array) -> tuple[Array, Array]:
    """The colour (H, W) int32 that has the largest part in each pixel; 1 where it is that colour, 2 a blend, 0 neither, uint8.

    A pixel that has one of the colours, but does not lie in or next to a square of it, may well be a blend of two others.
    """
    height, width = planes.shape[1:]
    entries, equal = nearest_colours(planes, colours)
    pure, number = pure_pixels(entries, equal, len(colours))
    found, state = entries.copy(), equal.copy()
    near = np.empty((2 * REACH + 1) ** 2, np.int32)
    for y in range(height):
        for x in range(width):
            own = entries[y, x]
            if pure[y, x] or (equal[y, x] and number[own] == 0):
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
