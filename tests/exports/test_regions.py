import json
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pixtree.exports import write
from pixtree.exports.labels import numbered
from pixtree.exports.regions import coco, geojson, run_lengths

quick = settings(deadline=None, max_examples=60)  # the first example may compile or import
label_maps = arrays(np.int32, st.tuples(st.integers(1, 8), st.integers(1, 8)), elements=st.integers(-1, 2))


def blocks(seed=0, size=60, cell=5):
    """A label map of irregular regions, many not connected, some outside."""
    coarse = np.random.default_rng(seed).integers(-1, 12, (size // cell, size // cell))
    return np.kron(coarse, np.ones((cell, cell), dtype=int)).astype(np.int32)


def shoelace(ring):
    x, y = np.array(ring[:-1]).T
    return (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2


def polygons_of(feature):
    geometry = feature["geometry"]
    return [geometry["coordinates"]] if geometry["type"] == "Polygon" else geometry["coordinates"]


@quick
@given(labels=label_maps)
def test_polygons_have_the_area_of_their_pixels_and_the_winding_of_rfc_7946(labels):
    features = geojson(labels)["features"]
    assert [feature["properties"]["label"] for feature in features] == np.unique(labels[labels >= 0]).tolist()
    for feature in features:
        area = 0
        for outer, *holes in polygons_of(feature):
            assert shoelace(outer) > 0
            assert all(shoelace(hole) < 0 for hole in holes)
            area += shoelace(outer) + sum(map(shoelace, holes))
        assert area == feature["properties"]["area"] == (labels == feature["properties"]["label"]).sum()


@quick
@given(labels=label_maps)
def test_rings_are_closed_turn_at_every_corner_and_never_meet_themselves(labels):
    for feature in geojson(labels)["features"]:
        for ring in chain.from_iterable(polygons_of(feature)):
            assert ring[0] == ring[-1]
            corners = np.array(ring[:-1])
            step = np.roll(corners, -1, axis=0) - corners
            assert ((step != 0).sum(axis=1) == 1).all()  # along x or y
            assert ((step != 0) != (np.roll(step, -1, axis=0) != 0)).all()  # and then along the other
            assert len(np.unique(corners, axis=0)) == len(corners)


def test_a_label_of_two_pieces_is_a_multipolygon():
    first, second = geojson(np.array([[0, 1, 0]]))["features"]
    assert first["geometry"]["type"] == "MultiPolygon"
    assert second["geometry"] == {"type": "Polygon", "coordinates": [[[1, 0], [2, 0], [2, 1], [1, 1], [1, 0]]]}


def test_a_feature_has_its_mean_colour_when_the_image_is_known():
    image = np.array([[[0, 10, 255], [1, 20, 255], [9, 9, 9]]], dtype=np.uint8)
    features = geojson(np.array([[0, 0, 1]]), image)["features"]
    assert features[0]["properties"] == {"label": 0, "area": 2, "mean_color": [0.5, 15.0, 255.0]}


def test_an_image_of_another_size_is_refused():
    with pytest.raises(ValueError, match="one size"):
        geojson(np.zeros((2, 2), dtype=int), np.zeros((2, 3, 3), dtype=np.uint8))


@quick
@given(labels=label_maps)
def test_run_lengths_are_those_of_pycocotools(labels):
    mask_tools = pytest.importorskip("pycocotools.mask")
    present, regions = numbered(labels)
    expected = [mask_tools.encode(np.asfortranarray(labels == label, dtype=np.uint8)) for label in present]
    assert run_lengths(regions) == [code["counts"].decode() for code in expected]


@pytest.mark.parametrize("labels", [blocks(), np.zeros((300, 1200), dtype=np.int32)])
def test_annotations_decode_to_the_masks(labels):
    mask_tools = pytest.importorskip("pycocotools.mask")
    record = coco(labels, file_name="photo.jpg")
    assert record["images"] == [{"id": 1, "width": labels.shape[1], "height": labels.shape[0], "file_name": "photo.jpg"}]
    for annotation in record["annotations"]:
        code = annotation["segmentation"]
        np.testing.assert_array_equal(mask_tools.decode(code), labels == annotation["id"] - 1)
        assert annotation["area"] == mask_tools.area(code)
        assert annotation["bbox"] == mask_tools.toBbox(code).tolist()
        assert annotation["category_id"] == record["categories"][0]["id"]


def test_both_formats_are_json_files(tmp_path):
    labels = blocks()
    write(tmp_path / "regions.geojson", labels, image=np.zeros((60, 60), dtype=np.uint8))
    write(tmp_path / "regions.coco.json", labels)
    assert json.loads((tmp_path / "regions.geojson").read_text())["type"] == "FeatureCollection"
    assert json.loads((tmp_path / "regions.coco.json").read_text()) == coco(labels)


def test_an_image_without_regions_gives_empty_records():
    outside = np.full((2, 3), -1)
    assert geojson(outside)["features"] == []
    assert coco(outside)["annotations"] == []
