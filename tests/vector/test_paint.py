"""Our own rendering against resvg's, and outlines against what they come from."""

import numpy as np
import pytest
from pictures import photo

from pixtree.kernels.image.cracks import planar_map
from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.vector.outlines.beziers import fit_curves
from pixtree.vector.outlines.pieces import flattened
from pixtree.vector.outlines.placement import place_samples
from pixtree.vector.outlines.polylines import fit_polylines
from pixtree.vector.paint import composite, cover, layers_of


def disc(size=40, radius=13.3, centre=(19.7, 20.4)):
    """An anti-aliased disc, white 255 on black, and its hard label map."""
    fine = (np.arange(size * 16) + 0.5) / 16
    inside = (fine[:, None] - centre[1]) ** 2 + (fine[None] - centre[0]) ** 2 < radius**2
    grey = inside.reshape(size, 16, size, 16).mean(axis=(1, 3)) * 255
    return np.repeat(grey[None], 3, axis=0).astype(np.float32), (grey > 127).astype(np.int32)


def placed_disc():
    planes, labels = disc()
    arcs = planar_map(labels)
    colours = np.array([[0.0] * 3, [255.0] * 3])
    return planes, arcs, colours, place_samples(arcs, planes, colours)


def test_our_rendering_is_that_of_resvg():
    drawing = vectorize(photo(), paths=150)
    difference = drawing.pixels() - rendered(str(drawing))
    assert np.sqrt((difference**2).mean()) < 2.5


def test_half_a_pixel_is_half_covered():
    labels = np.array([[0, 1]], np.int32)
    arcs = planar_map(labels)
    middle = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0]
    points = arcs.corners.astype(float)
    points[arcs.offsets[middle] : arcs.offsets[middle + 1], 0] -= 0.5
    for arc in range(len(arcs.left)):  # the ends of the other arcs follow
        ends = points[[arcs.offsets[arc], arcs.offsets[arc + 1] - 1]]
        points[[arcs.offsets[arc], arcs.offsets[arc + 1] - 1]] = np.where(ends == [1.0, 0], [0.5, 0], ends)
    order = np.array([0, 1])
    runs = cover(points, arcs.offsets, (arcs.loops, arcs.loop_offsets, arcs.shape_offsets), order, (1, 2))
    picture = composite(runs, np.array([[0.0] * 3, [200.0] * 3]), order, (1, 2))
    np.testing.assert_allclose(picture[0, :, 0], [100, 200], atol=0.5)


def test_samples_lie_on_the_edge_that_anti_aliasing_shows():
    _, arcs, _, samples = placed_disc()
    inner = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0]
    points = samples.points[samples.offsets[inner] : samples.offsets[inner + 1]]
    radius = np.hypot(points[:, 0] - 19.7, points[:, 1] - 20.4)
    assert np.abs(radius - 13.3).mean() < 0.12


def test_curves_stay_within_the_tolerance():
    _, arcs, _, samples = placed_disc()
    outlines = fit_curves(samples, arcs, unit=10, tolerance=0.3)
    points, offsets = flattened(outlines)
    inner = np.flatnonzero((arcs.left >= 0) & (arcs.right >= 0))[0]
    radius = np.hypot(*(points[offsets[inner] : offsets[inner + 1]] - [19.7, 20.4]).T)
    assert np.abs(radius - 13.3).max() < 0.5
    assert outlines.curved.sum() <= 10


def test_a_higher_price_gives_fewer_vertices():
    _, arcs, colours, samples = placed_disc()
    counts = [len(fit_polylines(samples, arcs, colours, unit=4, price=price).points) for price in (1.0, 100.0, 10_000.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]


def test_smooth_outlines_keep_the_corners_of_a_square():
    labels = np.zeros((30, 30), np.int32)
    labels[8:22, 8:22] = 1
    arcs = planar_map(labels)
    colours = np.array([[0.0] * 3, [255.0] * 3])
    planes = np.repeat(colours[labels][None, ..., 0], 3, axis=0).astype(np.float32)
    outlines = fit_curves(place_samples(arcs, planes, colours), arcs, unit=10, tolerance=0.4)
    points, _ = flattened(outlines)
    for corner in ((8, 22), (22, 8), (22, 22)):
        assert np.hypot(*(points - corner).T).min() < 0.8


def test_layers_are_counted_by_shape():
    arcs = planar_map(np.array([[0, 1], [2, 3]], np.int32))
    assert layers_of(arcs).shape == (4,)


@pytest.mark.parametrize("style", ["polyline", "smooth"])
def test_no_background_shows_between_shapes(style):
    text = str(vectorize(photo(), paths=120, style=style))
    black, white = rendered(text, "#000000").astype(int), rendered(text).astype(int)
    assert np.abs(black - white)[2:-2, 2:-2].max() <= 8
