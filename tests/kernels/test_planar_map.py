"""Planar maps: every boundary once, loops that tile, polygons that give the labels back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pixtree.kernels.image.cracks import PlanarMap, planar_map, rings
from pixtree.tasks.vectorize import rendered
from pixtree.trees.partition import Partition
from pixtree.vector.drawing import Drawing
from pixtree.vector.outlines.pieces import exact_outlines
from pixtree.vector.paint import layers_of
from pixtree.vector.svg import Markup

LABELS = hnp.arrays(np.int64, st.tuples(st.integers(1, 9), st.integers(1, 9)), elements=st.integers(-1, 3))


def canonical(labels):
    return Partition.from_labels(labels).numpy()


def loop_area(arcs: PlanarMap, region: int) -> float:
    """Signed area of a region's loops by the shoelace formula."""
    total = 0.0
    for loop in range(arcs.shape_offsets[region], arcs.shape_offsets[region + 1]):
        for half in arcs.loops[arcs.loop_offsets[loop] : arcs.loop_offsets[loop + 1]]:
            arc = half if half >= 0 else ~half
            x, y = arcs.corners[arcs.offsets[arc] : arcs.offsets[arc + 1]].T.astype(float)
            area = float((x[:-1] * y[1:] - x[1:] * y[:-1]).sum()) / 2
            total += area if half >= 0 else -area
    return total


@settings(max_examples=60, deadline=None)
@given(LABELS)
def test_loops_enclose_each_region_and_every_arc_has_its_two_sides(labels):
    labels = canonical(labels)
    if labels.max() < 0:
        return
    arcs = planar_map(labels)
    areas = np.bincount(labels[labels >= 0])
    assert [loop_area(arcs, region) for region in range(arcs.count)] == areas.tolist()
    used = np.bincount(np.where(arcs.loops >= 0, arcs.loops, ~arcs.loops), minlength=len(arcs.left))
    assert (used == (arcs.left >= 0).astype(int) + (arcs.right >= 0)).all()
    assert ((used == 1) | (used == 2)).all()


@settings(max_examples=40, deadline=None)
@given(LABELS)
def test_arcs_have_the_cracks_of_the_rings_each_once(labels):
    labels = canonical(labels)
    arcs = planar_map(labels)
    steps = len(arcs.corners) - len(arcs.left)
    sides = int((arcs.left >= 0).astype(int) @ np.diff(arcs.offsets) - (arcs.left >= 0).sum())
    sides += int((arcs.right >= 0).astype(int) @ np.diff(arcs.offsets) - (arcs.right >= 0).sum())
    assert sides == len(rings(labels).corners)
    cracks = {
        tuple(sorted((tuple(a), tuple(b))))
        for i in range(len(arcs.left))
        for a, b in zip(
            arcs.corners[arcs.offsets[i] : arcs.offsets[i + 1] - 1].tolist(),
            arcs.corners[arcs.offsets[i] + 1 : arcs.offsets[i + 1]].tolist(),
            strict=True,
        )
    }
    assert len(cracks) == steps


def test_a_region_inside_another_is_a_hole_of_it():
    labels = np.zeros((5, 5), np.int32)
    labels[2, 2] = 1
    arcs = planar_map(labels)
    assert arcs.shape_offsets.tolist() == [0, 2, 3]
    assert loop_area(arcs, 0) == 24


@settings(max_examples=40, deadline=None)
@given(LABELS)
def test_touching_shapes_never_share_a_layer_and_six_layers_are_enough(labels):
    labels = canonical(labels)
    if labels.max() < 0:
        return
    arcs = planar_map(labels)
    layers = layers_of(arcs)
    inner = (arcs.left >= 0) & (arcs.right >= 0)
    assert (layers[arcs.left[inner]] != layers[arcs.right[inner]]).all()
    assert layers.max() < 6


@pytest.mark.parametrize("seed", range(3))
def test_polygons_rendered_crisply_are_the_label_map(seed):
    generator = np.random.default_rng(seed)
    labels = canonical(np.kron(generator.integers(0, 3, (9, 11)), np.ones((2, 3), int)))
    arcs = planar_map(labels)
    count = arcs.count
    colours = np.stack([np.arange(count) % 256, np.arange(count) // 256 * 40, np.full(count, 77)], axis=1).astype(float)
    drawing = Drawing(arcs, exact_outlines(arcs), colours, layers_of(arcs), Markup("crisp"))
    assert (rendered(str(drawing)) == colours[labels]).all()
    assert (drawing.pixels() == colours[labels]).all()
