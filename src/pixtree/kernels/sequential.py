"""What is sequential by nature, written once in plain loops: the reference interprets it, numba compiles it as it stands."""

from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np
import torch
from numba.extending import register_jitable
from numpy.typing import NDArray
from torch import Tensor


@register_jitable
def merge_heaps(
    a: int,
    b: int,
    scale: Sequence[float],
    heap_left: MutableSequence[int],
    heap_right: MutableSequence[int],
    heap_rank: MutableSequence[int],
    stack: MutableSequence[int],
) -> int:
    """Root of two leftist heaps merged, largest (scale, id) on top; −1 is the empty heap. O(log n), the depth of `stack`."""
    height = 0
    while a >= 0 and b >= 0:
        if scale[a] < scale[b] or (scale[a] == scale[b] and a < b):
            a, b = b, a
        stack[height] = a
        height += 1
        a = heap_right[a]
    root = a if a >= 0 else b
    while height > 0:
        height -= 1
        node = stack[height]
        other = heap_left[node]
        other_rank = heap_rank[other] if other >= 0 else 0
        root_rank = heap_rank[root] if root >= 0 else 0
        if other_rank < root_rank:
            heap_left[node], heap_right[node] = root, other
            heap_rank[node] = other_rank + 1
        else:
            heap_right[node] = root
            heap_rank[node] = root_rank + 1
        root = node
    return root


def scale_set(
    left: Sequence[int],
    right: Sequence[int],
    total: MutableSequence[float],
    scale: MutableSequence[float],
    count: MutableSequence[int],
    heap_left: MutableSequence[int],
    heap_right: MutableSequence[int],
    heap_rank: MutableSequence[int],
    pooled: MutableSequence[bool],
    stack: MutableSequence[int],
) -> None:
    """Fill `scale` with the price λ per region at which the optimal cut closes each inner node (scale-set, CART's weakest link).

    Nodes come in creation order. A node starts with its own gain; while that is below the largest scale inside its subtree, that
    inner node is pooled into it and the scale becomes the mean gain of all pooled splits. What is left on the heaps is monotone, so
    opening nodes by decreasing (scale, id) opens parents first and gives the least energy at every vertex of its convex hull.

    `total` holds the gains on entry. A heap of r nodes has a right spine of at most log2(r + 1), so a stack of 128 always suffices.
    """
    inner = len(total)
    leaves = inner + 1
    for k in range(inner):
        heap = merge_heaps(left[k] - leaves, right[k] - leaves, scale, heap_left, heap_right, heap_rank, stack)
        mean = total[k]
        while heap >= 0 and mean < scale[heap]:
            pooled[heap] = True
            total[k] += total[heap]
            count[k] += count[heap]
            mean = total[k] / count[k]
            heap = merge_heaps(heap_left[heap], heap_right[heap], scale, heap_left, heap_right, heap_rank, stack)
        scale[k] = mean
        heap_left[k] = heap
    for k in range(inner - 1, -1, -1):
        for child in (left[k] - leaves, right[k] - leaves):
            if child >= 0 and pooled[child]:
                scale[child] = scale[k]


def region_sums(labels: Tensor, features: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sizes (N,) and channel sums (N, C) of the regions of one label map, float64 on the host: the state that `relax` updates."""
    flat = labels.flatten().cpu()
    inside = flat >= 0
    index = flat[inside].to(torch.int64)
    count = int(index.max()) + 1 if index.numel() else 0
    rows = features.flatten(1).T.cpu()[inside].to(torch.float64)
    sums = torch.zeros((count, rows.shape[1]), dtype=torch.float64).index_add_(0, index, rows)
    return torch.bincount(index, minlength=count).to(torch.float64).numpy(), sums.numpy()


@register_jitable
def keeps_connected(labels: NDArray[np.int32], y: int, x: int, region: int) -> bool:
    """Whether `region` stays connected without pixel (y, x), judged in the 3×3 ring around it; false if it would vanish there."""
    height, width = labels.shape
    up = y > 0 and labels[y - 1, x] == region
    down = y + 1 < height and labels[y + 1, x] == region
    west = x > 0 and labels[y, x - 1] == region
    east = x + 1 < width and labels[y, x + 1] == region
    links = 0
    if up and east and labels[y - 1, x + 1] == region:
        links += 1
    if east and down and labels[y + 1, x + 1] == region:
        links += 1
    if down and west and labels[y + 1, x - 1] == region:
        links += 1
    if west and up and labels[y - 1, x - 1] == region:
        links += 1
    neighbours = int(up) + int(down) + int(west) + int(east)
    return neighbours > 0 and neighbours - links <= 1


@register_jitable
def misfit(
    features: NDArray[np.float32], y: int, x: int, sizes: NDArray[np.float64], sums: NDArray[np.float64], region: int
) -> float:
    """Squared distance between a pixel and the mean of a region."""
    total = 0.0
    for c in range(features.shape[0]):
        difference = sums[region, c] / sizes[region] - np.float64(features[c, y, x])
        total += difference * difference
    return total


def relax(
    labels: NDArray[np.int32],
    features: NDArray[np.float32],
    sizes: NDArray[np.float64],
    sums: NDArray[np.float64],
    sweeps: int,
    smoothness: float,
) -> Any:
    """Move border pixels, in raster order, to the 4-neighbour region that fits them best; in place.

    Fit is ‖f − μ‖² − smoothness · (4-neighbours the pixel has there). A pixel moves only if its old region stays connected, so the
    count of regions and their connectivity hold. Means follow every move. Pixels labelled −1 are outside and never move.
    """
    height, width = labels.shape
    for _ in range(sweeps):
        moved = False
        for y in range(height):
            for x in range(width):
                here = labels[y, x]
                if here < 0:
                    continue
                up = labels[y - 1, x] if y > 0 else here
                down = labels[y + 1, x] if y + 1 < height else here
                west = labels[y, x - 1] if x > 0 else here
                east = labels[y, x + 1] if x + 1 < width else here
                if up == here and down == here and west == here and east == here:
                    continue
                if not keeps_connected(labels, y, x, here):
                    continue
                best, best_fit = here, np.inf
                for candidate in (here, up, down, west, east):
                    if candidate < 0 or (candidate == best and best_fit < np.inf):
                        continue
                    # A missing neighbour at the image border reads as `here`; only real ones count.
                    touching = (
                        int(y > 0 and up == candidate)
                        + int(y + 1 < height and down == candidate)
                        + int(x > 0 and west == candidate)
                        + int(x + 1 < width and east == candidate)
                    )
                    fit = misfit(features, y, x, sizes, sums, candidate) - smoothness * touching
                    if fit < best_fit:
                        best, best_fit = candidate, fit
                if best == here:
                    continue
                labels[y, x] = best
                moved = True
                sizes[here] -= 1.0
                sizes[best] += 1.0
                for c in range(features.shape[0]):
                    value = np.float64(features[c, y, x])
                    sums[here, c] -= value
                    sums[best, c] += value
        if not moved:
            break
