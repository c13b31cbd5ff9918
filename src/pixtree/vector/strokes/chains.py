"""Chains: the strong parts of contours, joined to long lines where they go on through a junction."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pixtree.vector.strokes.contours import Contours

Array = NDArray[Any]
End = tuple[int, int]  # the number of a part, and 1 for its last point or 0 for its first
FEWEST = 3  # samples of a part
STRAIGHT = 0.5  # least cosine between two lines that go on as one through a junction
REACH = 6  # samples by which the direction of an end is judged
WORM = 8  # samples over which a line is averaged to see whether it winds
UPPER = 0.7  # quantile of the strength along a line that counts as its own
GRID, NEAR = 2, 1  # pixels of a cell, and cells from a line within which another says the same again
MOST_BESIDE = 0.5  # share of a line that may run beside stronger ones


@dataclass(frozen=True, eq=False)
class Chain:
    """A line: points (P, 2) x, y in pixels and the strength (P,) along it, in units of ΔE."""

    points: NDArray[np.float64]
    strength: NDArray[np.float64]

    @property
    def length(self) -> float:
        """Length in pixels."""
        return length_of(self.points)

    @property
    def force(self) -> float:
        """The strength of the whole line, less where it winds: 1 for straight or evenly bent lines, about ½ for worms."""
        from scipy.ndimage import gaussian_filter1d

        reach = min(WORM, len(self.points) / 8)
        even = length_of(gaussian_filter1d(self.points, reach, axis=0, mode="nearest"))
        shrunk = even + 2 * reach  # averaging moves both ends inwards
        return float(np.quantile(self.strength, UPPER)) * min(shrunk / max(self.length, 1e-9), 1.0) ** 2

    def reversed(self) -> "Chain":
        """The same line from its other end."""
        return Chain(self.points[::-1], self.strength[::-1])


def length_of(points: Array) -> float:
    """Length of a polyline (P, 2)."""
    return float(np.linalg.norm(np.diff(points, axis=0), axis=1).sum())


def chains_of(contours: Contours, *, weak: float, strong: float, shortest: float) -> list[Chain]:
    """Lines that are nowhere weaker than `weak` and as a whole `strong`, no shorter than so many pixels; the best first."""
    joined = through_junctions(strong_parts(contours, weak))
    worth = [(chain.force, chain) for chain in joined if chain.length >= shortest]
    worth = [(force, chain) for force, chain in worth if force >= strong]
    worth.sort(key=lambda pair: -pair[0] * pair[1].length)
    return without_echoes([chain for _, chain in worth], contours.shape)


def strong_parts(contours: Contours, weak: float) -> list[Chain]:
    """The longest runs of samples of every arc that are not below `weak`."""
    parts = []
    for begin, end in pairwise(contours.samples.offsets.tolist()):
        strength = contours.strength[begin:end]
        edges = np.flatnonzero(np.diff(np.concatenate(([False], strength >= weak, [False])).astype(np.int8)))
        for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if b - a >= FEWEST:
                parts.append(Chain(contours.samples.points[begin + a : begin + b], strength[a:b]))
    return parts


def through_junctions(parts: list[Chain]) -> list[Chain]:
    """Chains of parts that end in the same point, each with the one that goes on straightest."""
    meetings: dict[tuple[float, float], list[End]] = {}
    for number, part in enumerate(parts):
        for late in range(2):
            x, y = part.points[-1 if late else 0].tolist()
            meetings.setdefault((x, y), []).append((number, late))
    following: dict[End, End] = {}
    for ends in meetings.values():
        pairs = [(straightness(parts, a, b), a, b) for k, a in enumerate(ends) for b in ends[k + 1 :]]
        for straight, a, b in sorted(pairs, key=lambda pair: -pair[0]):
            if straight >= STRAIGHT and a not in following and b not in following:
                following[a], following[b] = b, a
    seen: set[int] = set()
    heads = [(number, late) for number in range(len(parts)) for late in range(2) if (number, late) not in following]
    rings = [(number, 0) for number in range(len(parts))]  # what no head leads to
    return [followed(parts, head, following, seen) for head in heads + rings if head[0] not in seen]


def straightness(parts: list[Chain], a: End, b: End) -> float:
    """Cosine of the turn from one end of a part into an end of another, 1 straight on; the ends of one part do not join."""
    into, out = (outwards(parts[number].points, late) for number, late in (a, b))
    return -float(into @ out) if a[0] != b[0] else -1.0


def outwards(points: Array, late: int) -> Array:
    """The direction in which a line arrives at one of its ends."""
    reach = min(REACH, len(points) - 1)
    step = points[-1] - points[-1 - reach] if late else points[0] - points[reach]
    return np.asarray(step / max(float(np.linalg.norm(step)), 1e-9))


def followed(parts: list[Chain], head: End, following: dict[End, End], seen: set[int]) -> Chain:
    """The chain that begins with one end of a part."""
    found: list[Chain] = []
    at: End | None = head
    while at is not None and at[0] not in seen:
        number, late = at
        seen.add(number)
        found.append(parts[number].reversed() if late else parts[number])
        at = following.get((number, 1 - late))
    points = [found[0].points, *(part.points[1:] for part in found[1:])]
    strength = [found[0].strength, *(part.strength[1:] for part in found[1:])]
    return Chain(np.concatenate(points), np.concatenate(strength))


def without_echoes(chains: list[Chain], shape: tuple[int, int]) -> list[Chain]:
    """The chains, best first, without those that mostly run beside a better one: a soft edge has two contours."""
    taken = np.zeros((shape[0] // GRID + 2, shape[1] // GRID + 2), np.bool_)
    kept = []
    for chain in chains:
        x, y = np.rint(chain.points.T / GRID).astype(np.int64)
        if taken[y, x].mean() > MOST_BESIDE:
            continue
        kept.append(chain)
        for down in range(-NEAR, NEAR + 1):
            for right in range(-NEAR, NEAR + 1):
                taken[np.clip(y + down, 0, taken.shape[0] - 1), np.clip(x + right, 0, taken.shape[1] - 1)] = True
    return kept
