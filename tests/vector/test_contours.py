"""Contours: directions, strengths and chains of samples, on lines drawn by hand."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.contours import (
    Chain,
    Contours,
    along,
    contrast_across,
    heights,
    is_ring,
    normals,
    strong_parts,
    through_junctions,
    without_echoes,
)
from pixtree.vector.outlines.placement import Samples
from pixtree.vector.regions.merging import agglomerate


def samples_of(*lines):
    """Samples of several arcs (P, 2)."""
    offsets = np.cumsum([0, *map(len, lines)]).astype(np.int32)
    return Samples(np.concatenate([np.asarray(line, float) for line in lines]), offsets)


BENT = [(0, 0), (2, 0), (4, 0), (4, 3), (4, 9)]
RING = [(5, 5), (8, 5), (8, 9), (5, 5)]


def test_normals_stand_across_every_arc_and_look_at_no_other():
    found = normals(samples_of(BENT, RING))
    expected = np.array([(0, 1), (0, 1), None, (-1, 0), (-1, 0), (0, 1), None, None, None], object)
    for normal, wanted in zip(found, expected, strict=True):
        assert np.hypot(*normal) == pytest.approx(1)
        assert wanted is None or normal == pytest.approx(wanted)
    assert found[2] == pytest.approx(np.array([-3, 2]) / np.hypot(2, 3))  # half of the way from sample 1 to 3
    assert found[8] == pytest.approx(np.array([4, -3]) / 5)


def test_a_ring_ends_where_it_begins_in_both_coordinates():
    assert is_ring(samples_of(BENT, RING, [(1, 2), (3, 4), (1, 5)], [(1, 2), (3, 4), (0, 2)])).tolist() == [
        False,
        True,
        False,
        False,
    ]


def test_averages_along_an_arc_know_nothing_of_the_others_and_go_around_rings():
    line, ring = [(k, 0) for k in range(12)], [(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 13)[:-1]]
    placed = samples_of(line, [*ring, ring[0]], line)
    values = np.concatenate((np.full(12, 3.0), np.zeros(13), np.full(12, 7.0)))
    values[[12, 24]] = 12.0  # the first sample of the ring, which is also its last
    found = along(values, placed, 1.0)
    assert found[:12] == pytest.approx(np.full(12, 3.0))
    assert found[25:] == pytest.approx(np.full(12, 7.0))
    assert found[24] == found[12]
    assert found[13:24] == pytest.approx(found[23:12:-1])  # the same on both sides
    assert found[12:24].sum() == pytest.approx(12)


def test_the_contrast_across_a_line_is_that_of_the_areas_on_its_sides():
    planes = np.full((3, 20, 30), 255.0, np.float32)
    planes[:, :, 15:] = 0
    upright = [(15, y) for y in range(4, 17)]
    aside = [(5, y) for y in range(4, 17)]
    level = [(x, 10) for x in range(2, 10)]
    found = contrast_across(samples_of(upright, aside, level), planes)
    assert found[:13] == pytest.approx(np.full(13, 100), abs=8)  # white against black, a little blurred
    assert found[13:] == pytest.approx(np.zeros(21), abs=0.5)


def test_arcs_that_stay_apart_longer_are_higher_and_the_border_has_no_height():
    levels = np.array([[0, 2], [100, 230]], float).repeat(4, axis=0).repeat(4, axis=1)
    base = np.arange(4, dtype=np.int32).reshape(2, 2).repeat(4, axis=0).repeat(4, axis=1)
    regions = agglomerate(base, levels[None].astype(np.float32), np.ones((8, 8), np.float32))
    arcs = planar_map(base)
    height = heights(regions, base, arcs).tolist()
    found = {tuple(sorted(pair)): one for *pair, one in zip(arcs.left.tolist(), arcs.right.tolist(), height, strict=True)}
    # Of the cuts with 4, 3, 2 and again 2 regions, 0 and 1 are one from the second on, and they and 2 from the third on.
    assert {pair: one for pair, one in found.items() if one > 0} == {(0, 1): 0.25, (0, 2): 0.5, (1, 3): 1.0, (2, 3): 1.0}
    assert {pair for pair, one in found.items() if one == 0} == {(-1, k) for k in range(4)}


def test_parts_are_runs_of_three_strong_samples_or_more():
    lines = samples_of([(k, 0) for k in range(9)], [(k, 5) for k in range(4)])
    strength = np.array([9, 9, 1, 9, 9, 9, 1, 9, 9, 9, 9, 9, 9], float)
    found = strong_parts(Contours((9, 9), lines, strength), 5.0)
    assert [part.points.tolist() for part in found] == [[[3, 0], [4, 0], [5, 0]], [[0, 5], [1, 5], [2, 5], [3, 5]]]
    at_the_limit = strong_parts(Contours((9, 9), lines, np.full(13, 5.0)), 5.0)
    assert [len(part.points) for part in at_the_limit] == [9, 4]


def test_a_chain_of_three_parts_has_every_sample_once_in_order_from_end_to_end():
    first, second, third = ([(x, 0.0) for x in range(start, start + 6)] for start in (0, 5, 10))
    parts = [Chain(np.array(points, float), np.arange(6.0)) for points in (second[::-1], first, third)]
    (found,) = through_junctions(parts)
    x = found.points[:, 0].tolist()
    assert x in ([float(k) for k in range(16)], [float(k) for k in range(15, -1, -1)])
    assert len(found.strength) == 16


def test_a_line_along_the_border_is_no_echo_of_one_at_the_opposite_border():
    y = np.arange(0.0, 61.0)
    lines = [Chain(np.stack((np.full(61, x), y), axis=1), np.ones(61)) for x in (0.0, 64.0, 30.0, 34.0, 31.0)]
    assert without_echoes(lines, (61, 64)) == lines[:4]
    level = [Chain(np.stack((y, np.full(61, x)), axis=1), np.ones(61)) for x in (0.0, 64.0, 30.0, 34.0, 31.0)]
    assert without_echoes(level, (64, 61)) == level[:4]


@pytest.mark.parametrize(("samples", "reach"), [(120, 8.0), (40, 5.0)])
def test_a_line_has_the_force_of_its_stronger_samples_less_by_what_an_average_over_eight_samples_shortens_it(samples, reach):
    x = np.linspace(0, 60, samples)
    points = np.stack((x, 2 * np.sin(x)), axis=1)
    strength = np.linspace(10, 30, samples)
    even = gaussian_filter1d(points, reach, axis=0, mode="nearest")
    length, shorter = (np.hypot(*np.diff(line, axis=0).T).sum() for line in (points, even))
    expected = np.quantile(strength, 0.7) * ((shorter + 2 * reach) / length) ** 2
    assert Chain(points, strength).force == pytest.approx(expected)
    straight = Chain(np.stack((x, x), axis=1), strength)
    assert straight.force == pytest.approx(np.quantile(strength, 0.7))
    assert straight.length == pytest.approx(60 * np.sqrt(2))
