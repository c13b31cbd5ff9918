"""Ends of thin shapes keep their corners: rules, bars and stems are rectangles, also where they are one pixel wide."""

import numpy as np
import pytest
from PIL import Image

from pixtree.kernels.image.cracks import planar_map
from pixtree.tasks.vectorize import rendered, vectorize
from pixtree.vector.outlines.caps import with_caps
from pixtree.vector.outlines.placement import place_samples

DOT = (slice(40, 50), slice(5, 15))


def bars(*places):
    """White with a blue square and black bars, (60, 320, 3)."""
    image = np.full((60, 320, 3), 255, np.uint8)
    image[DOT] = (0, 0, 238)
    for rows, columns in places:
        image[rows, columns] = 0
    return image


@pytest.mark.parametrize("length", [6, 40, 280])
@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("upright", [False, True])
def test_bars_of_any_width_are_exact(length, width, upright):
    image = bars((slice(20, 20 + width), slice(20, 20 + length)))
    image = image.transpose(1, 0, 2).copy() if upright else image
    drawing = vectorize(image)
    assert drawing.artwork
    assert drawing.paths == 3
    assert (rendered(str(drawing)) == image).all()
    assert drawing.points == 12  # three rectangles


def test_rules_that_touch_stems_are_exact():
    image = bars((20, slice(20, 200)), (slice(14, 20), slice(40, 42)), (slice(21, 30), 90))
    assert (rendered(str(vectorize(image))) == image).all()


def test_a_blurred_stem_keeps_its_weight():
    """A stem of 1.5 pixels between pixels, as in small text, is a rectangle and not a wedge."""
    fine = np.full((60 * 8, 80 * 8), 255, np.uint8)
    fine[20 * 8 + 3 : 34 * 8 + 5, 30 * 8 + 2 : 30 * 8 + 14] = 0
    fine[44 * 8 : 52 * 8, 10 * 8 : 20 * 8] = 0
    image = np.asarray(Image.fromarray(fine).resize((80, 60), Image.Resampling.BOX).convert("RGB"))
    shown = rendered(str(vectorize(image)))
    assert np.abs(shown.astype(int) - image)[18:37].max() < 40
    assert (255.0 - shown).sum() == pytest.approx((255.0 - image).sum(), rel=0.03)


def samples_of(labels):
    colours = np.array([[255.0] * 3, [0.0] * 3])
    arcs = planar_map(labels)
    planes = colours[labels].transpose(2, 0, 1).astype(np.float32)
    placed = place_samples(arcs, planes, colours, labels=labels)
    return arcs, placed, *with_caps(placed, arcs)


def test_the_corners_of_an_end_are_samples():
    labels = np.zeros((9, 30), np.int32)
    labels[4, 5:25] = 1
    arcs, before, found, fixed = samples_of(labels)
    own = int(np.flatnonzero((arcs.left == 1) | (arcs.right == 1))[0])
    span = slice(found.offsets[own], found.offsets[own + 1])
    corners = {(x, y) for x, y in found.points[span][fixed[span]].tolist()}
    assert corners == {(5, 4), (25, 4), (25, 5), (5, 5)}
    assert (found.points[span][0] == found.points[span][-1]).all()
    assert len(found.points[span]) <= len(before.points) + 4


def test_discs_and_slanted_edges_have_no_ends():
    y, x = np.mgrid[:40, :40]
    for labels in (
        (x - 20) ** 2 + (y - 20) ** 2 < 150,
        (x + 4 * y > 60) & (x + 4 * y < 130),
        np.maximum(abs(x - 20), 0) < 9 - y / 5,
    ):
        _, before, found, fixed = samples_of(labels.astype(np.int32))
        assert fixed.sum() <= 2
        assert len(found.points) <= len(before.points) + 2
