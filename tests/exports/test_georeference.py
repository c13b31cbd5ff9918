"""Polygons on Earth: coordinates of georeferenced files, and what is said where there are none."""

import json

import numpy as np
import PIL.Image
import pytest
import rasterio
from commands import invoke
from rasterio.features import rasterize
from rasterio.transform import Affine

from pixtree.cli.main import app
from pixtree.exports import write
from pixtree.exports.georeference import Georeference, georeference_of
from pixtree.exports.regions import geojson

LABELS = np.array([[0, 0, 1, 1], [0, 2, 2, 1], [0, 0, 0, 1]], np.int32)
NORTH_UP = Affine(10, 0, 500_000, 0, -10, 5_000_000)
TURNED = Affine.translation(500_000, 5_000_000) @ Affine.rotation(30) @ Affine.scale(10, -10)
PIXELS = np.stack([LABELS * 90] * 3, axis=2).astype(np.uint8)


def without(monkeypatch, package):
    monkeypatch.setattr("pixtree.exports.georeference.find_spec", lambda name: None if name == package else object())


def scene(path, transform=NORTH_UP, crs="EPSG:32633"):
    height, width = LABELS.shape
    options = {"driver": "GTiff", "height": height, "width": width, "count": 3, "dtype": "uint8", "photometric": "rgb"}
    with rasterio.open(path, "w", crs=crs, transform=transform, **options) as file:
        file.write(np.moveaxis(PIXELS, 2, 0))
    return path


@pytest.mark.parametrize("transform", [NORTH_UP, TURNED])
def test_polygons_rasterize_to_the_labels_they_came_from(tmp_path, transform):
    reference = georeference_of(scene(tmp_path / "scene.tif", transform))
    features = geojson(LABELS, reference=reference)["features"]
    shapes = [(feature["geometry"], feature["properties"]["label"]) for feature in features]
    assert np.array_equal(rasterize(shapes, LABELS.shape, transform=transform, fill=9), LABELS)


def test_y_runs_up_and_the_reference_system_is_named(tmp_path):
    collection = geojson(LABELS, reference=georeference_of(scene(tmp_path / "scene.tif")))
    assert collection["crs"] == {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32633"}}
    assert collection["pixtree"] == {"coordinates": "coordinates (x, y) of the file, y up, EPSG:32633 reference system"}
    outer = np.array(collection["features"][1]["geometry"]["coordinates"][0])
    assert outer[:, 1].max() == 5_000_000
    assert outer[:, 1].min() == 4_999_970
    x, y = outer[:-1].T
    assert (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() > 0  # counterclockwise, as RFC 7946 asks


def test_longitude_and_latitude_need_no_name(tmp_path):
    reference = georeference_of(scene(tmp_path / "scene.tif", Affine(0.1, 0, 10, 0, -0.1, 50), "EPSG:4326"))
    assert reference == Georeference((0.1, 0.0, 10.0, 0.0, -0.1, 50.0), "EPSG:4326")
    assert "crs" not in geojson(LABELS, reference=reference)


def test_without_a_georeference_coordinates_are_pixels_and_say_so(tmp_path):
    PIL.Image.fromarray(PIXELS).save(tmp_path / "photo.png")
    assert georeference_of(tmp_path / "photo.png") is None
    collection = geojson(LABELS)
    assert collection["pixtree"] == {"coordinates": "pixel corners (x, y), y down"}
    assert "crs" not in collection


def test_a_world_file_is_a_georeference(tmp_path):
    PIL.Image.fromarray(PIXELS).save(tmp_path / "photo.png")
    (tmp_path / "photo.pgw").write_text("10\n0\n0\n-10\n500005\n4999995\n")
    reference = georeference_of(tmp_path / "photo.png")
    assert reference.transform == (10, 0, 500_000, 0, -10, 5_000_000)
    assert str(reference) == "coordinates (x, y) of the file, y up, an unknown reference system"


def test_write_takes_the_georeference_of_the_file(tmp_path):
    write(tmp_path / "a.geojson", LABELS, image=scene(tmp_path / "scene.tif"))
    assert "crs" in json.loads((tmp_path / "a.geojson").read_text())


def test_scenes_that_need_a_window_have_colours_too(tmp_path):
    height, width = LABELS.shape
    options = {"driver": "GTiff", "height": height, "width": width, "count": 1, "dtype": "int16"}
    with rasterio.open(tmp_path / "heights.tif", "w", crs="EPSG:32633", transform=NORTH_UP, **options) as file:
        file.write(LABELS.astype(np.int16) * 1000 - 500, 1)
    write(tmp_path / "a.geojson", LABELS, image=tmp_path / "heights.tif", window=(-500, 1500))
    colours = [one["properties"]["mean_color"][0] for one in json.loads((tmp_path / "a.geojson").read_text())["features"]]
    assert colours == pytest.approx([0, 128, 255], abs=1)
    with pytest.raises(ValueError, match='got int16 from -500 to 1500; pass window="auto"'):
        write(tmp_path / "b.geojson", LABELS, image=tmp_path / "heights.tif")


@pytest.mark.parametrize("suffix", ["gpkg", "shp"])
def test_geopackage_and_shapefile_hold_the_same_regions(tmp_path, suffix):
    geopandas = pytest.importorskip("geopandas")
    path = tmp_path / f"regions.{suffix}"
    write(path, LABELS, image=scene(tmp_path / "scene.tif"))
    frame = geopandas.read_file(path)
    assert frame.crs.to_epsg() == 32633
    assert frame["label"].tolist() == [0, 1, 2]
    assert (frame.geometry.area == frame["area"] * 100).all()
    assert frame["red"].tolist() == [0, 90, 180]
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


def test_the_command_says_which_coordinates_it_wrote(tmp_path):
    PIL.Image.fromarray(PIXELS).save(tmp_path / "photo.png")
    for name, words in (
        ("photo.png", "coordinates: pixel corners (x, y), y down; the file has no georeference"),
        ("scene.tif", "coordinates: coordinates (x, y) of the file, y up, EPSG:32633 reference system"),
    ):
        source = tmp_path / name if name == "photo.png" else scene(tmp_path / name)
        result = invoke(app, ["segment", str(source), "-o", str(tmp_path / f"{source.stem}.geojson"), "--tokens", "3"])
        assert result.exit_code == 0, result.output
        assert words in result.output


def test_without_rasterio_a_georeferenced_file_names_the_cure(tmp_path, monkeypatch):
    source = scene(tmp_path / "scene.tif")
    without(monkeypatch, "rasterio")
    result = invoke(app, ["segment", str(source), "-o", str(tmp_path / "a.geojson"), "--tokens", "3"])
    assert (
        "coordinates: pixel corners (x, y), y down; the file is georeferenced: run pip install 'pixtree[geo]' for its coordinates"
        in result.output
    )
    assert "crs" not in json.loads((tmp_path / "a.geojson").read_text())


def test_without_geopandas_a_geopackage_is_refused_before_any_work(tmp_path, monkeypatch):
    without(monkeypatch, "geopandas")
    result = invoke(app, ["segment", str(tmp_path / "absent.png"), "-o", str(tmp_path / "a.gpkg")])
    assert result.exit_code == 1
    assert result.stderr == (
        "error: a GeoPackage or shapefile needs geopandas, which is not installed; "
        "run pip install 'pixtree[geo]', or write .geojson\n"
    )
