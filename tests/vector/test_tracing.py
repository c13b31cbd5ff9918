"""Tracing: what quick drawings leave out, where regions of flat artwork begin, and what a tolerance means."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from pictures import photo

from pixtree.vector.paint import Coverage
from pixtree.vector.regions.flat import flat_colours
from pixtree.vector.regions.growing import grow_regions
from pixtree.vector.svg import Markup, points_of
from pixtree.vector.tracing import Source, Tracing, error_sums, pixel_edges, trace_artwork

PLANES = photo(height=30, width=40).float()


def test_a_quick_drawing_is_the_one_without_registration():
    source = Source.of(PLANES, Tracing(rounds=2), most=40)
    quick, full = source.drawing(20, quick=True), source.drawing(20)
    unregistered = replace(source, tracing=replace(source.tracing, rounds=0)).drawing(20)
    assert str(quick) == str(unregistered)
    assert str(quick) != str(full)


def test_registration_brings_the_drawing_nearer_to_the_image():
    source = Source.of(PLANES, Tracing(rounds=2), most=40)
    drawings = source.drawing(20, quick=True), source.drawing(20)
    errors = [((drawing.pixels() - PLANES.permute(1, 2, 0).numpy()) ** 2).mean() for drawing in drawings]
    assert errors[1] < errors[0]


def test_regions_of_flat_artwork_begin_on_whole_pixels_and_weigh_all_alike():
    generator = np.random.default_rng(0)
    palette = np.array([[255, 255, 255], [0, 0, 0], [200, 30, 30]])
    image = palette[np.kron(generator.integers(0, 3, (24, 30)), np.ones((3, 3), int))]
    planes = torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1), np.float32))
    flat = flat_colours(planes.numpy())
    assert flat.is_artwork
    source = Source.of(planes, Tracing(artwork=True, cells=2), most=20, flat=flat)
    expected = grow_regions(torch.from_numpy(flat.planes(planes.numpy())), most=20, cells=1, weights=torch.ones(72, 90))
    np.testing.assert_array_equal(source.regions.base, expected.base)
    np.testing.assert_array_equal(source.regions.growth, expected.growth)
    assert grow_regions(torch.from_numpy(flat.planes(planes.numpy())), most=20, weights=torch.ones(72, 90)).most != expected.most


def wave(amplitude):
    """An anti-aliased edge that winds around the middle of an image, its label map and its colours."""
    fine = (np.arange(48 * 8) + 0.5) / 8
    edge = 24 + amplitude * np.sin(fine * 2 * np.pi / 16)
    inside = (fine[:, None] > edge[None]).reshape(48, 8, 48, 8).mean(axis=(1, 3))
    planes = np.repeat(255 * inside[None], 3, axis=0).astype(np.float32)
    return (inside > 0.5).astype(np.int32), planes, np.array([[0.0] * 3, [255.0] * 3])


def test_a_larger_tolerance_draws_artwork_with_fewer_pieces():
    points = [points_of(str(trace_artwork(*wave(0.5), tolerance=tolerance, markup=Markup()))) for tolerance in (0.1, 0.4, 4.0)]
    assert points == sorted(points, reverse=True)
    assert points[0] > points[1] > points[2] >= 8


def test_edges_are_counted_in_both_directions():
    labels = np.array([[0, 1, 0, 1], [0, 1, 0, 1], [0, 1, 0, 1]])
    assert pixel_edges(labels) == pixel_edges(labels.T) == 9 + 14


def test_what_an_image_has_more_than_its_drawing_is_summed_by_the_share_of_every_shape():
    begin, end = np.array([0, 1, 3], np.int32), np.array([2, 2, 4], np.int32)
    coverage = Coverage(np.array([0, 1, 3]), begin, end, np.array([1.0, 0.5, 1.0], np.float32))
    planes = np.array([[10, 20, 30, 40], [1, 1, 1, 1], [0, 0, 0, 0]], np.float32)
    shown = np.array([[4, 0, 0], [5, 0, 0], [6, 0, 0], [7, 0, 9]], np.float32)
    error, area = error_sums(coverage, np.array([1, 0]), planes, shown)
    assert error.tolist() == [[0.5 * 15 + 33, 1.5, -9], [21, 2, 0]]
    assert area.tolist() == [1.5, 2]


@pytest.mark.parametrize(("count", "wanted"), [(1, 1), (12, 12), (500, 40)])
def test_a_drawing_has_as_many_shapes_as_asked_for_up_to_the_most(count, wanted):
    assert Source.of(PLANES, Tracing(style="polygon"), most=40).drawing(min(count, 40)).paths == wanted
