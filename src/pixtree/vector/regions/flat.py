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
from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.regions.areas import BLEND, LONG, flat_pixels, is_page, photographs, ruled_pixels
from pixtree.vector.regions.blends import FREQUENT, NEAR, connected, explain, nearest_colours, take_nearer
from pixtree.vector.regions.colours import packed, unpacked
from pixtree.vector.regions.words import with_words

Array = NDArray[Any]
MOST_COLOURS = 64
CANDIDATES = 4096  # colours that are looked at, the most frequent first
SAME = 2.0  # grey levels in any channel: equal but for rounding
PEAK = 0.6  # share that a flat colour has of all pixels near it; in a gradient it is about a tenth
STEP = 40.0  # grey levels by which near colours are told apart when areas are joined
FEWEST = 4  # pixels of a colour
LARGE = 0.001  # share of the pixels from which on a colour is kept apart from another one near it
NEVER = 1 << 62
USUAL = 1000  # shapes of a photograph by default
STRAIGHT = 0.08  # share of the boundaries of a page that run straight
FLAT = 0.9  # share of the pixels that a palette must explain in artwork
FEWEST_EQUAL = 0.3  # share of the pixels that are not blends: with fewer it is not artwork, and the search ends
SOFT = 0.02  # share of the visible pixels in soft shadows, above which an image with alpha is not flat
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

    def steps(self) -> NDArray[np.float32]:
        """Values (1, H, W) that are at least STEP apart where two colours are nearer than that, and 0 in photographs.

        As one more plane, they keep small areas from being joined to others of almost the same colour.
        """
        apart = ((self.colours[:, None] - self.colours[None]) ** 2).sum(axis=2)
        step = np.zeros(len(self.colours), np.float32)
        for entry in range(1, len(step)):
            taken = set(step[:entry][apart[entry, :entry] < STEP**2].tolist())
            step[entry] = next(STEP * k for k in range(len(taken) + 1) if STEP * k not in taken)
        return np.where(self.photographs, np.float32(0), step[self.entries])[None]

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
    nearest, equal = nearest_colours(planes, colours, drawn)
    if equal[drawn].mean() < FEWEST_EQUAL:
        return FlatColours(colours, nearest, float(equal[drawn].mean()), photos)
    colours, entries, explained = _with_lines(planes, colours, drawn, (nearest.copy(), equal.copy()))
    for k in range(len(colours) - 1, areas - 1, -1):
        if is_blend(colours, k):  # the rim of a thin line, found before the line's own colour
            fewer = np.delete(colours, k, axis=0)
            less_entries, less = explain(planes, fewer, drawn)
            if np.count_nonzero(less[drawn]) >= np.count_nonzero(explained[drawn]):
                colours, entries, explained = fewer, less_entries, less
    entries = with_words(
        np.where(ruled, nearest, entries), planes, colours, nearest_colours(planes, colours, drawn), drawn & ~ruled
    )
    entries = connected(entries, planes, colours)
    return FlatColours(colours, entries, float((explained[drawn] != 0).mean()), photos)


def _with_lines(
    planes: Array, colours: Array, drawn: Array, nearest: tuple[Array, Array]
) -> tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.uint8]]:
    """The colours (K, C) with those of lines too thin to have an inside, and the entries and states (H, W) of the pixels drawn.

    nearest: those of `nearest_colours`, which change as colours are found.
    """
    entries, explained = explain(planes, colours, drawn, nearest)
    for _ in range(ROUNDS):
        unknown = (explained == 0) & drawn
        if not unknown.any() or len(colours) >= MOST_COLOURS:
            break
        more = _peaks(planes[:, unknown], 1)
        if not len(more) or (len(colours) and np.abs(colours - more).max(axis=1).min() <= NEAR):
            break
        colours = np.concatenate((colours, more))
        take_nearer(planes, colours, len(colours) - 1, drawn, *nearest)
        found, state = explain(planes, colours, unknown, nearest)  # what is explained already can wait
        entries, explained = np.where(unknown, found, entries), np.where(unknown, state, explained)
    entries, explained = explain(planes, colours, drawn, nearest)
    return colours, entries, explained


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

    Of pixels that equal a colour found before, none counts again, unless twice `large` are exactly alike. Two colours near each
    other need `large` pixels each.
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
        if counts[k] // 2 >= large:  # however near another colour is, this is one of its own
            known[k] = False
        elif known[k] or (fewest == large and counts[k] * 4 < large):
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
