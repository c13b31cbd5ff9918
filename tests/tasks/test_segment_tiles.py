"""Labels of pictures in tiles, from file to file and on the command line."""

import numpy as np
import pytest
import rasterio
import tifffile
from affine import Affine
from commands import invoke
from pictures import photo

import pixtree
from pixtree.cli.main import app

NORTH_UP = Affine(10.0, 0.0, 500_000.0, 0.0, -10.0, 5_000_000.0)


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A georeferenced picture of 200 × 300 pixels."""
    path = tmp_path_factory.mktemp("scene") / "scene.tif"
    bands = photo(height=200, width=300).numpy()
    size = {"count": 3, "height": 200, "width": 300, "dtype": "uint8"}
    with rasterio.open(
        path, "w", driver="GTiff", tiled=True, blockxsize=64, blockysize=64, crs="EPSG:32633", transform=NORTH_UP, **size
    ) as file:  # fmt: skip
        file.write(bands)
    return path


@pytest.mark.parametrize("name", ["labels.tif", "labels.npy"])
def test_labels_are_written_whole_and_with_their_place_on_earth(tmp_path, scene, name):
    steps = []
    pixtree.segment_tiles(scene, tmp_path / name, tokens=30, tile=128, tell=lambda done, tiles: steps.append((done, tiles)))
    labels = np.load(tmp_path / name) if name.endswith("npy") else tifffile.imread(tmp_path / name)
    assert labels.shape == (200, 300)
    assert labels.dtype == np.int32
    assert pixtree.Partition.from_labels(labels).numpy().tolist() == labels.tolist()  # connected, and numbered by first pixel
    assert labels.max() == 29
    assert steps == [(number, 6) for number in range(1, 7)]
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if name.endswith("tif"):
        with rasterio.open(tmp_path / name) as file:
            assert str(file.crs) == "EPSG:32633"
            assert file.transform == NORTH_UP


@pytest.mark.parametrize(
    ("output", "options", "words"),
    [
        ("labels.png", {"tokens": 5}, "labels of tiles go to a .tif, .tiff, .npy file"),
        ("labels.tif", {"tokens": 5, "tile": 20}, "a tile has at least 128 pixels a side"),
        ("labels.tif", {"tokens": 0}, "at least 1 region"),
        ("labels.tif", {"tokens": 50_000}, "regions to merge, got 50000 tokens; ask for fewer"),
    ],
)
def test_mistakes_leave_nothing_behind(tmp_path, scene, output, options, words):
    with pytest.raises(ValueError, match=words):
        pixtree.segment_tiles(scene, tmp_path / output, **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_has_tiles(tmp_path, scene):
    done = invoke(app, ["segment", str(scene), "-o", str(tmp_path / "labels.tif"), "--tokens", "30", "--tiles", "128"])
    assert done.exit_code == 0
    assert f"30 regions: {tmp_path / 'labels.tif'}" in done.stdout
    pixtree.segment_tiles(scene, tmp_path / "same.tif", tokens=30, tile=256)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "labels.tif"), tifffile.imread(tmp_path / "same.tif"))


def test_tiles_go_with_tokens_alone(tmp_path, scene):
    done = invoke(app, ["segment", str(scene), "-o", str(tmp_path / "labels.tif"), "--tiles", "128", "--relax"])
    assert done.exit_code == 2
    assert "--tiles goes with --tokens and --window alone" in done.stderr
