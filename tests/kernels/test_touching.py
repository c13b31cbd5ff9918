"""Which regions touch, and how many pixels touch equal ones, against plain counts."""

from collections import Counter

import numpy as np
import pytest
from skimage.measure import label

from pixtree.kernels.tree.build.compiled.adjacency import edges_of_grid, edges_of_regions
from pixtree.kernels.tree.zones.compiled import count_beyond_pairs


def words(count: int) -> np.ndarray:
    """Scratch that holds nonsense, as in a slab that was used before."""
    return np.full(count, 7, np.uint32)


def counted(labels: np.ndarray) -> Counter[tuple[int, int]]:
    """Sides between every two regions of a label map (H, W)."""
    sides = [*zip(labels[:, :-1].flat, labels[:, 1:].flat, strict=True), *zip(labels[:-1].flat, labels[1:].flat, strict=True)]
    return Counter((int(min(a, b)), int(max(a, b))) for a, b in sides if a != b)


def found(edges: np.ndarray, length: np.ndarray) -> dict[tuple[int, int], int]:
    """The same from edges, each of which must be there once, in the order of first regions."""
    ends = [(int(edge) >> 32, int(edge) & 0xFFFFFFFF) for edge in edges]
    assert len(set(ends)) == len(ends)
    assert [first for first, _ in ends] == sorted(first for first, _ in ends)
    return dict(zip(ends, map(int, length), strict=True))


@pytest.mark.parametrize("shape", [(1, 2), (9, 1), (12, 17)])
def test_every_level_has_the_edges_between_its_regions_once_with_the_sides_they_share(shape: tuple[int, int]) -> None:
    random = np.random.default_rng(shape[0])
    pixels, regions, groups = shape[0] * shape[1], 9, 4
    labels = random.integers(0, regions, shape).astype(np.uint32)
    edges, ordered = np.full(2 * pixels + 1, 3, np.uint64), np.full(2 * pixels + 1, 3, np.uint64)
    length, sorted_length, place, slot = words(2 * pixels + 1), words(2 * pixels + 1), words(regions + 1), words(regions)
    count = edges_of_grid(shape, regions, labels.ravel(), place, slot, edges, ordered, length)
    assert found(edges[:count], length[:count]) == counted(labels)
    component = random.integers(0, groups, regions).astype(np.uint32)
    count = edges_of_regions(count, groups, component, place, slot, edges, length, ordered, sorted_length)
    assert found(edges[:count], length[:count]) == counted(component[labels])


def test_pixels_in_zones_of_three_or_more_are_counted() -> None:
    values = np.random.default_rng(1).integers(0, 4, (40, 60))
    zones = label(values, connectivity=1, background=-1)
    size = np.bincount(zones.ravel())[zones]
    assert 0 < (size == 2).sum() < size.size
    assert count_beyond_pairs(values.astype(np.float32)) == (size >= 3).sum()
