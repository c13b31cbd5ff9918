"""Graphs of regions for networkx and scikit-image."""

import networkx
import numpy as np
from pictures import photo
from skimage import graph

import pixtree
from pixtree.exports.regions import region_graph, skimage_rag

PICTURE = photo(height=24, width=30)
PIXELS = PICTURE.permute(1, 2, 0).numpy()
PARTITION = pixtree.hierarchy(PICTURE).cut(tokens=9)
LABELS = PARTITION.numpy()


def test_nodes_are_regions_and_edges_are_neighbours():
    found = region_graph(PARTITION)
    pairs, shared = PARTITION.adjacency()
    assert networkx.is_connected(found)
    assert {(min(edge), max(edge)): data["boundary"] for *edge, data in found.edges(data=True)} == {
        tuple(pair): edges for pair, edges in zip(pairs.tolist(), shared.tolist(), strict=True)
    }
    assert [found.nodes[label]["area"] for label in range(9)] == PARTITION.areas().tolist()
    assert [list(found.nodes[label]["box"]) for label in range(9)] == PARTITION.boxes().tolist()


def test_labels_keep_their_numbers_and_outside_is_no_node():
    found = region_graph(np.array([[7, 7, 3], [-1, -1, 3]]))
    assert sorted(found.nodes) == [3, 7]
    assert found.edges[3, 7] == {"boundary": 1}


def test_colours_make_weights():
    found = region_graph(LABELS, PIXELS)
    first, second, data = next(iter(found.edges(data=True)))
    means = [PIXELS[label == LABELS].mean(axis=0) for label in (first, second)]
    assert np.allclose(data["weight"], np.linalg.norm(means[0] - means[1]))
    assert np.allclose(found.nodes[first]["mean_color"], means[0])


def test_the_rag_is_that_of_scikit_image():
    ours, theirs = skimage_rag(LABELS, PIXELS), graph.rag_mean_color(PIXELS, LABELS, connectivity=1)
    theirs.remove_edges_from(list(networkx.selfloop_edges(theirs)))
    assert set(ours.nodes) == set(theirs.nodes)
    assert {frozenset(edge) for edge in ours.edges} == {frozenset(edge) for edge in theirs.edges}
    for label in ours.nodes:
        assert ours.nodes[label]["labels"] == theirs.nodes[label]["labels"]
        assert ours.nodes[label]["pixel count"] == theirs.nodes[label]["pixel count"]
        for name in ("mean color", "total color"):
            assert np.allclose(ours.nodes[label][name], theirs.nodes[label][name])
    for first, second in ours.edges:
        assert np.isclose(ours.edges[first, second]["weight"], theirs.edges[first, second]["weight"])


def test_scikit_image_merges_the_regions_of_the_rag():
    rag = skimage_rag(LABELS, PIXELS)
    weights = sorted(data["weight"] for *_, data in rag.edges(data=True))
    merged = graph.cut_threshold(LABELS, rag, weights[len(weights) // 2])
    assert 1 < len(np.unique(merged)) < 9
