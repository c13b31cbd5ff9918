"""Growing the regions of a drawing from colour planes, pixel weights and the small regions of the pixel tree.

Anti-aliased artwork has blends at the edges of flat colours, which are not regions of their own. A pixel whose colour lies between
those of two opposite neighbours is a blend. For growing regions it takes the colour of the nearer one; when arcs are placed, the
blend itself still shows where the edge crosses it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import max_pool2d

from pixtree.runtime.jit import kernel
from pixtree.trees.build import hierarchy_of_planes
from pixtree.trees.options import TreeOptions, Ward
from pixtree.vector.regions.merging import Agglomeration, agglomerate
from pixtree.vector.regions.objects import Layer, Objects

Array = NDArray[Any]
CELLS_PER_REGION = 64  # of the small regions from which agglomeration starts
SMALL_PER_PATH = 3  # but at least this many small regions for every path asked for
FLAT_VARIANCE = 58.0  # grey levels²: below it an error is seen, far above it texture hides it
WINDOW = 7
ROUNDS = 2  # edges up to about four pixels wide
SMALLEST_STEP = 24.0**2  # squared distance of the two neighbours, summed over channels
SMALLEST_ALPHA_STEP = 128.0
BRANCHES = 8  # groups within a group of an editable drawing, on average
LARGEST_OFFSET = 0.15  # distance of a blend from the line between its neighbours, as a share of theirs


def pixel_weights(planes: Tensor, exponent: float = 0.5) -> Tensor:
    """How much errors matter at each pixel, (H, W) float32 with mean 1: (58 / (v + 58))^γ, v the variance of its surroundings.

    planes: (3, H, W) float32 in 0…255. The eye, and SSIM, forgive in texture what they see in the sky.
    """
    variance = torch.from_numpy(local_variance(planes.numpy(), WINDOW // 2))
    weight = (FLAT_VARIANCE / (variance + FLAT_VARIANCE)) ** exponent
    return weight / weight.mean()


@kernel
def local_variance(planes: Array, reach: int) -> Array:
    """Mean over channels of the variance in a square window around every pixel, (H, W) float32; O(pixels)."""
    channels, height, width = planes.shape
    variance = np.zeros((height, width), np.float32)
    for c in range(channels):
        sums, squares = np.zeros(width), np.zeros(width)  # of each column, over the rows of the window
        for row in range(-reach, height):
            if row + reach < height:
                for x in range(width):
                    value = float(planes[c, row + reach, x])
                    sums[x] += value
                    squares[x] += value * value
            if row - reach - 1 >= 0:
                for x in range(width):
                    value = float(planes[c, row - reach - 1, x])
                    sums[x] -= value
                    squares[x] -= value * value
            if row < 0:
                continue
            rows = min(row + reach + 1, height) - max(row - reach, 0)
            total, total_squares = 0.0, 0.0
            for x in range(-reach, width):
                if x + reach < width:
                    total += sums[x + reach]
                    total_squares += squares[x + reach]
                if x - reach - 1 >= 0:
                    total -= sums[x - reach - 1]
                    total_squares -= squares[x - reach - 1]
                if x >= 0:
                    count = rows * (min(x + reach + 1, width) - max(x - reach, 0))
                    mean = total / count
                    variance[row, x] += max(total_squares / count - mean * mean, 0.0) / channels
    return variance


def grow_regions(
    planes: Tensor,
    steps: Array | None = None,
    *,
    most: int,
    cells: int = 2,
    weights: Tensor | None = None,
    objects: Objects | None = None,
) -> Agglomeration:
    """Nested regions of an image for every count up to about `most`; planes (C, H, W) float32 in 0…255.

    cells: per pixel and axis, of the grid on which boundaries will be found; coarser ones start from fewer, larger regions.
    steps: (1, H, W) one more plane by which regions are joined. objects: what no region may cross the edges of.
    """
    height, width = int(planes.shape[1]), int(planes.shape[2])
    rule = TreeOptions(similarity=Ward(), energy="squared_error").rule
    tree = hierarchy_of_planes(planes.flatten(1), (height, width), rule)
    small = min(max(tree.leaves * cells**2 // CELLS_PER_REGION, SMALL_PER_PATH * most, tree.pieces), tree.leaves)
    base: NDArray[np.int32] = tree.cut(small).numpy()
    weight = pixel_weights(planes) if weights is None else weights
    told = planes.numpy() if steps is None else np.concatenate((planes.numpy(), steps))
    if objects is None:
        return agglomerate(base, told, weight.numpy())
    return objects.without_joins(agglomerate(objects.divided(base), objects.apart(told), weight.numpy()))


def without_blends(planes: NDArray[np.float32], rounds: int = ROUNDS) -> NDArray[np.float32]:
    """Planes (C, H, W) in 0…255 with the blends at edges replaced by the colour of one of their neighbours."""
    for _ in range(rounds):
        planes = sharpen_once(planes)
    return planes


def near_alpha_edges(planes: Tensor) -> Tensor:
    """Where (H, W) bool alpha, the last of planes (4, H, W), differs within two pixels: there a photograph has blends as well."""
    alpha = planes[3:]
    low, high = (sign * max_pool2d(sign * alpha[None], 5, 1, 2)[0, 0] for sign in (-1, 1))
    return high - low > SMALLEST_ALPHA_STEP


@kernel
def sharpen_once(planes: Array) -> Array:
    """One round; pixels on the border of the image stay."""
    channels, height, width = planes.shape
    sharp = planes.copy()
    for y in range(height):
        for x in range(width):
            best, from_y, from_x = SMALLEST_STEP, -1, -1
            for direction in range(4):
                down, along = (0, 1) if direction == 0 else ((1, 0) if direction == 1 else (1, 2 * direction - 5))
                if not (down <= y < height - down and abs(along) <= x < width - abs(along)):
                    continue
                step, inner, here = 0.0, 0.0, 0.0
                for c in range(channels):
                    a, b = planes[c, y - down, x - along], planes[c, y + down, x + along]
                    step += (b - a) * (b - a)
                    inner += (planes[c, y, x] - a) * (b - a)
                    here += (planes[c, y, x] - a) * (planes[c, y, x] - a)
                if step <= best:
                    continue
                share = inner / step
                if not 0.02 < share < 0.98 or here - share * inner > LARGEST_OFFSET * LARGEST_OFFSET * step:
                    continue
                best = step
                sign = -1 if share < 0.5 else 1
                from_y, from_x = y + sign * down, x + sign * along
            if from_y >= 0:
                for c in range(channels):
                    sharp[c, y, x] = planes[c, from_y, from_x]
    return sharp


def groups_of(
    labels: NDArray[np.int32], regions: Agglomeration, counts: Sequence[int], objects: Objects | None = None
) -> list[Any]:
    """Nested lists of the shapes of a label map (H, W): one level per count, coarsest first; those of objects in their layers.

    Coarser regions are unions of finer ones, so a shape's groups are those of its first pixel.
    """
    shapes, first = np.unique(labels, return_index=True)
    first = first[shapes >= 0]
    keys = [regions.labels(count).ravel()[first] for count in sorted(counts)]
    if objects is None:
        return _nest(list(range(len(first))), keys)
    owner = objects.owner.ravel()[first]
    loose, *owned = (_nest(np.flatnonzero(owner == place).tolist(), keys) for place in range(-1, len(objects.names)))
    return [*loose, *(Layer(name, members) for name, members in zip(objects.names, owned, strict=True))]


def _nest(shapes: list[Any], keys: list[NDArray[np.int32]]) -> list[Any]:
    if not keys:
        return shapes
    within: dict[int, list[Any]] = {}
    for shape in shapes:
        within.setdefault(int(keys[0][shape]), []).append(shape)
    return [_nest(members, keys[1:]) for members in within.values()]


def branches(shapes: int) -> tuple[int, ...]:
    """Counts of coarser regions for nested groups of these shapes, with about BRANCHES members each."""
    counts: list[int] = []
    while (count := BRANCHES ** (len(counts) + 1)) * 2 <= shapes:
        counts.append(count)
    return tuple(counts)


def without_single_groups(groups: Sequence[Any]) -> list[Any]:
    """The same nested lists, where a group of one member is that member; layers stay."""
    found: list[Any] = []
    for item in groups:
        if isinstance(item, Layer):
            found.append(Layer(item.name, without_single_groups(item.members)))
        elif isinstance(item, int):
            found.append(item)
        else:
            members = without_single_groups(item)
            found += members if len(members) == 1 else [members]
    return found
