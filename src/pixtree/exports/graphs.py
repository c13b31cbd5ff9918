"""Graphs of regions: which of them touch, for networkx and for the merging of scikit-image."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.exports.labels import LabelsLike, numbered
from pixtree.exports.pictures import displayed, region_colours
from pixtree.trees.partition import Partition

if TYPE_CHECKING:
    import networkx

    from pixtree.images import Image


def region_graph(labels: LabelsLike, image: "Image | None" = None, **reading: Any) -> "networkx.Graph[int]":
    """A networkx graph with one node per label and one edge per pair that touches.

    Nodes have `area` in pixels and `box` (top, left, bottom, right), edges `boundary`, the count of pixel edges between the two.
    With an image nodes have `mean_color` (R, G, B in 0..255), too, and edges `weight`, the distance of the two colours.
    reading: window= and page= of the image.
    """
    import networkx

    present, boxes, areas, pairs, shared, colours = _parts(labels, image, reading)
    graph: networkx.Graph[int] = networkx.Graph()
    for region, label in enumerate(present):
        graph.add_node(label, area=areas[region], box=tuple(boxes[region]))
        if colours is not None:
            graph.nodes[label]["mean_color"] = tuple(colours[region].tolist())
    for (first, second), boundary in zip(pairs, shared, strict=True):
        graph.add_edge(present[first], present[second], boundary=boundary)
        if colours is not None:
            graph.edges[present[first], present[second]]["weight"] = float(np.linalg.norm(colours[first] - colours[second]))
    return graph


def skimage_rag(labels: LabelsLike, image: "Image", **reading: Any) -> Any:
    """scikit-image's RAG, as its rag_mean_color makes it with connectivity=1, for cut_threshold, merge_hierarchical and others."""
    from skimage import graph as of_skimage

    present, _, areas, pairs, _, colours = _parts(labels, image, reading)
    assert colours is not None
    graph: Any = of_skimage.RAG()  # type: ignore[no-untyped-call]
    for region, label in enumerate(present):
        total = colours[region] * areas[region]
        graph.add_node(
            label, **{"labels": [label], "pixel count": areas[region], "total color": total, "mean color": colours[region]}
        )
    for first, second in pairs:
        graph.add_edge(present[first], present[second], weight=float(np.linalg.norm(colours[first] - colours[second])))
    graph.max_id = max(present)
    return graph


def _parts(
    labels: LabelsLike, image: "Image | None", reading: dict[str, Any]
) -> tuple[list[int], list[list[int]], list[int], list[list[int]], list[int], NDArray[np.float64] | None]:
    """Labels that occur; of each its box and area; pairs of places that touch and their shared edges; mean colours."""
    present, regions = numbered(labels)
    partition = Partition(torch.from_numpy(regions)[None])
    pairs, shared = partition.adjacency()
    colours = None if image is None else region_colours(displayed(image, regions.shape, **reading), regions)
    return present.tolist(), partition.boxes().tolist(), partition.areas().tolist(), pairs.tolist(), shared.tolist(), colours
