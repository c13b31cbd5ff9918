"""Budgets: the best drawing within a number of paths, bytes or points, or the one that reaches a quality with the fewest shapes."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pixtree.kernels.image import mean_squared_error, psnr
from pixtree.vector.drawing import Drawing, over_white
from pixtree.vector.tracing import Source

PER_PATH = {"bytes": 130, "points": 30}
FEWEST_PER_PATH = {"bytes": 40, "points": 3}
EXPONENT = 0.8  # bytes and points grow with the paths to this power
DECIBELS_PER_DOUBLING = 2.0
CLOSE = 0.97  # share of the bytes allowed that is good enough
SPARE_DECIBELS = 0.15
THRIFTY = 1.0  # characters per pixel edge: measured to spend bytes best
TRIALS = 12


class OutOfReachError(ValueError):
    """A quality that the regions at hand do not reach."""


@dataclass(frozen=True)
class Limits:
    """The most paths, bytes and points that a drawing may have, and the least PSNR, in decibels, it must reach."""

    paths: int | None = None
    bytes: int | None = None
    psnr: float | None = None
    points: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("paths", self.paths), ("bytes", self.bytes), ("points", self.points)):
            if value is not None and (isinstance(value, bool) or int(value) != value or value < 1):
                raise ValueError(f"{name} is a whole number of at least 1, got {value}; try {name}=1000")
        if self.psnr is not None and not 0 < self.psnr < 100:
            raise ValueError(f"psnr is a number of decibels between 0 and 100, got {self.psnr}; 30 looks good")

    def sizes(self) -> list[tuple[str, int]]:
        """The limits on bytes and points that are given, by name."""
        return [(name, limit) for name, limit in (("bytes", self.bytes), ("points", self.points)) if limit is not None]

    def usual_paths(self) -> float:
        """About how many shapes the limits allow; without any, infinitely many."""
        return min(self.paths or np.inf, *(limit / PER_PATH[name] for name, limit in self.sizes()), np.inf)

    def most_paths(self, pixels: int) -> int:
        """The largest number of shapes that can be useful for an image of `pixels` pixels."""
        wanted = self.paths or pixels
        for name, limit in self.sizes():
            wanted = min(wanted, limit // FEWEST_PER_PATH[name] + 1)
        if self.psnr is not None and self.paths is None and not self.sizes():
            wanted = pixels // 48 + 1
        return max(1, min(wanted, pixels))


def best_drawing(source: Source, limits: Limits, measure: Callable[[Drawing], float]) -> Drawing:
    """The best drawing within the limits; an error names what is possible. `measure` returns a drawing's PSNR."""
    most = min(limits.paths or source.regions.most, source.regions.most)
    if most < source.regions.fewest:
        raise ValueError(
            f"the image has {source.regions.fewest} parts that do not touch, got paths={most}; ask for at least as many paths"
        )
    if limits.psnr is not None:
        drawing = _reaching(source, limits.psnr, most, measure)
        for name, limit in limits.sizes():
            if getattr(drawing, name) > limit:
                found = getattr(drawing, name)
                raise ValueError(f"psnr={limits.psnr} takes about {found} {name}, got {name}={limit}; raise one or lower the other")
        return drawing
    if not limits.sizes():
        return _with_paths(source, most)
    if limits.paths is not None and source.tracing.artwork:  # mostly it has fewer shapes than allowed, and fits
        drawing = _with_paths(source, most)
        if all(getattr(drawing, name) <= limit for name, limit in limits.sizes()):
            return drawing
    thrifty = replace(source, tracing=replace(source.tracing, detail=THRIFTY))
    return min((_filling(thrifty, name, limit, most) for name, limit in limits.sizes()), key=lambda drawing: drawing.paths)


def _with_paths(source: Source, most: int) -> Drawing:
    """At most that many shapes; a palette joins regions, so more of them can be asked for."""
    drawing = source.drawing(most)
    if source.tracing.colors is None:
        return drawing
    asked = most
    for _ in range(3):
        asked = min(int(asked * most / max(drawing.paths, 1)), source.regions.most)
        more = source.drawing(asked)
        if not drawing.paths < more.paths <= most:
            break
        drawing = more
    return drawing


def _filling(source: Source, name: str, limit: int, most: int) -> Drawing:
    """The drawing with as many shapes as fit into `limit` bytes or points, by `name`."""
    fewest = source.regions.fewest
    count = min(max(limit // PER_PATH[name], fewest), most)
    for _ in range(4):
        ratio = limit / max(getattr(source.drawing(count, quick=True), name), 1)
        if 0.98 < ratio < 1.02 or (ratio > 1 and count == most):
            break
        count = min(max(int(count * ratio ** (1 / EXPONENT)), fewest), most)
    best: Drawing | None = None
    too_many = most + 1
    for _ in range(TRIALS):
        drawing = source.drawing(count)
        size = getattr(drawing, name)
        if size <= limit:
            best = drawing
            if size >= CLOSE * limit or count + 1 >= too_many:
                return drawing
        else:
            too_many = count
            if count <= fewest:
                raise ValueError(f"the smallest drawing of this image takes {size} {name}, got {name}={limit}; allow more")
        ratio = 0.99 * limit / max(size, 1)
        count = min(max(int(count * ratio ** (1 / EXPONENT)), fewest, 1), too_many - 1)
        if best is not None and count <= best.paths and source.tracing.colors is None:
            return best
    return best if best is not None else _filling(source, name, limit, max(too_many // 2, fewest))


def _reaching(source: Source, wanted: float, most: int, measure: Callable[[Drawing], float]) -> Drawing:
    """A drawing with few shapes whose PSNR is at least `wanted`, found by our own rendering and confirmed by `measure`."""
    target, best = wanted, 0.0
    for _ in range(4):
        drawing = _searched(source, target, most)
        found = measure(drawing)
        best = max(best, found)
        if found >= wanted:
            return drawing
        target += wanted - found + 0.02
    raise _out_of_reach(wanted, most, best)


def _searched(source: Source, wanted: float, most: int) -> Drawing:
    low, high = source.regions.fewest - 1, most + 1  # counts that fail, and that reach it
    count, reached = min(max(500, low + 1), most), 0.0
    best: Drawing | None = None
    for _ in range(TRIALS):
        drawing = source.drawing(count)
        found = own_psnr(drawing, source.planes)
        reached = max(reached, found)
        if found >= wanted:
            best, high = drawing, count
        else:
            low = count
        if wanted <= found <= wanted + SPARE_DECIBELS or high - low <= 1:
            break
        doublings = (wanted + 0.3 * SPARE_DECIBELS - found) / DECIBELS_PER_DOUBLING
        count = min(max(int(count * 2 ** min(max(doublings, -6), 6)), low + 1), high - 1)
    if best is None:
        raise _out_of_reach(wanted, most, reached)
    return best


def own_psnr(drawing: Drawing, planes: NDArray[np.float32]) -> float:
    """PSNR of a drawing's flat fills in our own rendering, over the shapes' pixels and white."""
    return psnr(mean_squared_error(np.moveaxis(drawing.pixels(), 2, 0), over_white(planes)))


def _out_of_reach(wanted: float, most: int, reached: float) -> OutOfReachError:
    return OutOfReachError(
        f"psnr={wanted:g} is more than {most} paths reach on this image, {reached:.2f}; lower it or allow more paths"
    )
