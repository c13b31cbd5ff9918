"""Samples lie on the edges that anti-aliasing shows, whichever way they run; the image's border and its outside move nothing."""

import numpy as np
import pytest

from pixtree.kernels.image.cracks import planar_map
from pixtree.vector.outlines.placement import along_border, place_samples

BLACK_WHITE = np.array([[10.0, 20, 30], [250, 230, 240]])
LEFT, TOP, RIGHT, BOTTOM = 2.3, 3.7, 8.6, 9.2  # of the box, in pixels


def box(size=12):
    """An anti-aliased white box on black, and which pixels it fills by more than a half."""
    pixel = np.arange(size)
    spans = ((LEFT, RIGHT), (TOP, BOTTOM))
    column, row = (np.clip(np.minimum(pixel + 1, high) - np.maximum(pixel, low), 0, 1) for low, high in spans)
    share = row[:, None] * column
    planes = BLACK_WHITE[0][:, None, None] + share * (BLACK_WHITE[1] - BLACK_WHITE[0])[:, None, None]
    return planes.astype(np.float32), (share > 0.5).astype(np.int32)


def samples_of(labels, planes, colours, *, flat=False):
    """Samples of the arc between regions 0 and 1; flat: in artwork, whose placement looks at the label map too."""
    arcs = planar_map(labels)
    samples = place_samples(arcs, planes, colours, **({"labels": labels} if flat else {}))
    (arc,) = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))
    return samples.points[samples.offsets[arc] : samples.offsets[arc + 1]]


@pytest.mark.parametrize("flat", [False, True], ids=["photograph", "artwork"])
@pytest.mark.parametrize("inverted", [False, True], ids=["light inside", "dark inside"])
def test_the_samples_of_a_box_lie_on_its_four_edges(flat, inverted):
    planes, labels = box()
    colours = BLACK_WHITE
    if inverted:
        planes, colours = 255 - planes, 255 - colours
    points = samples_of(labels, planes, colours, flat=flat)
    edges = np.stack((points[:, 0] - LEFT, points[:, 0] - RIGHT, points[:, 1] - TOP, points[:, 1] - BOTTOM))
    middle = (np.abs(points[:, 0] - 5.5) < 2) | (np.abs(points[:, 1] - 6.5) < 1.6)  # away from the corners
    assert np.abs(edges[:, middle]).min(axis=0) == pytest.approx(0, abs=1e-4)
    assert {int(np.abs(edges[:, k]).argmin()) for k in np.flatnonzero(middle)} == {0, 1, 2, 3}


def test_the_colour_of_one_region_may_fill_both_pixels_of_a_crack_and_the_edge_then_lies_a_pixel_farther():
    planes = np.repeat(BLACK_WHITE.T[:, [0, 0, 0, 1, 1]][:, None], 3, axis=1).astype(np.float32)
    labels = np.tile([0, 0, 1, 1, 1], (3, 1)).astype(np.int32)  # a column early
    points = samples_of(labels, planes, BLACK_WHITE)
    assert points[1:-1, 0].tolist() == [3.0] * 3


def test_regions_of_one_colour_and_the_outside_have_samples_in_the_middle_of_cracks():
    rng = np.random.default_rng(0)
    planes = rng.uniform(0, 255, (3, 6, 6)).astype(np.float32)
    labels = np.zeros((6, 6), np.int32)
    labels[2:4, 2:4] = -1  # a hole that does not belong to the image
    arcs = planar_map(labels)
    samples = place_samples(arcs, planes, np.array([[40.0, 90, 200]]))
    for arc in range(len(arcs.left)):
        corners = arcs.corners[arcs.offsets[arc] : arcs.offsets[arc + 1]]
        found = samples.points[samples.offsets[arc] : samples.offsets[arc + 1]][1:-1]
        np.testing.assert_array_equal(found, (corners[1:] + corners[:-1]) / 2)
    alike = np.tile([0, 0, 0, 1, 1, 1], (6, 1)).astype(np.int32)
    points = samples_of(alike, planes, np.array([[40.0, 90, 200], [40.0, 90, 200]]))
    assert (points[:, 0] == 3).all()


def test_an_edge_that_reaches_the_border_ends_on_it_and_a_junction_lies_between_its_samples():
    planes, _ = box()
    planes = np.ascontiguousarray(planes[:, :, 4:])  # the left edge is gone: upper and lower edges begin at the border
    labels = (planes[0] > 130).astype(np.int32)
    labels[:, 4:][labels[:, 4:] == 0] = 2  # below and above the box, on the right: junctions inside the image
    colours = np.concatenate((BLACK_WHITE, [[10.0, 20, 30]]))
    arcs = planar_map(labels)
    samples = place_samples(arcs, planes, colours)
    height, width = labels.shape
    ends = {}
    for arc in range(len(arcs.left)):
        corners = arcs.corners[arcs.offsets[arc] : arcs.offsets[arc + 1]]
        points = samples.points[samples.offsets[arc] : samples.offsets[arc + 1]]
        for corner, point, near in ((corners[0], points[0], points[1]), (corners[-1], points[-1], points[-2])):
            ends.setdefault(tuple(corner.tolist()), []).append((point, near))
    inside = 0
    for (x, y), found in ends.items():
        wanted = (x, y)
        if 0 < x < width and 0 < y < height:
            inside += 1
            wanted = np.mean([near for _, near in found], axis=0)
        for point, _ in found:
            assert point == pytest.approx(wanted, abs=1e-5)
    assert inside == 2


def test_arcs_along_the_border_are_those_beside_the_outside_of_an_image_without_mask():
    labels = np.array([[0, 0, 1], [0, 2, 1], [3, 3, 3]], np.int32).repeat(2, axis=0).repeat(2, axis=1)
    arcs = planar_map(labels)
    assert along_border(arcs).tolist() == ((arcs.left < 0) | (arcs.right < 0)).tolist()


def test_arcs_around_a_hole_of_the_image_do_not_run_along_its_border():
    labels = np.zeros((6, 6), np.int32)
    labels[2:4, 2:4] = -1
    arcs = planar_map(labels)
    first = arcs.corners[arcs.offsets[:-1]]
    assert along_border(arcs).tolist() == (first == 0).any(axis=1).tolist()


@pytest.mark.parametrize("turns", range(4))
def test_an_edge_of_artwork_that_ends_in_a_blended_pixel_counts_by_what_the_blend_leaves(turns):
    share = np.zeros((8, 8))
    share[:3, 2:5], share[3, 2:5] = 1.0, 0.6  # a bar of three pixels that ends three fifths down in row 3
    share = np.ascontiguousarray(np.rot90(share, turns))
    planes = (BLACK_WHITE[0][:, None, None] + share * (BLACK_WHITE[1] - BLACK_WHITE[0])[:, None, None]).astype(np.float32)
    points = samples_of((share > 0.5).astype(np.int32), planes, BLACK_WHITE, flat=True)
    points = (points - 4) @ np.linalg.matrix_power([[0, 1], [-1, 0]], turns) + 4  # turned back
    sides = points[:, 1] < 3.55
    assert sides.sum() >= 8
    assert np.minimum(np.abs(points[sides, 0] - 2), np.abs(points[sides, 0] - 5)) == pytest.approx(0, abs=1e-4)
    assert points[~sides, 1] == pytest.approx(3.6, abs=1e-4)


def test_both_edges_of_a_line_one_pixel_wide_leave_half_of_what_it_does_not_fill():
    share = np.zeros((5, 7))
    share[:, 3] = 0.6
    planes = (BLACK_WHITE[0][:, None, None] + share * (BLACK_WHITE[1] - BLACK_WHITE[0])[:, None, None]).astype(np.float32)
    labels = np.tile([0, 0, 0, 1, 2, 2, 2], (5, 1)).astype(np.int32)
    arcs = planar_map(labels)
    colours = np.concatenate((BLACK_WHITE, BLACK_WHITE[:1]))
    samples = place_samples(arcs, planes, colours, labels=labels)
    inner = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))
    x = sorted(samples.points[samples.offsets[arc] + 2, 0] for arc in inner)
    assert x == pytest.approx([3.2, 3.8])
