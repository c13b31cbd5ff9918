"""The graph of the regions of a fine cut."""

import numpy as np
import pytest
from skimage import data

import pixtree
from pixtree.trees.region_graph import region_graph


@pytest.fixture(scope="module")
def tree():
    return pixtree.hierarchy(data.astronaut()[100:180, 150:250])


def test_the_regions_are_those_of_the_nested_cut(tree):
    graph = region_graph(tree, 300)
    part = tree.cut(tokens=300)
    assert (graph.labels == part.numpy()).all()
    assert (graph.size == part.areas().numpy()).all()
    pairs, length = part.adjacency()
    assert (graph.pairs == pairs.numpy()).all()
    assert (graph.length == length.numpy()).all()


def test_its_cuts_are_those_of_the_tree(tree):
    graph = region_graph(tree, 300)
    for count in (1, 2, 17, 300, 1000):
        assert (graph.paint(graph.cut(count)) == tree.cut(tokens=min(count, 300)).numpy()).all()


def test_a_pair_parts_where_its_contour_appears(tree):
    graph, contours = region_graph(tree, 300), tree.contours()
    appears = {tuple(pair): count for pair, count in zip(graph.pairs.tolist(), graph.appears.tolist(), strict=True)}
    rows, columns = np.nonzero(graph.labels[:, 1:] != graph.labels[:, :-1])
    assert rows.size > 100
    for row, column in zip(rows, columns, strict=True):
        pair = tuple(sorted((int(graph.labels[row, column]), int(graph.labels[row, column + 1]))))
        assert appears[pair] == int(contours.right[row, column])


def test_means_and_centres_are_those_of_the_pixels(tree):
    graph = region_graph(tree, 50)
    inside = graph.labels == 7
    lab = tree.features.numpy().reshape(3, 80, 100)
    assert np.allclose(graph.mean[7], lab[:, inside].mean(axis=1), atol=1e-3)
    assert np.allclose(graph.centre[7], np.argwhere(inside).mean(axis=0))


def test_coordinates_are_no_colours():
    graph = region_graph(pixtree.hierarchy(data.astronaut()[:40, :40], compactness=0.1), 20)
    assert graph.mean.shape == (20, 3)


def test_pixels_outside_a_mask_have_no_region():
    mask = np.zeros((40, 40), bool)
    mask[5:20, 5:30] = mask[30:35, 2:9] = True
    graph = region_graph(pixtree.hierarchy(data.astronaut()[:40, :40], mask=mask), 20)
    assert ((graph.labels >= 0) == mask).all()
    assert (graph.labels[~mask] == -1).all()
    assert graph.size.sum() == mask.sum()
    assert (graph.counts(np.ones((40, 40), bool)) == graph.size).all()
    assert (graph.paint(np.ones(20, np.int32)) == mask).all()


def test_one_pixel_is_one_region():
    graph = region_graph(pixtree.hierarchy(np.zeros((1, 1))))
    assert len(graph) == 1
    assert graph.pairs.shape == (0, 2)
