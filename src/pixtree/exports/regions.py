"""Regions as data for other programs: GeoJSON polygons, COCO annotations, and graphs for networkx and scikit-image."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from pixtree.exports.georeference import PIXELS, Georeference
from pixtree.exports.labels import LabelsLike, numbered
from pixtree.exports.pictures import displayed, region_colours
from pixtree.kernels.image.cracks import Rings, rings, without_collinear
from pixtree.trees.partition import Partition

if TYPE_CHECKING:
    import networkx

    from pixtree.images import Image

Json = dict[str, Any]
LONGITUDE_LATITUDE = "EPSG:4326"  # the default of GeoJSON
LONGEST_CODE = 7  # characters of a 32-bit count, 5 bits each


def geojson(labels: LabelsLike, image: "Image | None" = None, reference: Georeference | None = None) -> Json:
    """A GeoJSON FeatureCollection with one feature per label.

    Coordinates are those of the georeference, as `georeference_of` reads it from a file: y runs up, and the member `crs` names the
    reference system unless it is longitude and latitude. Without one they are pixel corners (x, y) with y downwards, not longitude
    and latitude. The member `pixtree` names which. Rings are closed, wound as RFC 7946 asks (outer rings positive in the shoelace
    formula over (x, y), holes negative), with corners only where they turn. A label of several 4-connected pieces is a
    MultiPolygon. Properties: `label`, `area` in pixels, and with an image `mean_color` (R, G, B in 0..255).
    """
    present, regions = numbered(labels)
    colours = None if image is None else region_colours(displayed(image, regions.shape), regions).round(2).tolist()
    areas = np.bincount(regions[regions >= 0]).tolist()
    features = []
    for region, polygons in enumerate(_polygons(regions, len(present))):
        properties: Json = {"label": int(present[region]), "area": areas[region]}
        if colours is not None:
            properties["mean_color"] = colours[region]
        placed = polygons if reference is None else [[_placed(ring, reference) for ring in rings] for rings in polygons]
        features.append({"type": "Feature", "properties": properties, "geometry": _geometry(placed)})
    return {"type": "FeatureCollection", **_system(reference), "features": features}


def coco(labels: LabelsLike, *, file_name: str = "") -> Json:
    """COCO records of one image: `images`, `categories` (one, named region) and one annotation per label.

    Segmentations are compressed run lengths, byte for byte those of pycocotools for the same masks; boxes are x, y, width,
    height. Annotation ids are label + 1, as the format counts from 1.
    """
    present, regions = numbered(labels)
    height, width = regions.shape
    corners = Partition(torch.from_numpy(regions)[None]).boxes().tolist()
    boxes = [[left, top, right - left, bottom - top] for top, left, bottom, right in corners]
    areas = np.bincount(regions[regions >= 0]).tolist()
    annotations = [
        {
            "id": int(present[region]) + 1,
            "image_id": 1,
            "category_id": 1,
            "segmentation": {"size": [height, width], "counts": code},
            "area": areas[region],
            "bbox": boxes[region],
            "iscrowd": 0,
        }
        for region, code in enumerate(run_lengths(regions))
    ]
    return {
        "images": [{"id": 1, "width": width, "height": height, "file_name": file_name}],
        "categories": [{"id": 1, "name": "region", "supercategory": ""}],
        "annotations": annotations,
    }


def region_graph(labels: LabelsLike, image: "Image | None" = None, **reading: Any) -> "networkx.Graph[int]":
    """A networkx graph with one node per label and one edge per pair that touches.

    Nodes have `area` in pixels and `box` (top, left, bottom, right), edges `boundary`, the count of pixel edges between the two.
    With an image nodes have `mean_color` (R, G, B in 0..255) as well, and edges `weight`, the distance of the two colours.
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


def _polygons(regions: NDArray[np.int32], count: int) -> list[list[Any]]:
    """Per region its polygons, each a list of closed rings with the outer one first."""
    pieces = Partition.from_labels(regions).numpy()
    found = without_collinear(rings(pieces, simple=True))
    numbers, first = np.unique(pieces, return_index=True)
    region_of = dict(zip(numbers.tolist(), regions.ravel()[first].tolist(), strict=True))
    polygons: list[list[Any]] = [[] for _ in range(count)]
    for index, (piece, area) in enumerate(zip(found.region.tolist(), found.area.tolist(), strict=True)):
        of_region = polygons[region_of[piece]]
        if area > 0:  # a 4-connected piece has one outer ring, and it comes first
            of_region.append([])
        of_region[-1].append(_closed(found, index))
    return polygons


def _closed(found: Rings, index: int) -> list[list[int]]:
    corners: list[list[int]] = found.ring(index).tolist()
    return [*corners, corners[0]]


def _placed(ring: list[list[int]], reference: Georeference) -> list[list[float]]:
    """A closed ring in the coordinates of the file, wound as before."""
    corners = reference.placed(ring)
    return corners[::-1] if reference.mirrors else corners


def _system(reference: Georeference | None) -> Json:
    """Members that name the coordinates; `crs` is that of the first GeoJSON, which GDAL and QGIS read and write."""
    members: Json = {"pixtree": {"coordinates": PIXELS if reference is None else str(reference)}}
    if reference is not None and reference.crs is not None and reference.crs != LONGITUDE_LATITUDE:
        authority, _, code = reference.crs.partition(":")
        name = f"urn:ogc:def:crs:{authority}::{code}" if authority == "EPSG" else reference.crs
        members["crs"] = {"type": "name", "properties": {"name": name}}
    return members


def _geometry(polygons: list[list[Any]]) -> Json:
    if len(polygons) == 1:
        return {"type": "Polygon", "coordinates": polygons[0]}
    return {"type": "MultiPolygon", "coordinates": polygons}


def run_lengths(regions: NDArray[np.int32]) -> list[str]:
    """The masks of a numbered map's regions (all that occur) as COCO's compressed run-length strings.

    A mask is read column by column as counts of zeros and ones in turn, zeros first. All masks at once: the runs of the
    map, sorted by region, are the ones; the gaps between the runs of a region are its zeros. O(HW).
    """
    sequence = regions.T.ravel()
    start = np.flatnonzero(np.diff(sequence, prepend=-2))
    end = np.append(start[1:], len(sequence))
    owner = sequence[start]
    order = np.argsort(owner, kind="stable")
    order = order[owner[order] >= 0]
    counts, owner = _counts(owner[order], start[order], end[order], len(sequence))
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    return _strings(counts, np.append(first, len(counts)))


def _counts(
    owner: NDArray[np.int32], start: NDArray[np.int64], end: NDArray[np.int64], total: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Counts of zeros and ones in turn, region after region, and the region of each; from runs by region and place."""
    last = np.diff(owner, append=-1) != 0
    before = np.roll(np.where(last, 0, end), 1)  # where the region's previous run ended
    triples = np.stack((start - before, end - start, total - end), axis=1)
    kept = np.ones(triples.shape, dtype=bool)
    kept[:, 2] = last & (end < total)  # zeros after the last run, if there are any
    return triples[kept], np.broadcast_to(owner[:, None], triples.shape)[kept]


def _strings(counts: NDArray[np.int64], offsets: NDArray[np.int64]) -> list[str]:
    """COCO's text of counts: from the fourth on the difference to the last but one, in 5-bit characters, low bits first.

    The sixth bit of a character marks that more follow; 48 is added to land in printable ASCII.
    """
    place = np.arange(len(counts)) - np.repeat(offsets[:-1], np.diff(offsets))
    rest = counts - np.where(place > 2, np.roll(counts, 2), 0)
    characters = np.zeros((len(counts), LONGEST_CODE), dtype=np.uint8)
    alive = np.ones(len(counts), dtype=bool)
    for column in range(LONGEST_CODE):
        low, rest = rest & 31, rest >> 5
        more = rest != np.where(low & 16, -1, 0)  # bit 4 of the last character is the sign
        characters[:, column] = np.where(alive, low + 32 * more + 48, 0)
        alive &= more
    ends = np.cumsum((characters > 0).sum(axis=1))
    text = characters[characters > 0].tobytes().decode("ascii")
    borders = np.append(0, ends)[offsets].tolist()
    return [text[left:right] for left, right in pairwise(borders)]
