"""Sequential algorithms, written once in plain loops: the reference interprets them, and numba compiles the same source."""

from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Nodes = Sequence[Any]

# One record per inner node, so that a visit costs one cache line; the reference uses a list of dictionaries with the same keys.
HEAP_NODE = np.dtype(
    [("scale", "f8"), ("total", "f8"), ("left", "i4"), ("right", "i4"), ("spine", "i4"), ("count", "i4")], align=True
)
SPINE_LIMIT = 64  # the right spine of a leftist heap of r nodes is at most log2(r + 1) long


def join_heaps(a: int, b: int, nodes: Nodes, stack: MutableSequence[int]) -> int:
    """Root of two leftist heaps joined, largest (scale, id) on top; a negative root is the empty heap. O(log n)."""
    height = 0
    while a >= 0 and b >= 0:
        if nodes[a]["scale"] < nodes[b]["scale"] or (nodes[a]["scale"] == nodes[b]["scale"] and a < b):
            a, b = b, a
        stack[height] = a
        height += 1
        a = nodes[a]["right"]
    root = a if a >= 0 else b
    while height > 0:
        height -= 1
        node = stack[height]
        other = nodes[node]["left"]
        other_spine = nodes[other]["spine"] if other >= 0 else 0
        root_spine = nodes[root]["spine"] if root >= 0 else 0
        if other_spine < root_spine:
            nodes[node]["left"], nodes[node]["right"] = root, other
            nodes[node]["spine"] = other_spine + 1
        else:
            nodes[node]["right"] = root
            nodes[node]["spine"] = root_spine + 1
        root = node
    return root


def scale_set(left: Sequence[int], right: Sequence[int], gain: Sequence[float], nodes: Nodes, stack: MutableSequence[int]) -> None:
    """Fill the field `scale` with the price λ per region at which the optimal cut closes each inner node (CART's weakest link).

    Nodes come in creation order. A node starts with its own gain; while that is below the largest scale inside its subtree, that
    inner node is pooled into it and the scale becomes the mean gain of all pooled splits. What is left on the heaps is monotone, so
    opening nodes by decreasing (scale, id) opens parents first and gives the least energy at every vertex of its convex hull.
    """
    inner = len(gain)
    leaves = inner + 1
    for k in range(inner):
        heap = join_heaps(left[k] - leaves, right[k] - leaves, nodes, stack)
        total, count = float(gain[k]), 1
        scale = total
        while heap >= 0 and scale < nodes[heap]["scale"]:
            total += nodes[heap]["total"]
            count += nodes[heap]["count"]
            scale = total / count
            nodes[heap]["spine"] = 0  # pooled
            heap = join_heaps(nodes[heap]["left"], nodes[heap]["right"], nodes, stack)
        nodes[k]["scale"], nodes[k]["total"], nodes[k]["count"] = scale, total, count
        nodes[k]["left"], nodes[k]["right"], nodes[k]["spine"] = heap, -1, 1
    for k in range(inner - 1, -1, -1):
        for inside in (left[k] - leaves, right[k] - leaves):
            if inside >= 0 and nodes[inside]["spine"] == 0:
                nodes[inside]["scale"] = nodes[k]["scale"]


def sum_regions(
    labels: NDArray[np.int32], features: NDArray[np.float32], sizes: NDArray[np.float64], sums: NDArray[np.float64]
) -> None:
    """Add the pixels of every region to its size and channel sums."""
    height, width = labels.shape
    for y in range(height):
        for x in range(width):
            region = labels[y, x]
            if region >= 0:
                sizes[region] += 1.0
                for c in range(features.shape[0]):
                    sums[region, c] += np.float64(features[c, y, x])


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


def misfit(features: NDArray[np.float32], y: int, x: int, means: NDArray[np.float64], region: int) -> float:
    """Squared distance between a pixel and the mean of a region."""
    total = 0.0
    for c in range(features.shape[0]):
        difference = means[region, c] - np.float64(features[c, y, x])
        total += difference * difference
    return total


def relax(
    labels: NDArray[np.int32],
    features: NDArray[np.float32],
    sizes: NDArray[np.float64],
    sums: NDArray[np.float64],
    means: NDArray[np.float64],
    sweeps: int,
    smoothness: float,
) -> None:
    """Move border pixels, in raster order, to the 4-neighbour region that fits them best; in place.

    Fit is ‖f − μ‖² − smoothness · (4-neighbours the pixel has there). A pixel moves only if its old region stays connected, so the
    count of regions and their connectivity hold. Means follow every move. Pixels labelled −1 are outside and never move.

    sizes (N,), sums (N, C) and means (N, C) are zero on entry: the state that follows the moves.
    """
    height, width = labels.shape
    sum_regions(labels, features, sizes, sums)
    for region in range(sizes.size):
        for c in range(features.shape[0]):
            means[region, c] = sums[region, c] / sizes[region]
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
                    fit = misfit(features, y, x, means, candidate) - smoothness * touching
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
                    means[here, c] = sums[here, c] / sizes[here]
                    means[best, c] = sums[best, c] / sizes[best]
        if not moved:
            break
