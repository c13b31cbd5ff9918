"""Boundaries finer than the pixel: the label map on smaller cells, and each cell next to a boundary given to the nearer colour.

Between its pixels an image is read by cubic interpolation. Boundaries that follow it are right at any zoom; those that only repeat
the pixels are right at the native size alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from pixtree.runtime.jit import inlined, kernel
from pixtree.vector.regions.colours import colour_sums

Array = NDArray[Any]
SWEEPS = 8
DIAGONAL = 0.7  # weight of a diagonal neighbour in the length of a boundary
DOWN = np.array([-1, -1, 0, 1, 1, 1, 0, -1])  # the ring of eight neighbours, direct ones at even places
ALONG = np.array([0, 1, 1, 1, 0, -1, -1, -1])


def enlarged(planes: Tensor, cells: int) -> Tensor:
    """Planes (C, H, W) in 0…255 with `cells` × `cells` values per pixel, by cubic interpolation."""
    if cells == 1:
        return planes
    return interpolate(planes[None], scale_factor=float(cells), mode="bicubic", align_corners=False)[0].clamp_(0, 255)


def refined(labels: NDArray[np.int32], planes: Array, cells: int, stiffness: float) -> NDArray[np.int32]:
    """The label map (H · cells, W · cells) whose regions have moved their boundaries to where the colours part.

    planes: (C, H · cells, W · cells). stiffness: squared colour distance that one more neighbour of another region outweighs.
    Regions keep their numbers, stay connected and never vanish; the outside (−1) stays.
    """
    fine = np.ascontiguousarray(np.repeat(np.repeat(labels, cells, axis=0), cells, axis=1))
    give_to_nearer(fine, planes, int(labels.max()) + 1, stiffness, SWEEPS)
    return fine


@kernel
def give_to_nearer(labels: Array, planes: Array, count: int, stiffness: float, sweeps: int) -> None:
    """Sweeps over the cells next to boundaries, forwards and backwards in turn; mean colours follow every move."""
    height, width = labels.shape
    channels = planes.shape[0]
    total, size = colour_sums(labels, planes, count)
    # A cell is looked at again only when it or a neighbour has changed hands.
    waiting = np.ones((height, width), np.bool_)
    ring = np.empty(8, np.int32)
    for sweep in range(sweeps):
        moved = 0
        for step in range(height * width):
            place = step if sweep % 2 == 0 else height * width - 1 - step
            y, x = place // width, place % width
            if not waiting[y, x]:
                continue
            waiting[y, x] = False
            own = labels[y, x]
            if own < 0 or not look_around(labels, y, x, ring) or not can_leave(ring, own):
                continue
            best, taker = price_of(own, planes, y, x, total, size, ring, stiffness), -1
            for k in range(0, 8, 2):
                other = ring[k]
                if other >= 0 and other != own and other != taker:
                    price = price_of(other, planes, y, x, total, size, ring, stiffness)
                    if price < best:
                        best, taker = price, other
            if taker < 0:
                continue
            labels[y, x] = taker
            moved += 1
            size[own] -= 1
            size[taker] += 1
            for c in range(channels):
                total[own, c] -= planes[c, y, x]
                total[taker, c] += planes[c, y, x]
            for v in range(max(y - 1, 0), min(y + 2, height)):
                for u in range(max(x - 1, 0), min(x + 2, width)):
                    waiting[v, u] = True
        if moved == 0:
            break


@inlined
def look_around(labels: Array, y: int, x: int, ring: Array) -> Any:
    """Fill the ring with the labels of the eight neighbours, −1 beyond the image; whether a direct one differs."""
    own, height, width = labels[y, x], labels.shape[0], labels.shape[1]
    differs = False
    for k in range(0, 8, 2):
        v, u = y + DOWN[k], x + ALONG[k]
        ring[k] = labels[v, u] if 0 <= v < height and 0 <= u < width else -1
        differs = differs or (ring[k] >= 0 and ring[k] != own)
    if differs:
        for k in range(1, 8, 2):
            v, u = y + DOWN[k], x + ALONG[k]
            ring[k] = labels[v, u] if 0 <= v < height and 0 <= u < width else -1
    return differs


@inlined
def can_leave(ring: Array, own: int) -> Any:
    """Whether a region stays whole without this cell: its direct neighbours hang together around the ring, and there is one."""
    parts = 0
    for k in range(0, 8, 2):
        if ring[k] == own and not (ring[(k + 7) % 8] == own and ring[(k + 6) % 8] == own):
            parts += 1
    return parts == 1


@inlined
def price_of(region: int, planes: Array, y: int, x: int, total: Array, size: Array, ring: Array, stiffness: float) -> Any:
    """Squared distance of a cell's colour from a region's mean, and the boundary that the cell would have in it."""
    squared, length = 0.0, 0.0
    for c in range(planes.shape[0]):
        step = planes[c, y, x] - total[region, c] / size[region]
        squared += step * step
    for k in range(8):
        if ring[k] >= 0 and ring[k] != region:
            length += 1.0 if k % 2 == 0 else DIAGONAL
    return squared + stiffness * length
