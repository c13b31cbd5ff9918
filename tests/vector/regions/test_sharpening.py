"""Sharpening before regions grow: a blend takes the colour of the nearer of two opposite neighbours."""

import numpy as np
import pytest
import torch

from pixtree.vector.regions.growing import groups_of, grow_regions, near_alpha_edges, sharpen_once

DARK, LIGHT = np.array([20.0, 40, 30]), np.array([200.0, 180, 220])
DIRECTIONS = ((0, 1), (1, 0), (1, -1), (1, 1))


def by_definition(planes):
    """One round, from its description."""
    _, height, width = planes.shape
    sharp = planes.copy()
    for y, x in np.ndindex(height, width):
        best = 24.0**2
        for down, along in DIRECTIONS:
            ends = (y - down, x - along), (y + down, x + along)
            if not all(0 <= v < height and 0 <= u < width for v, u in ends):
                continue
            a, b = (planes[:, v, u].astype(float) for v, u in ends)
            step, here = b - a, planes[:, y, x] - a
            squared = step @ step
            if squared <= best:
                continue
            share = here @ step / squared
            away = here @ here - share * (here @ step)
            if 0.02 < share < 0.98 and away <= 0.15**2 * squared:
                best = squared
                sharp[:, y, x] = a if share < 0.5 else b
    return sharp


@pytest.mark.parametrize("seed", range(4))
def test_every_pixel_takes_the_colour_that_the_definition_gives_it(seed):
    rng = np.random.default_rng(seed)
    share = np.sort(rng.uniform(-0.3, 1.3, (7, 9)).clip(0, 1), axis=seed % 2)
    colour = DARK[:, None, None] + share * (LIGHT - DARK)[:, None, None] + rng.normal(0, 9, (3, 7, 9))
    planes = np.ascontiguousarray(colour, np.float32)
    np.testing.assert_array_equal(sharpen_once(planes), by_definition(planes))
    assert (sharpen_once(planes) != planes).any()


@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_blend_takes_the_nearer_colour_whichever_way_the_edge_runs(direction, share):
    y, x = np.mgrid[:7, :8]
    across = (y - 3) * direction[0] + (x - 4) * direction[1]
    part = np.where(across < 0, 0.0, np.where(across > 0, 1.0, share))
    planes = (DARK[:, None, None] + part * (LIGHT - DARK)[:, None, None]).astype(np.float32)
    found = sharpen_once(planes)
    wanted = LIGHT if share > 0.5 else DARK
    assert (found[:, 3, 4] == wanted).all()
    assert (found[:, across != 0] == planes[:, across != 0]).all()


def test_alpha_edges_reach_two_pixels_to_both_sides():
    planes = torch.zeros(4, 3, 10)
    planes[3, :, 5:] = 255
    assert near_alpha_edges(planes)[1].tolist() == [False] * 3 + [True] * 4 + [False] * 3
    planes[3, :, 5:] = 100
    assert not near_alpha_edges(planes).any()


def test_shapes_are_nested_by_the_coarser_regions_that_their_pixels_lie_in():
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand((3, 4, 4), generator=generator).repeat_interleave(6, 1).repeat_interleave(6, 2)
    planes = 200 * coarse + 40 * torch.rand((3, 24, 24), generator=generator)
    regions = grow_regions(planes, most=30, cells=1)
    labels, middle, few = (regions.labels(count) for count in (30, 9, 3))
    groups = groups_of(labels, regions, [9, 3])
    shapes = [[sorted(group) for group in outer] for outer in groups]
    expected = [
        [sorted(np.unique(labels[middle == part]).tolist()) for part in np.unique(middle[few == whole]).tolist()]
        for whole in range(3)
    ]
    assert sorted(map(sorted, shapes)) == sorted(map(sorted, expected))
    masked = np.where(np.arange(24) < 6, -1, labels).astype(np.int32)
    flat = [shape for outer in groups_of(masked, regions, [3]) for shape in outer]
    assert sorted(flat) == list(range(len(np.unique(masked)) - 1))  # the outside is no shape
